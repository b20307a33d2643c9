"""One batch by itself: what its receipts, its listeners and the hooks hear of it."""

from __future__ import annotations

from ottla.client.produce.batch import ProducerBatch
from ottla.errors import AbortedError, NotLeaderOrFollowerError
from tests.client.produce.batches import batch_of


class Listener:
    def __init__(self) -> None:
        self.is_over = False
        self.split_into: list[int] = []
        self.done: list[tuple[int, BaseException | None]] = []

    def on_split(self, parts: int) -> None:
        self.split_into.append(parts)

    def on_done(self, batch: ProducerBatch, base_offset: int, error: BaseException | None) -> None:
        self.done.append((base_offset, error))


def test_receipts_are_complete_before_listeners_hear_of_it_and_both_once() -> None:
    batch, (receipt,) = batch_of(1)
    listener = Listener()
    batch.listeners.append(listener)
    assert batch.complete(7, -1, None)
    assert not batch.complete(8, -1, None)
    assert (receipt.offset, listener.done) == (7, [(7, None)])
    assert batch.is_done


def test_a_batch_may_be_stored_while_it_is_in_flight_and_once_it_is_ambiguous() -> None:
    batch, _ = batch_of(1)
    known = [batch.may_be_stored]
    for batch.is_in_flight, batch.is_ambiguous in (
        (True, False),
        (True, True),
        (False, True),
        (False, False),
    ):
        known.append(batch.may_be_stored)
    assert known == [False, True, True, True, False]


def test_the_error_of_a_batch_that_is_given_up_says_whether_an_earlier_attempt_may_be_stored() -> None:
    batch, _ = batch_of(1)
    error = NotLeaderOrFollowerError()
    assert batch.final_error(error) is error
    batch.is_ambiguous = True
    final = batch.final_error(error)
    assert isinstance(final, AbortedError)
    assert (final.may_be_stored, final.__cause__) == (True, error)
    assert batch.final_error(final) is final


def test_the_parts_of_a_split_batch_have_its_listeners_and_its_last_error() -> None:
    batch, receipts = batch_of(4)
    listener = Listener()
    batch.listeners.append(listener)
    batch.last_error = error = ValueError("too large")
    parts = batch.split()
    assert listener.split_into == [len(parts)]
    assert sum(part.encoded.count for part in parts) == 4
    assert all(part.last_error is error and part.opened_at == batch.opened_at for part in parts)
    for part in parts:
        part.complete(0, -1, None)
    assert len(listener.done) == len(parts)
    assert all(receipt.done() for receipt in receipts)
