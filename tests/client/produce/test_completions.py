"""The end of batches: receipts, hooks, flushes and waiting appends hear of each once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ottla.client.produce.completions import Completions, Flush
from ottla.errors import DeliveryError
from ottla.hooks import Hook, Hooks, ProducedBatch
from ottla.runtime import SystemClock
from tests.client.produce.batches import batch_of


class Recorded(Hook):
    def __init__(self) -> None:
        self.batches: list[tuple[str, ProducedBatch]] = []

    def on_batch_written(self, batch: ProducedBatch) -> None:
        self.batches.append(("written", batch))

    def on_batch_acknowledged(self, batch: ProducedBatch) -> None:
        self.batches.append(("acknowledged", batch))

    def on_batch_failed(self, batch: ProducedBatch, error: BaseException) -> None:
        self.batches.append((str(error), batch))


def completions(*hooks: object) -> Completions:
    return Completions(Hooks(hooks), SystemClock())


def test_records_get_their_offsets_before_hooks_hear_of_it() -> None:
    recorded = Recorded()
    batch, receipts = batch_of(2)
    receipts[0].add_done_callback(
        lambda done: recorded.batches.append((f"offset {done.offset}", batch.view()))
    )
    ends = completions(recorded)
    ends.written([(None, batch)])
    ends.delivered(batch, 7, -1, 5.0)
    assert [what for what, _ in recorded.batches] == ["written", "offset 7", "acknowledged"]
    assert [receipt.offset for receipt in receipts] == [7, 8]
    acknowledged = recorded.batches[-1][1]
    assert (acknowledged.records, acknowledged.acknowledged_at) == (2, 5.0)


def test_failures_are_counted_by_records_until_they_are_raised() -> None:
    recorded = Recorded()
    ends = completions(recorded)
    ends.raise_failures()
    first, second = ValueError("first"), ValueError("second")
    batch, receipts = batch_of(3)
    ends.failed(batch, first)
    ends.count_failed(2, second)
    assert [receipt.error for receipt in receipts] == [first] * 3
    assert [what for what, _ in recorded.batches] == ["first"]
    with pytest.raises(
        DeliveryError, match=r"^5 records were not delivered; the first error was: first"
    ) as raised:
        ends.raise_failures()
    assert (raised.value.failed, raised.value.__cause__) == (5, first)
    ends.raise_failures()


def test_waiting_appends_are_called_once_in_turn_and_not_those_that_come_meanwhile() -> None:
    ends = completions()
    called: list[int] = []

    def again(number: int) -> None:
        called.append(number)
        ends.on_space(lambda: called.append(10 + number))

    waiting = [len(ends.space_waiters)]
    ends.on_space(lambda: again(1))
    ends.on_space(lambda: again(2))
    waiting.append(len(ends.space_waiters))
    ends.space_freed()
    assert called == [1, 2]
    ends.space_freed()
    assert called == [1, 2, 11, 12]
    assert [*waiting, len(ends.space_waiters)] == [0, 2, 0]


# Flush


def in_a_loop(body: Callable[[], None]) -> None:
    async def main() -> None:
        body()

    asyncio.run(main())


def test_nothing_to_wait_for_is_done_once_that_is_known() -> None:
    def body() -> None:
        flush = Flush()
        assert not flush.done.done()
        flush.complete()
        assert flush.done.done()

    in_a_loop(body)


def test_a_batch_that_ends_while_others_are_still_being_named_ends_nothing() -> None:
    def body() -> None:
        flush = Flush()
        first, _ = batch_of(1)
        second, _ = batch_of(1)
        flush.watch(first)
        first.complete(0, -1, None)
        assert (flush.left, flush.done.done()) == (0, False)
        flush.watch(second)
        flush.complete()
        assert not flush.done.done()
        second.complete(-1, -1, ValueError())
        assert flush.done.done()

    in_a_loop(body)


def test_every_part_of_a_split_batch_is_waited_for() -> None:
    def body() -> None:
        flush = Flush()
        batch, _ = batch_of(4)
        flush.watch(batch)
        flush.complete()
        parts = batch.split()
        assert len(parts) > 1
        for part in parts:
            assert not flush.done.done()
            part.complete(0, -1, None)
        assert flush.done.done()

    in_a_loop(body)


def test_records_of_an_unknown_topic_are_waited_for_until_they_are_batches() -> None:
    def body() -> None:
        flush = Flush()
        flush.hold()
        flush.complete()
        batch, _ = batch_of(1)
        flush.watch(batch)
        flush.release()
        assert not flush.done.done()
        batch.complete(0, -1, None)
        assert flush.done.done()

    in_a_loop(body)


def test_a_flush_that_no_caller_waits_for_any_more_takes_the_end() -> None:
    def body() -> None:
        flush = Flush()
        batch, _ = batch_of(1)
        flush.watch(batch)
        flush.complete()
        flush.done.cancel()
        batch.complete(0, -1, None)
        assert flush.left == 0

    in_a_loop(body)
