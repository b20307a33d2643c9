"""What a query that is gone has left: looked at without a change, finished, aborted, released."""

from __future__ import annotations

import pytest

from ottla.client.topic_partition import TopicPartition
from ottla.spark.sink.exactly_once.driver import commit_batch
from ottla.spark.sink.exactly_once.errors import ForeignSinkError, SinkError
from ottla.spark.sink.exactly_once.recovery import (
    UnknownSinkError,
    abort_sink,
    finish_sink,
    forget_sink,
    sink_state,
)
from tests.spark.sink.exactly_once.batches import NAMES, TOPIC, SinkWorld, with_sink

BOTH = pytest.mark.parametrize("version", [1, 2])


@BOTH
def test_what_is_open_is_told_with_whom_it_blocks(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        await sink.batch(0, ["a"], ["b"])
        start = await sink.start()
        await sink.task(start, 1, 1, "c", "d")
        state = await sink_state(sink.client(), NAMES)
        assert state.last is not None
        assert (state.last.batch_id, state.last.tasks, state.lost) == (0, 2, ())
        assert {slot: marker.batch_id for slot, marker in state.markers.items()} == {0: 0, 1: 0}
        assert [(left.slot, left.is_decided) for left in state.open] == [(1, False)]
        assert state.blocked == {
            NAMES.markers(1): (1,),
            TopicPartition(TOPIC, 0): (1,),
            TopicPartition(TOPIC, 1): (1,),
        }
        assert not state.is_complete
        # Looking has changed nothing.
        assert await sink.open_ids() == [NAMES.slot_id(1)]

    with_sink(scenario, version)


@BOTH
@pytest.mark.parametrize("way", ["finish", "abort"])
def test_a_decided_batch_is_finished_and_never_aborted(version: int, way: str) -> None:
    async def scenario(sink: SinkWorld) -> None:
        start = await sink.start()
        outcomes = await sink.tasks(start, 0, ["a"], ["b"])
        await sink.task(start, 0, 5, "left")
        await sink.decide_only(0, outcomes)
        state = await sink_state(sink.client(), NAMES)
        assert [(left.slot, left.is_decided) for left in state.open] == [(0, True), (1, True), (5, False)]
        if way == "abort":
            state = await abort_sink(sink.client(), NAMES)
            assert [left.slot for left in state.open] == [0, 1]
            assert await sink.committed() == []
        state = await finish_sink(sink.client(), NAMES)
        assert state.is_complete
        assert await sink.committed() == ["a", "b"]

    with_sink(scenario, version)


@BOTH
def test_a_query_that_still_runs_is_fenced_by_it(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        start = await sink.start()
        outcomes = await sink.tasks(start, 0, ["a"])
        state = await abort_sink(sink.client(), NAMES)
        assert state.is_complete
        with pytest.raises(SinkError):
            await sink.commit(0, outcomes)
        assert await sink.committed() == []

    with_sink(scenario, version)


@BOTH
def test_a_sink_that_is_released_can_be_another_querys_and_still_its_own(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        await sink.batch(7, ["a"])
        state = await forget_sink(sink.client(), NAMES)
        assert state.last is not None
        assert (state.last.batch_id, state.last.is_released) == (7, True)
        # From the old checkpoint: nothing is written twice.
        again = await sink.batch(7, ["a"])
        assert again[0].skipped
        start = await sink.start()
        attempt = await sink.begin(start, 0, 0, query_id="query-2")
        assert not attempt.skips
        await commit_batch(sink.client(), "query-2", 0, [await sink.write(attempt, "b")])
        assert await sink.committed() == ["a", "b"]
        # Now it is the other one's.
        start = await sink.start()
        with pytest.raises(ForeignSinkError, match="was used by query query-2"):
            await sink.begin(start, 8, 0)

    with_sink(scenario, version)


def test_a_sink_without_a_topic_is_unknown() -> None:
    async def scenario(sink: SinkWorld) -> None:
        with pytest.raises(UnknownSinkError, match="no topic ottla-sink-billing"):
            await sink_state(sink.client(), NAMES)

    with_sink(scenario)


@BOTH
def test_a_sink_whose_batch_lacks_rows_is_not_released(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        start = await sink.start()
        outcomes = await sink.tasks(start, 0, ["a"], ["b"])
        await sink.decide_only(0, outcomes)
        await sink.late(1)
        with pytest.raises(SinkError, match=r"of batch 0 the tasks \[1\] are not committed"):
            await forget_sink(sink.client(), NAMES)
        assert (await sink_state(sink.client(), NAMES)).lost == (1,)

    with_sink(scenario, version)
