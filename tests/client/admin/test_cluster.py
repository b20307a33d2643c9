"""Administration of the cluster as a whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker.cluster.options import TopicSpec
from ottla.broker.server.faults import error
from ottla.client.topic_partition import TopicPartition
from ottla.errors import (
    ClusterAuthorizationFailedError,
    FeatureUpdateFailedError,
    InvalidUpdateVersionError,
    UnsupportedApiError,
)
from tests.client.requests.support import requester
from tests.client.worlds import Body, World

Run = Callable[[Body], object]


def test_the_cluster_is_described(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, racks=["a", "b", None]) as cluster:
            admin = requester(world, cluster).admin
            described = await admin.describe_cluster()
            assert described.cluster_id == cluster.cluster_id
            assert [(each.node_id, each.rack) for each in described.brokers] == [
                (1, "a"),
                (2, "b"),
                (3, None),
            ]
            assert described.controller_id in (1, 2, 3)
            listed = await admin.list_brokers()
            assert [(each.host, each.port) for each in listed] == [
                (node.host, node.port) for node in cluster.nodes.values()
            ]

    run(body)


def test_versions_are_those_of_the_broker_that_was_asked(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(max_versions={"Fetch": 11}) as cluster:
            versions = await requester(world, cluster).admin.api_versions(1)
            assert versions["Fetch"].high == 11
            assert versions["ApiVersions"].low == 0

    run(body)


def test_features_are_described_and_updated(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            admin = requester(world, cluster).admin
            features = await admin.describe_features()
            levels, supported = (
                features.finalized["metadata.version"],
                features.supported["metadata.version"],
            )
            assert supported.low <= levels.high <= supported.high
            await admin.update_features({"metadata.version": supported.high})
            await admin.update_features({"metadata.version": supported.high}, validate_only=True)
            after = await admin.describe_features(broker=1)
            assert after.finalized["metadata.version"].high == supported.high
            with pytest.raises((FeatureUpdateFailedError, InvalidUpdateVersionError)):
                await admin.update_features({"metadata.version": supported.high + 1})
            # As in Apache Kafka, whose latest level has no way back.
            with pytest.raises(InvalidUpdateVersionError, match="Unsafe metadata downgrade is not supported"):
                await admin.update_features({"metadata.version": supported.high - 1}, kind="unsafe_downgrade")

    run(body)


def test_log_directories_are_described_with_the_replicas_in_them(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(2, topics={"orders": TopicSpec(1, 2)}) as cluster:
            admin = requester(world, cluster).admin
            cluster.seed("orders", [b"x"] * 3)
            everything = await admin.describe_log_dirs()
            assert {node: list(paths) for node, paths in sorted(everything.items())} == {
                1: ["/ottla/node-1"],
                2: ["/ottla/node-2"],
            }
            directory = everything[cluster.leader("orders")][f"/ottla/node-{cluster.leader('orders')}"]
            replica = directory.replicas[TopicPartition("orders", 0)]
            assert replica.size > 0
            assert (replica.offset_lag, replica.is_future) == (0, False)
            assert (directory.error, directory.cordoned) == (None, False)
            # As long as the broker does not know them.
            assert (directory.total_bytes, directory.usable_bytes) == (None, None)
            assert list(await admin.describe_log_dirs([2])) == [2]

    run(body)


def test_a_broker_without_a_response_does_not_keep_the_log_directories_of_others(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(2) as cluster:
            admin = requester(world, cluster).admin
            cluster.faults.add("DescribeLogDirs", node=1, action=error("CLUSTER_AUTHORIZATION_FAILED"))
            results = await admin.describe_log_dirs([1, 2])
            assert (list(results), list(results.errors)) == ([2], [1])
            assert isinstance(results.errors[1], ClusterAuthorizationFailedError)
            with pytest.raises(ClusterAuthorizationFailedError):
                await admin.describe_log_dirs([1])

    run(body)


def test_log_directories_need_a_broker_that_has_the_api(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(2, max_versions={"DescribeLogDirs": -1}) as cluster:
            admin = requester(world, cluster).admin
            with pytest.raises(UnsupportedApiError, match="DescribeLogDirs"):
                await admin.describe_log_dirs()
            with pytest.raises(UnsupportedApiError, match="DescribeLogDirs"):
                await admin.describe_log_dirs([1])

    run(body)
