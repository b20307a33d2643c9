"""The driver's side of a batch: what is decided, what is finished later, and what is refused."""

from __future__ import annotations

import pytest

from ottla.spark.sink.exactly_once.values import LastDecision
from tests.spark.sink.exactly_once.batches import QUERY, SinkWorld, with_sink

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
