"""A sink in a simulated world, and a batch of it as Spark runs one: start, tasks, commit.

Every part has a client of its own, as in Spark, where each runs in another process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.client.client import AsyncClient
from ottla.errors import DeliveryError
from ottla.spark.sink.exactly_once.control_records import BatchDecision, SlotTransaction
from ottla.spark.sink.exactly_once.driver import _decide, commit_batch, start_batch
from ottla.spark.sink.exactly_once.endings import PATIENCE_S
from ottla.spark.sink.exactly_once.names import SinkNames
from ottla.spark.sink.exactly_once.task import Attempt, begin_attempt
from ottla.spark.sink.exactly_once.values import BatchStart, TaskOutcome
from tests.client.worlds import World, in_simulation

TOPIC = "orders"
PARTITIONS = 2
QUERY = "query-1"
NAMES = SinkNames("billing")
TIMEOUT_MS = 60_000
OPTIONS: dict[str, Any] = {
    "linger_ms": 0,
    "request_timeout_ms": 2000,
    "delivery_timeout_ms": 6000,
    "default_api_timeout_ms": 20_000,
    "metadata_min_age_ms": 50,
    "retry_backoff_max_ms": 200,
}
OLDER = "3.9"
"""The last release before transaction.version 2."""


class SinkWorld:
    """A cluster with a topic, and the batches that are written to it."""

    def __init__(self, world: World, cluster: AsyncCluster) -> None:
        self.world = world
        self.cluster = cluster
        self._clients: list[AsyncClient] = []

    def client(self) -> AsyncClient:
        return self.client_called("ottla")

    def client_called(self, client_id: str) -> AsyncClient:
        """One that faults can be meant for."""
        client = self.world.client(self.cluster, transactional_id="unused", client_id=client_id, **OPTIONS)
        self._clients.append(client)
        return client

    async def close(self) -> None:
        """While the cluster is there. Records that an attempt could not deliver were its error, and are no news."""
        for client in self._clients:
            with suppress(DeliveryError):
                await client.close()

    async def start(self, names: SinkNames = NAMES, **options: Any) -> BatchStart:
        return await start_batch(self.client(), names, **{"timeout_ms": TIMEOUT_MS, **options})

    async def begin(self, start: BatchStart, batch_id: int, slot: int, query_id: str = QUERY) -> Attempt:
        return await begin_attempt(self.client(), start, query_id=query_id, batch_id=batch_id, slot=slot)

    async def write(self, attempt: Attempt, *rows: str) -> TaskOutcome:
        """The rows of a task, if it does not skip them."""
        if attempt.skips:
            return await attempt.prepare(0)
        for number, row in enumerate(rows):
            await attempt._kafka.produce(TOPIC, row.encode(), partition=number % PARTITIONS)
        return await attempt.prepare(len(rows))

    async def task(self, start: BatchStart, batch_id: int, slot: int, *rows: str) -> TaskOutcome:
        return await self.write(await self.begin(start, batch_id, slot), *rows)

    async def tasks(self, start: BatchStart, batch_id: int, *rows: list[str]) -> list[TaskOutcome]:
        return [await self.task(start, batch_id, slot, *each) for slot, each in enumerate(rows)]

    async def commit(self, batch_id: int, outcomes: list[TaskOutcome], **options: Any) -> None:
        await commit_batch(self.client(), QUERY, batch_id, outcomes, **options)

    async def late(self, slot: int, names: SinkNames = NAMES) -> None:
        """An attempt that was started by nobody knows whom takes a slot, and aborts what is open there."""
        kafka = self.client()
        await kafka.take_transactional_id(names.slot_id(slot))
        await kafka.init_transactions()

    async def decide_only(self, batch_id: int, outcomes: list[TaskOutcome]) -> None:
        """A driver that dies right behind its decision."""
        decision = BatchDecision(
            QUERY,
            batch_id,
            len(outcomes),
            tuple(
                SlotTransaction(each.slot, each.prepared) for each in outcomes if each.prepared is not None
            ),
        )
        await _decide(self.client(), outcomes[0].start, decision, PATIENCE_S)

    async def batch(self, batch_id: int, *rows: list[str]) -> list[TaskOutcome]:
        """A whole one; a list of rows for each task."""
        start = await self.start()
        outcomes = await self.tasks(start, batch_id, *rows)
        await self.commit(batch_id, outcomes)
        return outcomes

    async def committed(self) -> list[str]:
        """What a reader of committed records sees up to the end, in order of text; it waits for nothing open."""
        reader = self.world.client(self.cluster, isolation_level="read_committed", **OPTIONS)
        ends = await reader.admin.list_offsets(TOPIC, isolation="read_committed")
        values: list[str] = []
        for partition, end in ends.items():
            if not end.offset:
                continue
            consumer = reader.consume(partition, start="earliest", stop={partition: end.offset})
            async with consumer:
                values += [record.value.decode() async for record in consumer]
        return sorted(values)

    async def open_ids(self) -> list[str]:
        """The transactional ids with open transactions."""
        listed = await self.client().admin.list_transactions(states=["Ongoing"])
        return list(listed)


Scenario = Callable[[SinkWorld], Awaitable[None]]


def with_sink(scenario: Scenario, version: int = 2, brokers: int = 1, seed: int = 1) -> None:
    """Runs it in a simulation, with this transaction.version."""

    async def body(world: World) -> None:
        options: dict[str, Any] = {} if version == 2 else {"max_versions": OLDER}
        config = {
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
            "transaction.state.log.num.partitions": "3",
        }
        async with world.cluster(brokers, topics={TOPIC: PARTITIONS}, config=config, **options) as cluster:
            sink = SinkWorld(world, cluster)
            await scenario(sink)
            await sink.close()

    in_simulation(body, seed)
