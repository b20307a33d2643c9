"""A sink as a query that dies leaves it, before its decision or after it: on sockets, without Spark."""

from __future__ import annotations

from ottla.broker import Cluster
from ottla.client.blocking.client import Client
from ottla.client.client import AsyncClient
from ottla.spark.sink.exactly_once.control_records import BatchDecision, SlotTransaction
from ottla.spark.sink.exactly_once.driver import _decide, commit_batch, start_batch
from ottla.spark.sink.exactly_once.names import SinkNames
from ottla.spark.sink.exactly_once.task import begin_attempt
from ottla.spark.sink.exactly_once.values import BatchStart, TaskOutcome
from tests.interop import nodes

BILLING = SinkNames("billing")
QUERY = "query-1"
_PATIENCE = 60.0


def _client(cluster: Cluster) -> Client:
    """Every part of a batch has one of its own, as it has a process of its own in Spark."""
    return Client(cluster.bootstrap, transactional_id="unused", linger_ms=0)


def start(cluster: Cluster, names: SinkNames = BILLING) -> BatchStart:
    with _client(cluster) as client:
        return client.run(lambda kafka: start_batch(kafka, names))


def prepare(cluster: Cluster, begun: BatchStart, batch: int, slot: int, *rows: bytes) -> TaskOutcome:
    """A task: its rows are in partition `slot` of orders, in a transaction that is open."""

    async def task(kafka: AsyncClient) -> TaskOutcome:
        attempt = await begin_attempt(kafka, begun, query_id=QUERY, batch_id=batch, slot=slot)
        for row in rows:
            await kafka.produce("orders", row, partition=slot)
        return await attempt.prepare(len(rows))

    with _client(cluster) as client:
        return client.run(task)


def commit(cluster: Cluster, batch: int, outcomes: list[TaskOutcome]) -> None:
    with _client(cluster) as client:
        client.run(lambda kafka: commit_batch(kafka, QUERY, batch, outcomes))


def decide_and_die(cluster: Cluster, begun: BatchStart, batch: int, outcomes: list[TaskOutcome]) -> None:
    """The driver writes its decision, and gets no further."""
    listed = tuple(
        SlotTransaction(each.slot, each.prepared) for each in outcomes if each.prepared is not None
    )
    decision = BatchDecision(QUERY, batch, len(outcomes), listed)
    with _client(cluster) as client:
        client.run(lambda kafka: _decide(kafka, begun, decision, _PATIENCE))


def committed(cluster: Cluster) -> list[bytes]:
    """What readers of committed records get to see once every transaction that was ended has its markers."""
    nodes.wait_until_marked(cluster.bootstrap)
    with Client(cluster.bootstrap, isolation_level="read_committed") as client:
        ends = client.admin.list_offsets("orders", isolation="read_committed")
        stops = {partition: end.offset for partition, end in ends.items() if end.offset}
        if not stops:
            return []
        with client.consume(*stops, start="earliest", stop=stops) as consumer:
            return sorted(bytes(record.value) for record in consumer)
