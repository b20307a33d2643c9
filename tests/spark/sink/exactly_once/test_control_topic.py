"""The control topic: made, grown, and read from its end."""

from __future__ import annotations

import asyncio

import pytest

from ottla.client.client import AsyncClient
from ottla.spark.sink.exactly_once.control_records import DECISION_KEY, BatchDecision
from ottla.spark.sink.exactly_once.control_topic import (
    ensure_control_topic,
    ensure_slot,
    last_decision,
    last_marker,
    produce_control,
)
from tests.spark.sink.exactly_once.batches import NAMES, SinkWorld, with_sink


async def _decide(kafka: AsyncClient, batch_id: int, *, commit: bool = True) -> None:
    transaction = await kafka.begin_transaction()
    await produce_control(kafka, NAMES.decisions, DECISION_KEY, BatchDecision("q", batch_id, 1, ()).encode())
    await (transaction.commit() if commit else transaction.abort())


def test_it_is_compacted_and_made_once() -> None:
    async def scenario(sink: SinkWorld) -> None:
        kafka = sink.client()
        made = await asyncio.gather(*(ensure_control_topic(kafka, NAMES) for _ in range(3)))
        assert made == [8, 8, 8]
        configs = await kafka.admin.describe_configs(topic=NAMES.control_topic)
        assert configs["cleanup.policy"].value == "compact"

    with_sink(scenario)


def test_it_is_made_as_it_is_wanted() -> None:
    async def scenario(sink: SinkWorld) -> None:
        kafka = sink.client()
        await ensure_control_topic(
            kafka, NAMES, replication_factor=3, configs={"min.insync.replicas": 2, "segment.ms": 60_000}
        )
        described = await kafka.admin.describe_topic(NAMES.control_topic)
        assert all(len(each.replicas) == 3 for each in described.partitions)
        configs = await kafka.admin.describe_configs(topic=NAMES.control_topic)
        assert (configs["min.insync.replicas"].value, configs["cleanup.policy"].value) == ("2", "compact")

    with_sink(scenario, brokers=3)


def test_it_grows_for_tasks_that_need_it_at_once() -> None:
    async def scenario(sink: SinkWorld) -> None:
        await ensure_control_topic(sink.client(), NAMES)
        await asyncio.gather(*(ensure_slot(sink.client(), NAMES, slot) for slot in (3, 8, 9, 20)))
        assert await ensure_control_topic(sink.client(), NAMES) == 32

    with_sink(scenario)


def test_a_producer_that_knew_the_smaller_topic_writes_to_the_new_partition() -> None:
    async def scenario(sink: SinkWorld) -> None:
        kafka = sink.client()
        await ensure_control_topic(kafka, NAMES)
        await _decide(kafka, 0)
        await ensure_slot(sink.client(), NAMES, 8)
        transaction = await kafka.begin_transaction()
        await produce_control(kafka, NAMES.markers(8), b"marker", b"{}")
        await transaction.commit()

    with_sink(scenario)


@pytest.mark.parametrize("version", [1, 2])
def test_the_last_committed_record_is_found_behind_many_that_are_not(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        kafka = sink.client()
        await ensure_control_topic(kafka, NAMES)
        assert await last_decision(kafka, NAMES) is None
        for batch_id in range(3):
            await _decide(kafka, batch_id)
        for _ in range(40):
            await _decide(kafka, 7, commit=False)
        found = await last_decision(kafka, NAMES)
        assert found is not None
        assert found.batch_id == 2
        # One that is open is not seen, nor what comes behind it.
        transaction = await kafka.begin_transaction()
        await produce_control(kafka, NAMES.decisions, DECISION_KEY, BatchDecision("q", 8, 1, ()).encode())
        await kafka.flush()
        assert await last_decision(sink.client(), NAMES) == found
        await transaction.abort()
        assert await last_marker(kafka, NAMES, 5) is None

    with_sink(scenario, version)
