"""The driver's side of a batch: what is decided, what is finished later, and what is refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from ottla.broker.server import faults
from ottla.spark.sink.exactly_once import driver
from ottla.spark.sink.exactly_once.driver import abort_batch, commit_batch
from ottla.spark.sink.exactly_once.errors import (
    ForeignSinkError,
    MismatchingReplayError,
    OutdatedBatchError,
    SinkError,
    SinkFencedError,
    TransactionLostError,
    UnknownOutcomeError,
)
from ottla.spark.sink.exactly_once.values import LastDecision, SinkDriver
from tests.spark.sink.exactly_once.batches import NAMES, QUERY, SinkWorld, with_sink

BOTH = pytest.mark.parametrize("version", [1, 2])


@BOTH
def test_rows_are_seen_when_the_batch_is_committed_and_not_before(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        start = await sink.start()
        assert start.last is None
        outcomes = await sink.tasks(start, 0, ["a", "b"], [], ["c"])
        assert [each.prepared is None for each in outcomes] == [False, True, False]
        assert [each.rows for each in outcomes] == [2, 0, 1]
        assert await sink.committed() == []
        await sink.commit(0, outcomes)
        assert await sink.committed() == ["a", "b", "c"]
        assert await sink.open_ids() == []

    with_sink(scenario, version)


@BOTH
def test_batches_follow_one_another_with_any_width(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        await sink.batch(0, ["a"], ["b"])
        await sink.batch(1, ["c"])
        await sink.batch(2, *([f"d{number:02}"] for number in range(11)))
        await sink.batch(3, ["e"], [], ["f"])
        start = await sink.start()
        assert start.last == LastDecision(QUERY, 3, 3, complete=True)
        assert start.slots >= 11
        expected = ["a", "b", "c", *(f"d{number:02}" for number in range(11)), "e", "f"]
        assert await sink.committed() == expected

    with_sink(scenario, version)


@BOTH
def test_a_batch_that_is_run_again_after_its_commit_writes_nothing(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        await sink.batch(0, ["a"], ["b"])
        # Wider than it was, too: slots without a marker skip as well.
        outcomes = await sink.batch(0, ["a"], ["b"], ["x"])
        assert all(each.skipped and each.prepared is None for each in outcomes)
        assert await sink.committed() == ["a", "b"]

    with_sink(scenario, version)


# What the last driver has left


@BOTH
def test_a_driver_that_dies_behind_its_decision_is_finished_by_the_next(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        outcomes = await sink.tasks(await sink.start(), 0, ["a"], ["b"], [])
        await sink.decide_only(0, outcomes)
        assert await sink.committed() == []
        start = await sink.start()
        assert start.last == LastDecision(QUERY, 0, 3, complete=True)
        assert await sink.committed() == ["a", "b"]
        again = await sink.tasks(start, 0, ["a"], ["b"], [])
        assert all(each.skipped for each in again)
        await sink.commit(0, again)

    with_sink(scenario, version)


@BOTH
def test_a_driver_that_dies_before_its_decision_has_written_nothing(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        await sink.tasks(await sink.start(), 0, ["a"], ["b"])
        start = await sink.start()
        assert start.last is None
        assert await sink.open_ids() == []
        await sink.commit(0, await sink.tasks(start, 0, ["a"], ["b"]))
        assert await sink.committed() == ["a", "b"]

    with_sink(scenario, version)


@BOTH
def test_what_was_lost_behind_the_decision_is_written_again_and_nothing_else(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        start = await sink.start()
        outcomes = await sink.tasks(start, 0, ["a"], ["b"], ["c"])
        await sink.decide_only(0, outcomes)
        await sink.late(1)
        start = await sink.start()
        assert start.last == LastDecision(QUERY, 0, 3, complete=False)
        assert await sink.committed() == ["a", "c"]
        again = await sink.tasks(start, 0, ["a"], ["b"], ["c"])
        assert [each.skipped for each in again] == [True, False, True]
        await sink.commit(0, again)
        assert await sink.committed() == ["a", "b", "c"]
        assert (await sink.start()).last == LastDecision(QUERY, 0, 3, complete=True)

    with_sink(scenario, version)


@BOTH
def test_a_transaction_that_is_lost_between_check_and_commit_is_told(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        start = await sink.start()
        outcomes = await sink.tasks(start, 0, ["a"], ["b"])
        # The decision's own EndTxn is held up; meanwhile a late attempt takes slot 1.
        fault = sink.cluster.faults.add("EndTxn", action=faults.delay(5), count=1, when="before_append")

        async def takes_the_slot() -> None:
            await fault.wait()
            await sink.late(1)

        meanwhile = asyncio.create_task(takes_the_slot())
        with pytest.raises(
            TransactionLostError, match=r"is decided, but the transactions of tasks \[1\] were gone"
        ):
            await sink.commit(0, outcomes)
        await meanwhile
        start = await sink.start()
        await sink.commit(0, await sink.tasks(start, 0, ["a"], ["b"]))
        assert await sink.committed() == ["a", "b"]

    with_sink(scenario, version)


# What is refused


@BOTH
def test_a_lost_transaction_is_seen_before_anything_is_decided(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        start = await sink.start()
        outcomes = await sink.tasks(start, 0, ["a"], ["b"])
        await sink.late(1)
        with pytest.raises(TransactionLostError, match=r"the transactions of tasks \[1\] are gone"):
            await sink.commit(0, outcomes)
        assert (await sink.start()).last is None
        assert await sink.committed() == []

    with_sink(scenario, version)


@BOTH
def test_a_transaction_that_has_timed_out_is_seen(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        start = await sink.start(timeout_ms=5000)
        outcomes = await sink.tasks(start, 0, ["a"])
        await sink.world.runtime.clock.sleep(10)
        with pytest.raises(TransactionLostError, match="open for longer than their timeout"):
            await sink.commit(0, outcomes)
        assert await sink.committed() == []

    with_sink(scenario, version)


def test_a_batch_that_takes_half_of_the_timeout_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(sink: SinkWorld) -> None:
        start = await sink.start(timeout_ms=40_000)
        outcomes = await sink.tasks(start, 0, ["a"])
        await sink.world.runtime.clock.sleep(25)
        await sink.commit(0, outcomes)

    with_sink(scenario)
    assert any("raise kafka.transaction.timeout.ms" in each.getMessage() for each in caplog.records)


@BOTH
def test_a_driver_that_was_replaced_cannot_decide(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        old = await sink.start()
        outcomes = await sink.tasks(old, 0, ["old"])
        new = await sink.start()
        with pytest.raises(TransactionLostError):
            await sink.commit(0, outcomes)
        # Nor with a transaction that nothing has swept.
        late = replace(await sink.task(new, 0, 0, "late"), start=old)
        with pytest.raises(SinkFencedError, match="another driver has taken over"):
            await sink.commit(0, [late])
        with pytest.raises(SinkFencedError, match="another driver has taken over"):
            await sink.begin(old, 0, 0)
        await sink.commit(0, await sink.tasks(new, 0, ["new"]))
        assert await sink.committed() == ["new"]

    with_sink(scenario, version)


@BOTH
def test_an_older_batch_than_the_last_is_refused(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        await sink.batch(4, ["a"])
        start = await sink.start()
        outcomes = await sink.tasks(start, 3, ["b"])
        assert outcomes[0].skipped
        with pytest.raises(OutdatedBatchError, match=r"batch 3 .* is older than the last one"):
            await sink.commit(3, outcomes)

    with_sink(scenario, version)


def test_a_replay_with_another_number_of_tasks_is_refused_also_when_all_have_skipped() -> None:
    async def scenario(sink: SinkWorld) -> None:
        start = await sink.start()
        outcomes = await sink.tasks(start, 0, ["a"], ["b"])
        await sink.decide_only(0, outcomes)
        await sink.late(1)
        start = await sink.start()
        narrower = await sink.tasks(start, 0, ["ab"])
        assert narrower[0].skipped
        with pytest.raises(MismatchingReplayError, match=r"decided with 2 tasks.* run again with 1"):
            await sink.commit(0, narrower)
        wider = await sink.tasks(start, 0, ["a"], [], ["b"])
        with pytest.raises(MismatchingReplayError, match="shuffle"):
            await sink.commit(0, wider)

    with_sink(scenario)


def test_outcomes_that_do_not_belong_together_are_refused() -> None:
    async def scenario(sink: SinkWorld) -> None:
        start = await sink.start()
        one, two = await sink.tasks(start, 0, ["a"], ["b"])
        for outcomes, said in (
            ([], "of 0 tasks"),
            ([one, None], "of 2 tasks, 1 have not said"),
            ([one, one], "tasks 0 to 1 are meant"),
            ([two], "tasks 0 to 0 are meant"),
            ([one, replace(two, batch_id=1)], "task 1 has written batch 1"),
            ([one, replace(two, query_id="other")], "of query other"),
            ([one, replace(two, start=replace(start, driver=SinkDriver(1, 1)))], "another driver"),
        ):
            with pytest.raises(SinkError, match=said):
                await commit_batch(sink.client(), QUERY, 0, outcomes)
        other = replace(start, last=LastDecision("other", 0, 1, complete=True))
        with pytest.raises(ForeignSinkError, match="was used by query other"):
            await commit_batch(sink.client(), QUERY, 0, [replace(one, start=other)])
        await sink.commit(0, [two, one])
        assert await sink.committed() == ["a", "b"]

    with_sink(scenario)


# What brokers leave open


@BOTH
@pytest.mark.parametrize("when", ["before_append", "after_append"])
def test_lost_responses_to_every_end_are_asked_for_again(version: int, when: str) -> None:
    async def scenario(sink: SinkWorld) -> None:
        outcomes = await sink.tasks(await sink.start(), 0, ["a"], ["b"])
        fault = sink.cluster.faults.add("EndTxn", action=faults.drop, count=4, when=when)
        await sink.commit(0, outcomes)
        assert fault.hits == 4
        assert await sink.committed() == ["a", "b"]

    with_sink(scenario, version)


@BOTH
def test_a_decision_whose_outcome_is_unknown_is_told_and_found_out_by_the_next_driver(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        outcomes = await sink.tasks(await sink.start(), 0, ["a"], ["b"])
        sink.cluster.faults.add("EndTxn", action=faults.never, when="after_append")
        with pytest.raises(UnknownOutcomeError, match=r"whether batch 0 .* is decided is not known"):
            await sink.commit(0, outcomes, patience=5)
        # What was prepared is not touched, since a decision may list it; nor can this be known.
        await abort_batch(sink.client(), outcomes, patience=5)
        sink.cluster.faults.clear()
        start = await sink.start()
        assert start.last == LastDecision(QUERY, 0, 2, complete=True)
        assert await sink.committed() == ["a", "b"]

    with_sink(scenario, version)


@BOTH
def test_a_decision_that_cannot_be_written_is_none(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        outcomes = await sink.tasks(await sink.start(), 0, ["a"])
        fault = sink.cluster.faults.add("Produce", action=faults.error("INVALID_RECORD"), count=1)
        with pytest.raises(SinkError, match="the decision could not be written"):
            await sink.commit(0, outcomes)
        assert fault.hits == 1
        await abort_batch(sink.client(), outcomes)
        assert await sink.open_ids() == []
        await sink.batch(0, ["a"])
        assert await sink.committed() == ["a"]

    with_sink(scenario, version)


@BOTH
def test_an_unknown_outcome_of_the_last_batch_stops_the_next_before_its_tasks(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        outcomes = await sink.tasks(await sink.start(), 0, ["a"])
        await sink.decide_only(0, outcomes)
        sink.cluster.faults.add("EndTxn", action=faults.drop)
        with pytest.raises(UnknownOutcomeError, match="is decided, and whether the transaction of task 0"):
            await sink.start(patience=5)
        sink.cluster.faults.clear()
        assert (await sink.start()).last == LastDecision(QUERY, 0, 1, complete=True)

    with_sink(scenario, version)


# Giving a batch up


@BOTH
def test_an_abort_ends_what_the_tasks_have_prepared(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        outcomes = await sink.tasks(await sink.start(), 0, ["a"], [], ["b"])
        await abort_batch(sink.client(), [*outcomes, None])
        assert await sink.open_ids() == []
        await sink.batch(0, ["a"], [], ["b"])
        assert await sink.committed() == ["a", "b"]

    with_sink(scenario, version)


@BOTH
def test_an_abort_of_a_batch_that_is_decided_touches_nothing(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        outcomes = await sink.tasks(await sink.start(), 0, ["a"], ["b"])
        await sink.decide_only(0, outcomes)
        await abort_batch(sink.client(), outcomes)
        assert len(await sink.open_ids()) == 2
        await sink.start()
        assert await sink.committed() == ["a", "b"]

    with_sink(scenario, version)


@BOTH
def test_an_abort_by_a_driver_that_was_replaced_touches_nothing(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        old = await sink.start()
        outcome = await sink.task(await sink.start(), 0, 0, "a")
        await abort_batch(sink.client(), [replace(outcome, start=old)])
        assert await sink.open_ids() == [NAMES.slot_id(0)]

    with_sink(scenario, version)


def test_an_abort_that_a_newer_transaction_version_accepts_does_not_say_that_nothing_is_decided() -> None:
    async def scenario(sink: SinkWorld) -> None:
        admin = sink.client().admin
        await admin.update_features({"transaction.version": 1}, kind="safe_downgrade")
        outcome = await sink.task(await sink.start(), 0, 0, "a")
        await sink.decide_only(0, [outcome])
        await admin.update_features({"transaction.version": 2})
        await abort_batch(sink.client(), [outcome])
        assert await sink.open_ids() == [NAMES.slot_id(0)]
        assert (await sink.start()).last == LastDecision(QUERY, 0, 1, complete=True)
        assert await sink.committed() == ["a"]

    with_sink(scenario)


# The cluster


@BOTH
def test_coordinators_and_leaders_that_move_in_between_do_not_matter(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        cluster = sink.cluster
        start = await sink.start()
        outcomes = await sink.tasks(start, 0, ["a"], ["b"])
        for node in (1, 2, 3):
            await cluster.stop_node(node, clean=node != 2)
            await cluster.start_node(node)
        await sink.commit(0, outcomes)
        await sink.batch(1, ["c"], ["d"])
        assert await sink.committed() == ["a", "b", "c", "d"]

    with_sink(scenario, version, brokers=3)


def test_the_largest_timeout_is_the_brokers() -> None:
    async def scenario(sink: SinkWorld) -> None:
        assert (await sink.start(timeout_ms=None)).timeout_ms == 900_000

    with_sink(scenario)


# What a leader that was replaced, and does not know it, has said


@BOTH
def test_a_decision_that_was_not_seen_when_the_batch_began_is_seen_before_the_next(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        await sink.batch(0, ["a"])
        start = replace(await sink.start(), last=None)
        outcome = replace(await sink.task(replace(start, last=None), 1, 0, "a"), batch_id=0)
        with pytest.raises(SinkError, match="is about batch 0, and about batch None when this batch began"):
            await sink.commit(0, [outcome])
        await abort_batch(sink.client(), [outcome])
        assert await sink.committed() == ["a"]
        await sink.batch(1, ["b"])
        assert await sink.committed() == ["a", "b"]

    with_sink(scenario, version)


@BOTH
def test_what_is_decided_is_not_swept_by_a_driver_that_was_not_shown_the_decision(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a leader that was replaced."""

    async def nothing(*_: object, before: int | None = None) -> None:
        """What that leader has."""

    async def scenario(sink: SinkWorld) -> None:
        start = await sink.start()
        await sink.decide_only(0, await sink.tasks(start, 0, ["a"], ["b"]))
        with monkeypatch.context() as patch:
            patch.setattr(driver, "last_decision", nothing)
            with pytest.raises(
                SinkError, match=r"batch 0 .* is decided, which a broker that had been replaced"
            ):
                await sink.start()
        assert sorted(await sink.open_ids()) == [NAMES.slot_id(0), NAMES.slot_id(1)]
        assert (await sink.start()).last == LastDecision(QUERY, 0, 2, complete=True)
        assert await sink.committed() == ["a", "b"]

    with_sink(scenario, version)
