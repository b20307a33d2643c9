"""What is deleted is gone at once: memory does not wait for the collector, which a quiet cluster seldom starts."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

import ottla
from ottla.broker import AsyncCluster


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def fill(cluster: AsyncCluster, topic: str, partitions: int) -> None:
    async with ottla.AsyncClient(cluster.bootstrap) as client:
        for index in range(partitions):
            await (await client.produce(topic, b"1", partition=index))


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_deleted_topic_leaves_none_of_its_logs_behind(replicas: int) -> None:
    async def main() -> None:
        async with AsyncCluster(brokers=3) as cluster:
            await cluster.create_topic("orders", 6, replicas=replicas)
            await fill(cluster, "orders", 6)
            logs = [
                weakref.ref(replica.log)
                for node in cluster.nodes.values()
                for replica in node.replicas.partitions.values()
            ]
            assert len(logs) == 6 * replicas
            await cluster.delete_topic("orders")
            await cluster.wait_for(lambda: not any(log() for log in logs), "that every log is gone")
            assert not any(len(node.context.fetch_sessions) for node in cluster.nodes.values())

    asyncio.run(main())


def test_a_node_deletes_what_was_taken_from_it_while_it_was_down() -> None:
    async def main() -> None:
        async with AsyncCluster(brokers=3, topics={"orders": 2, "payments": 2, "audit": 1}) as cluster:
            for topic, partitions in {"orders": 2, "payments": 2, "audit": 1}.items():
                await fill(cluster, topic, partitions)
            (volume,) = cluster.volumes.of(3).values()
            await cluster.stop_node(3)
            assert len(volume.directories()) == 5
            await cluster.delete_topic("orders")
            async with ottla.AsyncClient(cluster.bootstrap) as client:
                await client.admin.alter_partition_reassignments({ottla.TopicPartition("audit", 0): [1, 2]})
            await cluster.start_node(3)
            payments = cluster.nodes[3].replicas.partitions
            assert volume.directories() == sorted(replica.log.directory for replica in payments.values())
            assert sorted(payments) == [("payments", 0), ("payments", 1)]
            await cluster.wait_until_in_sync("payments")
            assert [replica.log.log_end_offset for replica in payments.values()] == [1, 1]

    asyncio.run(main())


def test_topics_that_stay_are_followed_when_others_are_deleted() -> None:
    async def main() -> None:
        async with AsyncCluster(brokers=3, topics={"orders": 3, "payments": 3}) as cluster:
            await fill(cluster, "orders", 3)
            await cluster.delete_topic("orders")
            await fill(cluster, "payments", 3)
            ends = [
                [node.replicas.partitions["payments", index].log.log_end_offset for index in range(3)]
                for node in cluster.nodes.values()
            ]
            assert ends == [[1, 1, 1]] * 3

    asyncio.run(main())
