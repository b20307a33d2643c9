"""What the tests of running pipelines share: a cluster with orders and customers, and a pipeline that joins them."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ottla
from ottla.broker import Cluster
from ottla.client.topic_partition import TopicPartition
from ottla.spark.pipeline.model import Pipeline, TopicSink, TopicSource
from ottla.spark.pipeline.progress import BatchProgress
from ottla.spark.pipeline.running import RunningPipeline
from tests.interop.nodes import wait_until_marked

WITHIN_S = 120.0
"""Of a micro-batch; only a failure takes that long."""
ORDERS = TopicSource(
    topics=("orders",), format="json", schema="id bigint, customer int, cents bigint", dead_letter="dead"
)
CUSTOMERS = TopicSource(
    topics=("customers",), format="json", schema="customer int, country string", table=True
)
JOIN = "SELECT id, country, cents FROM orders JOIN customers USING (customer)"


def create_topics(kafka: Cluster) -> None:
    for topic, partitions in (("orders", 2), ("customers", 1), ("dead", 1), ("priced", 1)):
        kafka.create_topic(topic, partitions)


def pipeline(kafka: Cluster, folder: Path, **differing: Any) -> Pipeline:
    """Orders joined with customers, to the topic priced."""
    given: dict[str, Any] = {
        "name": "revenue",
        "kafka": {"bootstrap.servers": kafka.bootstrap},
        "sources": {"orders": ORDERS, "customers": CUSTOMERS},
        "transform": JOIN,
        "sinks": {"priced": TopicSink(topic="priced", key="id")},
        "checkpoint": str(folder / "checkpoint"),
    }
    return Pipeline(**{**given, **differing})


def only_orders(kafka: Cluster, folder: Path, transform: Any, **sink: Any) -> Pipeline:
    """The same without customers, and with another transform."""
    sinks = {"priced": TopicSink(topic="priced", **sink)}
    return replace(pipeline(kafka, folder), sources={"orders": ORDERS}, transform=transform, sinks=sinks)


def order(number: int, customer: int = 1, cents: int = 100) -> bytes:
    return json.dumps({"id": number, "customer": customer, "cents": cents}).encode()


def put_customer(kafka: Cluster, number: int, country: str | None) -> None:
    value = None if country is None else json.dumps({"customer": number, "country": country}).encode()
    with ottla.Client(kafka.bootstrap) as client:
        client.produce("customers", value, key=str(number).encode()).result(timeout=30)


def committed(kafka: Cluster, topic: str) -> list[Any]:
    """What readers of committed records get; none of them would have to wait for an open transaction."""
    wait_until_marked(kafka.bootstrap)
    with ottla.Client(kafka.bootstrap, isolation_level="read_committed") as client:
        partitions = [
            TopicPartition(topic, each.partition) for each in client.admin.describe_topic(topic).partitions
        ]
        ends = client.admin.list_offsets(partitions, "latest")
        stable = client.admin.list_offsets(partitions, "latest", isolation="read_committed")
        assert [stable[each].offset for each in partitions] == [ends[each].offset for each in partitions]
        with client.consume(topic, start="earliest", stop="latest") as consumer:
            return list(consumer)


def values(kafka: Cluster, topic: str) -> list[dict[str, Any]]:
    """In order."""
    found = [json.loads(record.value) for record in committed(kafka, topic)]
    return sorted(found, key=lambda value: list(value.values()))


def until_read(running: RunningPipeline, rows: int) -> Sequence[BatchProgress]:
    """The micro-batches until so many rows were read."""
    found: list[BatchProgress] = []
    until = time.monotonic() + WITHIN_S
    while sum(batch.rows_in for batch in found) < rows:
        assert time.monotonic() < until, (found, running.states)
        assert not running.wait(0.05), "the pipeline has ended by itself"
        found += running.progress()
    return found
