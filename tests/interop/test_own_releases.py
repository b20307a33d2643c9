"""Ottla's client against the embedded cluster in the guise of older releases, from 2.4 on.

Apache Kafka is here in one version only; what each release serves is from its own tables
(broker/cluster/releases.py).
"""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

import ottla
from ottla.broker import Cluster
from ottla.broker.cluster.releases import RELEASES
from ottla.client.topic_partition import TopicPartition
from tests.interop.brokers import EmbeddedBroker
from tests.interop.own import read_all, take, values_of, with_client


@pytest.mark.parametrize("release", RELEASES)
def test_records_are_written_and_read_and_topics_managed(release: str) -> None:
    async def body(kafka: ottla.AsyncClient) -> None:
        created = await kafka.admin.create_topic("orders", 2, 1, configs={"retention.ms": 5000})
        assert (created.topic_id is None) == (RELEASES.index(release) < RELEASES.index("2.8"))
        await kafka.admin.create_partitions("orders", 3)
        for number in range(30):
            await kafka.produce("orders", b"%d" % number, partition=number % 3, headers=[("h", b"1")])
        await kafka.flush()
        table = pa.table({"value": [b"t"] * 3, "partition": pa.array([0, 1, 2], pa.int32())})
        await (await kafka.produce_batch("orders", table))
        found = [(record.partition, record.value) for record in await read_all(kafka, "orders")]
        wanted = [(number % 3, b"%d" % number) for number in range(30)] + [(part, b"t") for part in range(3)]
        assert sorted(found) == sorted(wanted)

        first = TopicPartition("orders", 0)
        assert (await kafka.admin.list_offsets("orders"))[first].offset == 11
        assert await kafka.admin.delete_records({first: 4}) == {first: 4}
        assert (await kafka.admin.list_offsets("orders", "earliest"))[first].offset == 4
        configs = await kafka.admin.describe_configs(topic="orders")
        assert configs["retention.ms"].value == "5000"
        await kafka.admin.alter_configs(topic="orders", set={"retention.ms": 7000})
        assert (await kafka.admin.describe_configs(topic="orders"))["retention.ms"].value == "7000"
        described = await kafka.admin.describe_cluster()
        assert [each.node_id for each in described.brokers] == [1]
        assert "orders" in await kafka.admin.list_topics()
        await kafka.admin.delete_topic("orders")
        assert "orders" not in await kafka.admin.list_topics()

    with Cluster(brokers=1, max_versions=release) as cluster:
        with_client(EmbeddedBroker(cluster), body)


@pytest.mark.parametrize("release", ["2.4", "2.7", "2.8", "3.0", "3.6"])
def test_leaders_that_move_are_followed(release: str) -> None:
    async def body(kafka: ottla.AsyncClient) -> None:
        wanted = []
        async with kafka.consume("orders", start="earliest") as consumer:
            for turn in range(4):
                deliveries = [await kafka.produce("orders", b"%d" % (100 * turn + n)) for n in range(100)]
                wanted += [b"%d" % (100 * turn + n) for n in range(100)]
                # In the middle of it, where the client has requests under way.
                others = [node for node in cluster.nodes if node != cluster.leader("orders", 0)]
                await asyncio.to_thread(cluster.move_leader, "orders", 0, others[turn % 2])
                for delivery in deliveries:
                    await delivery
            assert await take(consumer, 400) == wanted
        assert await values_of(kafka, "orders") == wanted

    with Cluster(brokers=3, topics={"orders": 1}, max_versions=release) as cluster:
        with_client(EmbeddedBroker(cluster), body, metadata_min_age_ms=50)
