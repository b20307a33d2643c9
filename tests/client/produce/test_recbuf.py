"""RecBuf by itself: when it is ready, which sequence numbers it gives, and what a gap does to them."""

from __future__ import annotations

import pytest

from ottla.client.produce.batch import NO_SEQUENCE, ProducerBatch
from ottla.client.produce.producer_id import ProducerIdentity
from ottla.client.produce.recbuf import EpochEnd, RecBuf, next_sequence
from ottla.wire import Uuid
from ottla.wire.records import Accumulator

GIVEN = ProducerIdentity(7, 0)
LOST = ConnectionError("lost")
OLD_TOPIC, NEW_TOPIC = Uuid(b"1" * 16), Uuid(b"2" * 16)


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


def make(time: Time, *, linger: float = 0.0, idempotent: bool = True, batch_size: int = 62) -> RecBuf:
    """With the smallest batches there are: each record has its own."""
    accumulator = Accumulator(batch_size=batch_size, max_bytes=1 << 20, clock=lambda: 0, monotonic=time)
    recbuf = RecBuf(accumulator.buffer("orders", 0), linger=linger, max_in_flight=5, is_idempotent=idempotent)
    recbuf.set_leader(1)
    return recbuf


def send(recbuf: RecBuf, now: float, given: ProducerIdentity | None = GIVEN) -> ProducerBatch:
    batch = recbuf.next_batch(now, 0.0)
    assert batch is not None
    assert recbuf.send(batch, given, 1, now)
    return batch


def deliver(recbuf: RecBuf, batch: ProducerBatch) -> None:
    assert recbuf.delivered(batch)
    batch.complete(0, -1, None)


def fail(recbuf: RecBuf, batch: ProducerBatch) -> None:
    recbuf.give_up(batch)
    batch.complete(-1, -1, LOST)


def lose(recbuf: RecBuf, batch: ProducerBatch, again_at: float) -> None:
    """Its response does not come."""
    recbuf.request_done(batch)
    recbuf.mark_ambiguous(batch)
    recbuf.retry(batch, LOST, again_at)


def refuse(recbuf: RecBuf, batch: ProducerBatch, again_at: float) -> None:
    """It is not stored, and may be later."""
    recbuf.request_done(batch)
    recbuf.retry(batch, LOST, again_at)


def sent_at_once(recbuf: RecBuf, time: Time, count: int) -> list[ProducerBatch]:
    for number in range(count):
        recbuf.buffer.append(None, b"%d" % number)
    return [send(recbuf, time.now) for _ in range(count)]


def proven(time: Time) -> RecBuf:
    """One that may have several requests in flight, with sequence 1 as its next."""
    recbuf = make(time)
    recbuf.buffer.append(None, b"0")
    deliver(recbuf, send(recbuf, time.now))
    return recbuf


def test_an_open_batch_lingers_and_a_full_one_does_not(time: Time) -> None:
    recbuf = make(time, linger=2.0, batch_size=130)
    assert recbuf.ready_at() is None
    recbuf.buffer.append(None, b"1")
    assert recbuf.ready_at() == time.now + 2
    assert recbuf.next_batch(time.now + 1, 0.0) is None
    recbuf.buffer.append(None, bytes(60))
    assert recbuf.buffer.full_batches == 1
    assert recbuf.ready_at() == 0.0


def test_a_caller_that_waits_ends_lingering(time: Time) -> None:
    recbuf = make(time, linger=2.0, batch_size=1000)
    recbuf.buffer.append(None, b"1")
    recbuf.is_urgent = True
    assert recbuf.next_batch(time.now, 0.0) is not None
    assert not recbuf.is_urgent


def test_until_a_first_success_one_request_is_in_flight(time: Time) -> None:
    recbuf = make(time)
    for number in range(8):
        recbuf.buffer.append(None, b"%d" % number)
    first = send(recbuf, time.now)
    assert recbuf.ready_at() is None
    assert recbuf.next_batch(time.now, 0.0) is None
    deliver(recbuf, first)
    for _ in range(5):
        send(recbuf, time.now)
    assert recbuf.in_flight == 5
    assert recbuf.ready_at() is None


def test_a_batch_keeps_its_sequence_when_it_is_sent_again_elsewhere(time: Time) -> None:
    recbuf = proven(time)
    recbuf.buffer.append(None, b"1")
    batch = send(recbuf, time.now)
    assert recbuf.request_done(batch)
    recbuf.mark_ambiguous(batch)
    recbuf.retry(batch, LOST, time.now + 5)
    assert recbuf.ready_at() == time.now + 5
    recbuf.set_leader(2)
    assert recbuf.ready_at() == 0.0
    assert send(recbuf, time.now) is batch
    assert (batch.identity, batch.sequence, batch.attempts) == (GIVEN, 1, 2)


