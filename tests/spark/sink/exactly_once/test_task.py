"""One attempt of a task: whom it fences, what it skips, and when it refuses to write."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from ottla.client.client import AsyncClient
from ottla.errors import KafkaError, TransactionPendingError
from ottla.spark.sink.exactly_once import task
from ottla.spark.sink.exactly_once.control_topic import last_marker
from ottla.spark.sink.exactly_once.errors import ForeignSinkError, OutdatedBatchError
from ottla.spark.sink.exactly_once.names import SinkNames
from ottla.spark.sink.exactly_once.values import LastDecision
from tests.spark.sink.exactly_once.batches import NAMES, QUERY, TOPIC, SinkWorld, with_sink

BOTH = pytest.mark.parametrize("version", [1, 2])


@BOTH
def test_a_second_attempt_fences_the_first_and_aborts_what_it_has_prepared(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        start = await sink.start()
        zombie = await sink.task(start, 0, 0, "a", "b")
        again = await sink.task(start, 0, 0, "a", "b")
        assert zombie.prepared is not None
        assert again.prepared is not None
        assert again.prepared.epoch > zombie.prepared.epoch
        await sink.commit(0, [again])
        assert await sink.committed() == ["a", "b"]

    with_sink(scenario, version)


@BOTH
def test_an_attempt_that_was_fenced_writes_nothing_more_and_has_no_outcome(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        start = await sink.start()
        zombie = await sink.begin(start, 0, 0)
        again = await sink.task(start, 0, 0, "a")
        with pytest.raises(KafkaError):
            await sink.write(zombie, "zombie")
        await zombie.fail()
        await sink.commit(0, [again])
        assert await sink.committed() == ["a"]

    with_sink(scenario, version)


@BOTH
def test_an_attempt_without_rows_still_fences_the_one_before(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        start = await sink.start()
        await sink.task(start, 0, 0, "a")
        empty = await sink.task(start, 0, 0)
        assert (empty.prepared, empty.skipped, empty.rows) == (None, False, 0)
        assert await sink.open_ids() == []

    with_sink(scenario, version)


@BOTH
def test_an_attempt_that_fails_leaves_nothing_open(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        start = await sink.start()
        attempt = await sink.begin(start, 0, 0)
        await attempt._kafka.produce(TOPIC, b"a", partition=0)
        await attempt._kafka.flush()
        assert await sink.open_ids() == [NAMES.slot_id(0)]
        await attempt.fail()
        assert await sink.open_ids() == []
        # One that has its outcome is the driver's.
        prepared = await sink.begin(start, 0, 0)
        await sink.write(prepared, "a")
        await prepared.fail()
        assert await sink.open_ids() == [NAMES.slot_id(0)]

    with_sink(scenario, version)


@BOTH
def test_one_client_serves_slot_after_slot_and_batch_after_batch(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        kafka = sink.client()
        sink.client = lambda: kafka  # type: ignore[method-assign]
        await sink.batch(0, ["a"], ["b"], [])
        await sink.batch(1, ["c"], [], ["d", "e"])
        assert await sink.committed() == ["a", "b", "c", "d", "e"]
        assert await sink.open_ids() == []

    with_sink(scenario, version)


def test_an_outcome_can_be_sent_to_another_process() -> None:
    async def scenario(sink: SinkWorld) -> None:
        outcome = await sink.task(await sink.start(), 0, 0, "a")
        assert pickle.loads(pickle.dumps(outcome)) == outcome

    with_sink(scenario)


def test_another_query_is_refused_before_anything_is_skipped() -> None:
    async def scenario(sink: SinkWorld) -> None:
        await sink.batch(5, ["a"])
        start = await sink.start()
        with pytest.raises(ForeignSinkError, match="this is query query-2"):
            await sink.begin(start, 0, 0, query_id="query-2")

    with_sink(scenario)


@BOTH
def test_a_marker_that_the_last_decision_does_not_explain_fails_the_attempt(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        await sink.batch(0, ["a"])
        old = await sink.start()
        await sink.batch(1, ["b"])
        old = replace(old, driver=(await sink.start()).driver)
        with pytest.raises(OutdatedBatchError, match="another driver with this sink id has gone on"):
            await sink.begin(old, 1, 0)

    with_sink(scenario, version)


@BOTH
def test_of_a_batch_that_is_not_complete_only_slots_without_a_marker_are_written(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        await sink.batch(0, ["a"], ["b"])
        start = await sink.start()
        incomplete = replace(start, last=LastDecision(QUERY, 0, 3, complete=False))
        assert (await sink.task(incomplete, 0, 0, "x")).skipped
        assert (await sink.task(incomplete, 0, 1, "y")).skipped
        assert not (await sink.task(incomplete, 0, 2, "c")).skipped

    with_sink(scenario, version)


def test_numbers_below_zero_are_refused() -> None:
    async def scenario(sink: SinkWorld) -> None:
        start = await sink.start()
        with pytest.raises(ValueError, match="batch id -1"):
            await sink.begin(start, -1, 0)
        with pytest.raises(ValueError, match="slot -1"):
            await sink.begin(start, 0, -1)

    with_sink(scenario)


def test_an_attempt_that_cannot_begin_sends_nothing_behind_the_next_one() -> None:
    async def scenario(sink: SinkWorld) -> None:
        start = await sink.start()
        kafka = sink.client()
        await kafka.admin.list_topics()
        sink.cluster.pause_node(1)
        sink.client = lambda: kafka  # type: ignore[method-assign]
        with pytest.raises((TransactionPendingError, TimeoutError)):
            await sink.begin(start, 0, 0)
        sink.cluster.resume_node(1)
        described = await kafka.admin.describe_transactions([NAMES.slot_id(0)], errors="collect")
        before = described.get(NAMES.slot_id(0))
        await sink.world.runtime.clock.sleep(30)
        described = await kafka.admin.describe_transactions([NAMES.slot_id(0)], errors="collect")
        assert described.get(NAMES.slot_id(0)) == before

    with_sink(scenario)


@BOTH
def test_a_marker_that_was_not_seen_at_first_is_seen_before_the_outcome(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = last_marker

    async def old(kafka: AsyncClient, names: SinkNames, slot: int, *, before: int | None = None) -> Any:
        """As from a leader that was replaced, and does not know it."""
        return None if before is None else await read(kafka, names, slot, before=before)

    async def scenario(sink: SinkWorld) -> None:
        await sink.batch(0, ["a"], ["b"])
        incomplete = replace(await sink.start(), last=LastDecision(QUERY, 0, 2, complete=False))
        monkeypatch.setattr(task, "last_marker", old)
        outcome = await sink.task(incomplete, 0, 0, "a")
        assert (outcome.skipped, outcome.prepared) == (True, None)
        assert await sink.open_ids() == []
        assert await sink.committed() == ["a", "b"]

    with_sink(scenario, version)
