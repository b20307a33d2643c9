"""Records that are put into a cluster and read from it without a client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker import Cluster
from ottla.broker.cluster.cluster import AsyncCluster
from ottla.errors import InvalidTopicError
from tests.broker.worlds import Body, World, batch

Run = Callable[[Body], object]


def values(cluster: AsyncCluster | Cluster, topic: str = "orders") -> list[bytes | None]:
    return [record.value for record in cluster.dump(topic)]


def partitions(cluster: AsyncCluster, topic: str = "orders") -> int:
    return len(cluster.controller.state.image.topics[topic].partitions)


def test_a_topic_that_is_not_there_is_made_for_its_records(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3) as cluster:
            assert cluster.seed("orders", [b"1", b"2"]) == 0
            assert cluster.seed("orders", [b"3"]) == 2
            assert values(cluster) == [b"1", b"2", b"3"]
            assert partitions(cluster) == 1
            # The nodes hear of it as of any topic, and open what is there.
            await cluster.wait_for(
                lambda: all(("orders", 0) in node.replicas.partitions for node in cluster.nodes.values()),
                "replicas",
            )
            assert values(cluster) == [b"1", b"2", b"3"]
            client = await world.client(cluster, cluster.leader("orders"))
            assert (await client.produce("orders", batch(b"4"))).base_offset == 3
            assert values(cluster) == [b"1", b"2", b"3", b"4"]

    run(body)


@pytest.mark.parametrize(("default", "partition", "made"), [(1, 0, 1), (1, 4, 5), (6, 2, 6), (6, 6, 7)])
def test_it_has_the_partitions_that_it_needs_and_the_default_at_least(
    run: Run, default: int, partition: int, made: int
) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, config={"num.partitions": default}) as cluster:
            assert cluster.seed("orders", [b"1"], partition) == 0
            assert partitions(cluster) == made
            assert [record.partition for record in cluster.dump("orders")] == [partition]

    run(body)


def test_a_topic_is_not_made_for_what_cannot_be_stored(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1) as cluster:
            wrong: list[tuple[Any, list[Any], Any, type[Exception], str]] = [
                ("orders", [b"1"] * 1000 + ["text"], 0, TypeError, "record 'text'"),
                ("orders", [b"1"], -1, ValueError, "partition=-1"),
                ("orders", [b"1"], "0", TypeError, "partition='0'"),
                (7, [b"1"], 0, TypeError, "topic=7"),
                ("no/name", [b"1"], 0, InvalidTopicError, "no/name"),
            ]
            for topic, records, partition, kind, said in wrong:
                with pytest.raises(kind, match=said):
                    cluster.seed(topic, records, partition)
            assert not cluster.controller.state.image.topics
            await cluster.create_topic("orders")
            with pytest.raises(ValueError, match="no partition 1 of a topic 'orders'"):
                cluster.seed("orders", [b"1"], 1)
            with pytest.raises(TypeError, match="record 'text'"):
                cluster.seed("orders", [b"1"] * 1000 + ["text"])  # type: ignore[list-item]
            assert values(cluster) == []

    run(body)


def test_records_that_wait_for_a_node_are_there_when_it_hears_of_them(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1) as cluster:
            cluster.cut_controller(1)
            cluster.seed("orders", [b"1"])
            cluster.seed("orders", [b"2"])
            assert values(cluster) == [b"1", b"2"]
            cluster.heal_controller(1)
            await cluster.wait_for(
                lambda: ("orders", 0) in cluster.node(1).replicas.partitions, "the replica"
            )
            cluster.seed("orders", [b"3"])
            assert values(cluster) == [b"1", b"2", b"3"]

    run(body)


def test_from_another_thread_every_node_knows_the_topic_at_once() -> None:
    with Cluster(brokers=3) as cluster:
        assert cluster.seed("orders", [b"1"], partition=2) == 0
        nodes = cluster._cluster.nodes.values()
        assert all(("orders", 2) in node.replicas.partitions for node in nodes)
        assert values(cluster) == [b"1"]
