"""Older releases of Apache Kafka: which versions a cluster that plays one of them serves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker.cluster.releases import RELEASES, max_versions_of
from ottla.wire import api_named
from ottla.wire.messages import ApiVersionsRequest, ApiVersionsResponse
from tests.broker.worlds import Body, World

Run = Callable[[Body], object]


def test_a_release_stands_for_the_highest_version_of_each_api() -> None:
    assert max_versions_of(None) == {}
    assert max_versions_of({"Fetch": 11}) == {"Fetch": 11}
    oldest, newest = max_versions_of(RELEASES[0]), max_versions_of(RELEASES[-1])
    assert (oldest["Produce"], oldest["DescribeCluster"]) == (8, -1)
    assert (newest["Produce"], newest["DescribeCluster"]) == (13, 2)
    with pytest.raises(ValueError, match=r"max_versions='1.0': .*2.4, 2.5"):
        max_versions_of("1.0")


def test_versions_only_grow_from_release_to_release() -> None:
    releases = [max_versions_of(release) for release in RELEASES]
    for name in releases[0]:
        api_named(name)
        versions = [release[name] for release in releases]
        assert versions == sorted(versions)


def test_an_older_kafka_can_be_played(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(max_versions="2.8") as cluster:
            client = await world.client(cluster)
            answer = await client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
            highest = {api.api_key: api.max_version for api in answer.api_keys}
            assert (highest[0], highest[1], highest[3]) == (9, 12, 11)
            assert 75 not in highest
        async with world.cluster(max_versions={"Fetch": 11, "DescribeCluster": -1}) as cluster:
            client = await world.client(cluster)
            answer = await client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
            highest = {api.api_key: api.max_version for api in answer.api_keys}
            assert highest[1] == 11
            assert 60 not in highest

    run(body)
