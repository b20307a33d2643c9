"""Lag tools see a query that has `ottla.commit.group`: Kafka's own, and ours, on both kinds of cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import ottla
from ottla import TopicPartition
from ottla.errors import GroupIdNotFoundError
from tests.interop import confluent, tools
from tests.interop.brokers import Broker
from tests.interop.waiting import eventually

pytestmark = pytest.mark.kafka

WITHIN = 120


GROUP = "spark-progress"


def start(
    spark: SparkSession, broker: Broker, topic: str, folder: Path, trigger: dict[str, Any]
) -> StreamingQuery:
    options = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "ottla.commit.group": GROUP,
    }
    stream = spark.readStream.format("ottla").options(**options).load()
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(**trigger).start()


def produce(client: ottla.Client, topic: str, partition: int, count: int) -> None:
    for number in range(count):
        client.produce(topic, b"%d" % number, partition=partition)
    client.flush()


def lag(client: ottla.Client, topic: str) -> list[tuple[int | None, int | None]]:
    """Committed offset and lag of both partitions; of none where the group has not come so far."""
    try:
        found = client.admin.group_lag(GROUP)
    except GroupIdNotFoundError:
        return []
    partitions = [found.get(TopicPartition(topic, number)) for number in range(2)]
    return [(each.committed, each.lag) for each in partitions if each is not None]


def test_a_query_is_seen_by_tools_for_groups_while_it_runs_and_when_it_has_ended(
    both_connectors: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    spark, topic = both_connectors, confluent.create_topic(broker.bootstrap, partitions=2)
    with ottla.Client(broker.bootstrap) as client:
        produce(client, topic, partition=0, count=10)
        ended = start(spark, broker, topic, tmp_path, {"availableNow": True})
        assert ended.awaitTermination(WITHIN)
        eventually(
            lambda: lag(client, topic) == [(10, 0), (0, 0)], "the progress of a query that ended", WITHIN
        )

        produce(client, topic, partition=1, count=5)
        assert lag(client, topic) == [(10, 0), (0, 5)]
        described = tools.output(broker.bootstrap, "kafka-consumer-groups", "--describe", "--group", GROUP)
        shown = sorted(line.split()[1:6] for line in described.splitlines() if topic in line)
        assert shown == [[topic, "0", "10", "10", "0"], [topic, "1", "0", "5", "5"]]

        running = start(spark, broker, topic, tmp_path, {"processingTime": "0 seconds"})
        eventually(lambda: lag(client, topic) == [(10, 0), (5, 0)], "the running query's progress", WITHIN)
        produce(client, topic, partition=0, count=1)
        running.processAllAvailable()
        running.stop()
        # Spark ends the source's process, and does not wait for it.
        eventually(lambda: lag(client, topic) == [(11, 0), (5, 0)], "the last progress", WITHIN)
        assert client.admin.describe_group(GROUP).members == ()