def test_sequences_go_on_at_zero_after_the_largest(time: Time) -> None:
    recbuf = proven(time)
    recbuf._sequence = 2**31 - 1
    recbuf.buffer.append(None, b"1")
    recbuf.buffer.append(None, b"2")
    assert [send(recbuf, time.now).sequence for _ in range(2)] == [2**31 - 1, 0]


def test_the_last_batch_that_is_not_stored_gives_its_sequence_back(time: Time) -> None:
    recbuf = proven(time)
    recbuf.buffer.append(None, b"1")
    batch = send(recbuf, time.now)
    recbuf.request_done(batch)
    fail(recbuf, batch)
    recbuf.buffer.append(None, b"2")
    again = send(recbuf, time.now)
    assert (again.identity, again.sequence) == (GIVEN, 1)


def test_a_last_batch_that_may_be_stored_leaves_a_new_epoch_behind(time: Time) -> None:
    recbuf = proven(time)
    recbuf.buffer.append(None, b"1")
    batch = send(recbuf, time.now)
    fail(recbuf, batch)
    assert not recbuf.request_done(batch), "its answer comes too late"
    recbuf.buffer.append(None, b"2")
    again = send(recbuf, time.now)
    assert (again.identity, again.sequence) == (ProducerIdentity(7, 1), 0)


def test_behind_a_gap_what_may_be_stored_keeps_its_sequence(time: Time) -> None:
    recbuf = proven(time)
    for number in range(3):
        recbuf.buffer.append(None, b"%d" % number)
    first, second, third = (send(recbuf, time.now) for _ in range(3))
    for batch in (first, second, third):
        lose(recbuf, batch, time.now)
    fail(recbuf, first)
    assert recbuf.has_gap
    assert send(recbuf, time.now) is second
    assert (second.identity, second.sequence) == (GIVEN, 2)
    # The broker proves the gap: now everything that is left begins anew.
    recbuf.request_done(second)
    assert recbuf.is_first(second)
    recbuf.end_epoch(EpochEnd.NOT_STORED)
    assert send(recbuf, time.now) is second
    assert (second.identity, second.sequence, second.is_ambiguous) == (ProducerIdentity(7, 1), 0, False)
    assert third.sequence == NO_SEQUENCE


def test_behind_a_gap_what_is_not_stored_takes_over_its_sequences(time: Time) -> None:
    recbuf = proven(time)
    first, second, third = sent_at_once(recbuf, time, 3)
    for batch in (first, second, third):
        refuse(recbuf, batch, time.now)
    fail(recbuf, second)
    assert send(recbuf, time.now) is first
    deliver(recbuf, first)
    assert send(recbuf, time.now) is third
    assert (third.identity, third.sequence) == (GIVEN, 2)


def test_giving_up_what_is_not_stored_forgets_nothing_of_what_may_be(time: Time) -> None:
    """The one before it is appended, though not by enough replicas; a new epoch would store it once more."""
    recbuf = proven(time)
    first, second, third = sent_at_once(recbuf, time, 3)
    lose(recbuf, first, time.now)
    for batch in (second, third):
        refuse(recbuf, batch, time.now)
    for batch in (second, third):
        fail(recbuf, batch)
    assert first.may_be_stored
    assert not recbuf.may_fail(first)
    assert send(recbuf, time.now) is first
    assert (first.identity, first.sequence) == (GIVEN, 1)


def test_an_epoch_that_is_over_waits_for_what_may_be_stored_before_the_gap(time: Time) -> None:
    recbuf = proven(time)
    first, second, third = sent_at_once(recbuf, time, 3)
    lose(recbuf, first, time.now)
    lose(recbuf, second, time.now)
    refuse(recbuf, third, time.now)
    fail(recbuf, second)
    assert send(recbuf, time.now) is first
    assert (first.identity, first.sequence) == (GIVEN, 1)
    assert recbuf.ready_at() is None, "of an epoch that is over, one batch at a time"
    lose(recbuf, first, time.now)
    assert send(recbuf, time.now) is first
    deliver(recbuf, first)
    assert send(recbuf, time.now) is third
    assert (third.identity, third.sequence) == (ProducerIdentity(7, 1), 0)


