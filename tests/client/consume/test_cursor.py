"""Cursor: which state follows which, and what never counts."""

from __future__ import annotations

import pytest

from ottla.client.consume.cursor import NOBODY, Cursor, State
from ottla.client.topic_partition import TopicPartition
from ottla.wire import Uuid


def cursor(offset: int | None = 0, leader: int = 1) -> Cursor:
    made = Cursor(TopicPartition("orders", 0), Uuid(b"0123456789abcdef"))
    made.follow(leader, 3)
    if offset is not None:
        made.load()
        made.loaded(offset)
    return made


def state(it: Cursor) -> State:
    """As a function: mypy does not believe that a method changes an attribute."""
    return it.state


def test_goes_from_usable_over_in_flight_and_buffered_back_to_usable() -> None:
    it = cursor()
    flight = it.use()
    assert state(it) is State.IN_FLIGHT
    assert it.awaits(flight)
    it.buffer(10, epoch=3)
    assert (it.state, it.offset, it.last_consumed_epoch) == (State.BUFFERED, 10, 3)
    it.begun()
    assert state(it) is State.USABLE


def test_is_fetched_only_when_usable_not_paused_and_not_backing_off() -> None:
    it = cursor(None)
    assert not it.is_fetchable(0.0)
    it = cursor()
    assert it.is_fetchable(0.0)
    it.paused = True
    assert not it.is_fetchable(0.0)
    it.paused = False
    it.back_off(5.0)
    assert not it.is_fetchable(4.9)
    assert it.is_fetchable(5.0)


def test_a_leader_that_changes_makes_the_answer_under_way_void() -> None:
    it = cursor()
    flight = it.use()
    assert it.follow(2, 4)
    assert not it.awaits(flight)
    assert it.is_fetchable(0.0)
    assert it.fetch_node(0.0) == 2


def test_what_is_buffered_stays_so_when_the_leader_changes() -> None:
    it = cursor()
    flight = it.use()
    it.buffer(10, epoch=3)
    it.follow(2, 4)
    assert (state(it), it.flight) == (State.BUFFERED, flight)
    it.begun()
    assert it.fetch_node(0.0) == 2


def test_older_leader_epochs_and_minus_one_are_not_adopted() -> None:
    it = cursor()
    assert not it.follow(2, 2)
    assert (it.leader, it.leader_epoch) == (1, 3)
    assert it.follow(2, -1)
    assert (it.leader, it.leader_epoch) == (2, 3)
    it.update(-1, -1, -1)
    it.update(9, 8, 7)
    it.update(-1, -1, -1)
    assert (it.high_watermark, it.last_stable_offset, it.log_start_offset) == (9, 8, 7)


@pytest.mark.parametrize("offset", [-1, -2])
def test_a_negative_offset_is_refused(offset: int) -> None:
    it = cursor(None)
    it.load()
    with pytest.raises(ValueError, match="no offset"):
        it.loaded(offset)


def test_an_answer_that_does_not_advance_is_refused() -> None:
    it = cursor(10)
    it.use()
    with pytest.raises(ValueError, match="10"):
        it.buffer(10, epoch=3)


def test_a_preferred_replica_holds_for_a_while_and_ends_with_the_leader() -> None:
    it = cursor()
    it.prefer(5, until=10.0)
    assert it.fetch_node(9.9) == 5
    assert it.fetch_node(10.0) == 1
    it.follow(2, 4)
    assert it.fetch_node(0.0) == 2
    it.prefer(5, until=10.0)
    it.follow(NOBODY, -1)
    assert it.fetch_node(0.0) == NOBODY


def test_is_done_when_its_stop_is_reached() -> None:
    it = cursor()
    it.stop = 10
    it.use()
    it.buffer(12, epoch=3)
    assert state(it) is State.BUFFERED
    it.begun()
    assert state(it) is State.DONE
    it.rewind(5, 3)
    assert state(it) is State.USABLE


def test_a_failure_is_retried_as_what_failed() -> None:
    it = cursor(None)
    it.load()
    it.fail()
    assert it.retry()
    assert state(it) is State.LOADING
    it.loaded(4)
    it.use()
    it.fail()
    assert not it.retry()
    assert (it.state, it.offset) == (State.USABLE, 4)


def test_a_lookup_makes_the_answer_under_way_void() -> None:
    it = cursor()
    flight = it.use()
    it.load()
    assert not it.awaits(flight)
    assert not it.has_offset


@pytest.mark.parametrize("step", ["use", "release", "begun", "retry"])
def test_a_step_from_the_wrong_state_is_a_bug_that_shows(step: str) -> None:
    it = cursor(None)
    with pytest.raises(RuntimeError, match="should be"):
        getattr(it, step)()


def test_asks_for_no_more_than_what_lies_before_the_stop() -> None:
    it, most = cursor(), 8 * 1024 * 1024
    assert it.fetch_bytes(most) == most
    it.stop = 100
    assert it.fetch_bytes(most) == 1024 * 1024
    it.stop = 40_000
    assert 1024 * 1024 < it.fetch_bytes(most) < most
    it.measure(1024 * 1000, 1000)
    assert it.fetch_bytes(most) == most
