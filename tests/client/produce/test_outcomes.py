"""The end of batches: told once to everybody concerned, and counted."""

from __future__ import annotations

import pytest

from ottla.client.produce.outcomes import Outcomes
from ottla.errors import DeliveryError
from ottla.hooks import Hook, Hooks, ProducedBatch
from ottla.runtime import SystemClock
from tests.client.produce.batches import batch_of


class Told(Hook):
    def __init__(self) -> None:
        self.batches: list[tuple[str, ProducedBatch]] = []

    def on_batch_written(self, batch: ProducedBatch) -> None:
        self.batches.append(("written", batch))

    def on_batch_acknowledged(self, batch: ProducedBatch) -> None:
        self.batches.append(("acknowledged", batch))

    def on_batch_failed(self, batch: ProducedBatch, error: BaseException) -> None:
        self.batches.append((str(error), batch))


def outcomes(*hooks: object) -> Outcomes:
    return Outcomes(Hooks(hooks), SystemClock())


def test_records_get_their_offsets_before_hooks_hear_of_it() -> None:
    told = Told()
    batch, receipts = batch_of(2)
    receipts[0].add_done_callback(lambda done: told.batches.append((f"offset {done.offset}", batch.view())))
    ends = outcomes(told)
    ends.written([(None, batch)])
    ends.delivered(batch, 7, -1, 5.0)
    assert [what for what, _ in told.batches] == ["written", "offset 7", "acknowledged"]
    assert [receipt.offset for receipt in receipts] == [7, 8]
    acknowledged = told.batches[-1][1]
    assert (acknowledged.records, acknowledged.acknowledged_at) == (2, 5.0)


def test_failures_are_counted_by_records_and_asking_begins_anew() -> None:
    told = Told()
    ends = outcomes(told)
    ends.raise_failures()
    first, second = ValueError("first"), ValueError("second")
    batch, receipts = batch_of(3)
    ends.failed(batch, first)
    ends.count_failed(2, second)
    assert [receipt.error for receipt in receipts] == [first] * 3
    assert [what for what, _ in told.batches] == ["first"]
    with pytest.raises(
        DeliveryError, match=r"^5 records were not delivered; the first error was: first"
    ) as raised:
        ends.raise_failures()
    assert (raised.value.failed, raised.value.__cause__) == (5, first)
    ends.raise_failures()


def test_space_is_told_once_in_turn_and_not_to_those_who_ask_meanwhile() -> None:
    ends = outcomes()
    called: list[int] = []

    def again(number: int) -> None:
        called.append(number)
        ends.on_space(lambda: called.append(10 + number))

    wanted = [ends.is_space_wanted]
    ends.on_space(lambda: again(1))
    ends.on_space(lambda: again(2))
    wanted.append(ends.is_space_wanted)
    ends.space_freed()
    assert called == [1, 2]
    ends.space_freed()
    assert called == [1, 2, 11, 12]
    assert [*wanted, ends.is_space_wanted] == [False, True, False]