def test_what_is_before_a_gap_goes_on_in_its_order_whether_it_may_be_stored_or_not(time: Time) -> None:
    recbuf = proven(time)
    first, second, third, fourth = sent_at_once(recbuf, time, 4)
    refuse(recbuf, first, time.now)
    lose(recbuf, second, time.now)
    lose(recbuf, third, time.now)
    refuse(recbuf, fourth, time.now)
    fail(recbuf, third)
    for batch, sequence in ((first, 1), (second, 2)):
        assert send(recbuf, time.now) is batch
        assert (batch.identity, batch.sequence) == (GIVEN, sequence)
        deliver(recbuf, batch)
    assert send(recbuf, time.now) is fourth
    assert (fourth.identity, fourth.sequence) == (ProducerIdentity(7, 1), 0)


def test_a_later_success_does_not_let_more_batches_pass_one_that_may_be_stored(time: Time) -> None:
    """Behind five more a leader would not recognize it, and its OUT_OF_ORDER would prove nothing."""
    recbuf = proven(time)
    first, second, third = sent_at_once(recbuf, time, 3)
    recbuf.buffer.append(None, b"4")
    lose(recbuf, first, time.now + 5)
    deliver(recbuf, second)
    assert recbuf.ready_at() is None
    deliver(recbuf, third)
    assert recbuf.ready_at() == time.now + 5, "nor is its back-off cut short"
    assert send(recbuf, time.now + 5) is first
    assert recbuf.ready_at() is None
    deliver(recbuf, first)
    assert send(recbuf, time.now + 5).sequence == 4


def test_a_proof_holds_for_what_is_still_in_flight(time: Time) -> None:
    recbuf = proven(time)
    first, second, third = sent_at_once(recbuf, time, 3)
    refuse(recbuf, first, time.now)
    fail(recbuf, first)
    recbuf.request_done(second)
    recbuf.end_epoch(EpochEnd.NOT_STORED)
    recbuf.retry(second, LOST, time.now)
    lose(recbuf, third, time.now)
    assert not third.is_ambiguous
    assert [send(recbuf, time.now)] == [second]
    assert (second.identity, second.sequence) == (ProducerIdentity(7, 1), 0)


@pytest.mark.parametrize("new_id", [True, False])
def test_what_a_broker_that_forgot_the_producer_may_have_is_given_up(time: Time, new_id: bool) -> None:
    recbuf = proven(time)
    first, second, third = sent_at_once(recbuf, time, 3)
    recbuf.request_done(first)
    recbuf.end_epoch(EpochEnd.FORGOTTEN, new_id=new_id)
    recbuf.retry(first, LOST, time.now)
    lose(recbuf, second, time.now)
    refuse(recbuf, third, time.now)
    assert recbuf.ready_at() is None, "sent again it could be stored twice, or before the first one"
    assert recbuf.overdue(time.now - 60) == [second]
    fail(recbuf, second)
    other = ProducerIdentity(8, 0)
    sent = send(recbuf, time.now, other)
    assert sent is first
    assert (sent.identity, sent.sequence) == (other if new_id else ProducerIdentity(7, 1), 0)


def test_a_new_epoch_waits_until_nothing_is_in_flight(time: Time) -> None:
    recbuf = proven(time)
    recbuf.buffer.append(None, b"1")
    recbuf.buffer.append(None, b"2")
    first, second = send(recbuf, time.now), send(recbuf, time.now)
    recbuf.request_done(first)
    recbuf.end_epoch(EpochEnd.FORGOTTEN)
    recbuf.retry(first, LOST, time.now)
    assert recbuf.ready_at() is None
    recbuf.request_done(second)
    assert send(recbuf, time.now) is first
    assert (first.identity, first.sequence) == (ProducerIdentity(7, 1), 0)


def test_nothing_is_sent_under_an_epoch_that_is_over(time: Time) -> None:
    recbuf = proven(time)
    recbuf.set_topic_id(OLD_TOPIC)
    for value in (b"1", b"2", b"3"):
        recbuf.buffer.append(None, value)
    first, second = send(recbuf, time.now), send(recbuf, time.now)
    recbuf.set_topic_id(NEW_TOPIC)
    deliver(recbuf, first)
    # The old topic has it: that says nothing about the new one, where a lost answer could not be told from a first.
    assert recbuf.next_batch(time.now, 0.0) is None
    deliver(recbuf, second)
    third = send(recbuf, time.now)
    assert (third.identity, third.sequence) == (ProducerIdentity(7, 1), 0)


