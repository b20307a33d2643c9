"""ApiVersions: what is served, to whom, and which features there are."""

from __future__ import annotations

import pytest

from ottla.broker import Cluster
from ottla.wire.messages import ApiVersionsRequest, ApiVersionsResponse
from tests.broker.handlers.requests import connect, send


def versions(
    cluster: Cluster, version: int = 4, name: str = "ottla", software: str = "1.0"
) -> ApiVersionsResponse:
    request = ApiVersionsRequest()
    if version >= 3:
        request = ApiVersionsRequest(client_software_name=name, client_software_version=software)
    return send(cluster, request, version, ApiVersionsResponse)


def served(response: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}


@pytest.mark.parametrize("version", range(5))
def test_every_version_lists_the_apis_by_key(kafka: Cluster, version: int) -> None:
    response = versions(kafka, version)
    assert response.error_code == 0
    assert [api.api_key for api in response.api_keys] == sorted(served(response))


def test_the_versions_are_those_of_a_broker_of_apache_kafka() -> None:
    expected = {
        0: (0, 13),
        1: (4, 18),
        2: (1, 11),
        3: (0, 13),
        10: (0, 6),
        18: (0, 4),
        21: (0, 2),
        22: (0, 5),
        23: (2, 4),
        32: (1, 4),
        60: (0, 2),
        61: (0, 0),
        71: (0, 0),
        72: (0, 0),
        75: (0, 0),
    }
    with Cluster() as cluster:
        assert 71 not in served(versions(cluster))
        cluster.telemetry.subscribe("*")
        listed = served(versions(cluster))
    assert {key: listed.get(key) for key in expected} == expected


def test_what_has_no_handler_is_not_listed() -> None:
    with Cluster(max_versions={"DescribeProducers": -1, "Metadata": 8}) as cluster:
        listed = served(versions(cluster))
        assert 61 not in listed
        assert listed[3] == (0, 8)


@pytest.mark.parametrize("bad", ["", "-a", "a b", "a/", "ä"])
def test_software_of_no_proper_name_or_version_is_refused(kafka: Cluster, bad: str) -> None:
    for response in (versions(kafka, 3, name=bad), versions(kafka, 4, software=bad)):
        assert response.error_code == 42
        assert response.api_keys == []


def test_an_unknown_version_is_answered_in_version_0(kafka: Cluster) -> None:
    body = bytes.fromhex("0012 0063 00000007 ffff 00".replace(" ", ""))
    with connect(kafka) as connection:
        response = connection.exchange(len(body).to_bytes(4) + body)
    assert response == bytes.fromhex("00000007 0023 00000001 0012 0000 0004".replace(" ", ""))


def test_features_that_may_be_off_are_listed_since_version_4(kafka: Cluster) -> None:
    old = {feature.name: feature.min_version for feature in versions(kafka, 3).supported_features}
    new = {feature.name: feature.max_version for feature in versions(kafka, 4).supported_features}
    assert all(minimum > 0 for minimum in old.values())
    assert new["metadata.version"] == 30


def test_the_cluster_runs_at_the_highest_level_of_each_feature(kafka: Cluster) -> None:
    response = versions(kafka)
    assert response.finalized_features_epoch >= 0
    finalized = {feature.name: feature.max_version_level for feature in response.finalized_features}
    assert finalized == {feature.name: feature.max_version for feature in response.supported_features}


def test_a_release_whose_ends_of_transactions_bump_no_epoch_has_no_transaction_version() -> None:
    for release, level in [("3.9", None), ("4.0", 2)]:
        with Cluster(max_versions=release) as cluster:
            response = versions(cluster, 3)
            finalized = {feature.name: feature.max_version_level for feature in response.finalized_features}
            assert finalized.get("transaction.version") == level