def test_of_a_partition_that_is_gone_everything_fails_but_what_is_in_flight(time: Time) -> None:
    recbuf = proven(time)
    for value in (b"1", b"2"):
        recbuf.buffer.append(None, value)
    sent = send(recbuf, time.now)
    recbuf.delete()
    (waiting,) = recbuf.overdue(time.now - 60)
    fail(recbuf, waiting)
    lose(recbuf, sent, time.now)
    assert list(recbuf.overdue(time.now - 60)) == [sent]
    fail(recbuf, sent)
    recbuf.set_topic_id(NEW_TOPIC)
    assert recbuf.overdue(time.now - 60) == []


def test_an_id_without_epochs_left_or_refused_is_not_used_again(time: Time) -> None:
    recbuf = proven(time)
    recbuf.identity = ProducerIdentity(7, 2**15 - 1)
    recbuf.end_epoch(EpochEnd.FORGOTTEN)
    recbuf.buffer.append(None, b"1")
    batch = recbuf.next_batch(time.now, 0.0)
    assert batch is not None
    assert not recbuf.send(batch, GIVEN, 1, time.now)
    assert recbuf.retired_id == 7
    assert recbuf.send(batch, ProducerIdentity(8, 0), 1, time.now)
    assert (batch.identity, batch.sequence) == (ProducerIdentity(8, 0), 0)


def test_another_topic_id_begins_a_new_epoch(time: Time) -> None:
    recbuf = make(time)
    recbuf.set_topic_id(Uuid(b"1" * 16))
    recbuf.buffer.append(None, b"1")
    deliver(recbuf, send(recbuf, time.now))
    recbuf.set_topic_id(Uuid(b"1" * 16))
    recbuf.set_topic_id(Uuid(b"2" * 16))
    recbuf.buffer.append(None, b"2")
    batch = send(recbuf, time.now)
    assert (batch.identity, batch.sequence) == (ProducerIdentity(7, 1), 0)


def test_the_parts_of_a_split_batch_take_its_place_and_its_sequences(time: Time) -> None:
    recbuf = make(time, batch_size=1000)
    for number in range(4):
        recbuf.buffer.append(None, b"%d" % number)
    whole = send(recbuf, time.now)
    recbuf.buffer.append(None, b"4")
    recbuf.take_all()
    recbuf.request_done(whole)
    recbuf.split(whole)
    first = send(recbuf, time.now)
    deliver(recbuf, first)
    second, third = send(recbuf, time.now), send(recbuf, time.now)
    assert [batch.sequence for batch in (first, second, third)] == [0, 2, 4]
    assert sum(batch.encoded.count for batch in (first, second, third)) == 5


def test_without_idempotence_there_are_no_sequences(time: Time) -> None:
    recbuf = make(time, idempotent=False)
    recbuf.buffer.append(None, b"1")
    batch = send(recbuf, time.now, None)
    assert batch.sequence == NO_SEQUENCE
    assert batch.identity.producer_id == -1
    fail(recbuf, batch)


def test_what_waits_is_counted_in_bytes(time: Time) -> None:
    recbuf = make(time)
    recbuf.buffer.append(None, b"1")
    whole = recbuf.waiting_bytes
    assert whole > 0
    recbuf.take_all()
    assert recbuf.waiting_bytes == whole
    batch = send(recbuf, time.now)
    assert recbuf.waiting_bytes == 0
    recbuf.request_done(batch)
    recbuf.retry(batch, LOST, 0.0)
    assert recbuf.waiting_bytes == whole
    fail(recbuf, batch)
    assert recbuf.waiting_bytes == 0
    assert recbuf.is_empty


def test_the_oldest_expire_whether_they_gather_or_wait(time: Time) -> None:
    recbuf = make(time, linger=1000.0, batch_size=1000)
    recbuf.buffer.append(None, b"1")
    assert not list(recbuf.overdue(time.now))
    recbuf.take_all()
    time.now += 10
    recbuf.buffer.append(None, b"2")
    assert [batch.encoded.count for batch in recbuf.overdue(time.now)] == [1]
    assert len(list(recbuf.overdue(time.now + 1))) == 2


def test_sequence_numbers_begin_anew_after_the_largest() -> None:
    largest = (1 << 31) - 1
    assert next_sequence(0, 1) == 1
    assert next_sequence(largest, 1) == 0
    assert next_sequence(largest - 2, 5) == 2
