"""Cursor: which state follows which, and what never counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.consume.cursor import (
    NO_LEADER,
    Cursor,
    FetchRefused,
    LogDiverged,
    NoWholeBatch,
    ReplicaPreferred,
    State,
    readiness,
)
from ottla.client.consume.fetch_session import FetchPosition
from ottla.client.consume.partition_records import BatchHeaders, PartitionRecords
from ottla.client.topic_partition import TopicPartition
from ottla.errors import NotLeaderOrFollowerError
from ottla.wire import Uuid
from ottla.wire.messages import FetchResponse


def cursor(offset: int | None = 0, leader: int = 1) -> Cursor:
    made = Cursor(TopicPartition("orders", 0), Uuid(b"0123456789abcdef"))
    made.follow(leader, 3)
    if offset is not None:
        made.load()
        made.loaded(offset)
    return made


def fetch(it: Cursor) -> int:
    """Puts it in flight; the number of that."""
    it.fetch(1, has_epochs=True, most=1024)
    return it.flight


def is_ready(it: Cursor, now: float = 0.0) -> bool:
    return readiness([it], it.fetch_node(now), now).ready == [it]


def state(it: Cursor) -> State:
    """As a function: mypy does not believe that a method changes an attribute."""
    return it.state


def test_goes_from_usable_over_in_flight_and_buffered_back_to_usable() -> None:
    it = cursor()
    flight = fetch(it)
    assert state(it) is State.IN_FLIGHT
    assert it.awaits(flight)
    it.buffer(10, epoch=3)
    assert (it.state, it.offset, it.last_consumed_epoch) == (State.BUFFERED, 10, 3)
    it.begun()
    assert state(it) is State.USABLE


def test_is_fetched_only_when_usable_not_paused_and_not_backing_off() -> None:
    it = cursor(None)
    assert not is_ready(it)
    it = cursor()
    assert is_ready(it)
    it.paused = True
    assert not is_ready(it)
    it.paused = False
    it.back_off(5.0)
    assert not is_ready(it, 4.9)
    assert is_ready(it, 5.0)


def test_a_leader_that_changes_makes_the_pending_response_void() -> None:
    it = cursor()
    flight = fetch(it)
    assert it.follow(2, 4)
    assert not it.awaits(flight)
    assert is_ready(it)
    assert it.fetch_node(0.0) == 2


def test_what_is_buffered_stays_so_when_the_leader_changes() -> None:
    it = cursor()
    flight = fetch(it)
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


def test_a_response_that_does_not_advance_is_refused() -> None:
    it = cursor(10)
    fetch(it)
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
    it.follow(NO_LEADER, -1)
    assert it.fetch_node(0.0) == NO_LEADER


def test_is_done_when_its_stop_is_reached() -> None:
    it = cursor()
    it.stop = 10
    fetch(it)
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
    fetch(it)
    it.fail()
    assert not it.retry()
    assert (it.state, it.offset) == (State.USABLE, 4)


def test_a_lookup_makes_the_pending_response_void() -> None:
    it = cursor()
    flight = fetch(it)
    it.load()
    assert not it.awaits(flight)
    assert not it.has_offset


@pytest.mark.parametrize("step", [fetch, Cursor.release, Cursor.begun, Cursor.retry])
def test_a_step_from_the_wrong_state_is_a_bug_that_shows(step: Callable[[Cursor], object]) -> None:
    it = cursor(None)
    with pytest.raises(RuntimeError, match="should be"):
        step(it)


def test_asks_for_no_more_than_what_lies_before_the_stop() -> None:
    it, most = cursor(), 8 * 1024 * 1024
    assert it.fetch_bytes(most) == most
    it.stop = 100
    assert it.fetch_bytes(most) == 1024 * 1024
    it.stop = 40_000
    assert 1024 * 1024 < it.fetch_bytes(most) < most
    it.measure(1024 * 1000, 1000)
    assert it.fetch_bytes(most) == most


def test_one_look_says_who_is_ready_who_belongs_elsewhere_and_when_to_look_again() -> None:
    ready, paused, backing_off, preferring, expired = (cursor() for _ in range(5))
    paused.paused = True
    backing_off.back_off(5.0)
    preferring.prefer(1, until=3.0)
    expired.prefer(1, until=2.0)
    expired.leader = 2
    look = readiness([ready, paused, backing_off, preferring, expired], 1, 2.0)
    assert look == ([ready, preferring], [expired], 3.0)
    assert expired.fetch_node(2.0) == 2
    assert readiness([ready, backing_off], 1, 2.0).next_at == 5.0
    assert readiness([ready, paused], 1, 2.0).next_at is None


def test_a_preference_for_the_leader_itself_ends_without_a_time_to_look_again() -> None:
    it = cursor()
    it.paused = True
    it.prefer(1, until=2.0)
    assert readiness([it], 1, 2.0) == ([], [], None)


def test_a_request_names_the_last_epoch_to_a_leader_that_is_known_and_to_no_other() -> None:
    it = cursor(7)
    it.rewind(7, epoch=3)
    assert it.fetch(1, has_epochs=True, most=1024) == FetchPosition("orders", it.topic_id, 0, 7, 3, 3, 1024)
    it.release()
    assert it.fetch(1, has_epochs=False, most=1024).last_fetched_epoch == -1
    it.release()
    assert it.fetch(2, has_epochs=True, most=1024).last_fetched_epoch == -1


def data(**options: Any) -> FetchResponse.PartitionData:
    given: dict[str, Any] = {"partition_index": 0, "error_code": 0, "high_watermark": 20, "records": b""}
    return FetchResponse.PartitionData(**{**given, **options})


def receive(it: Cursor, headers: BatchHeaders | None = None, **options: Any) -> object:
    fetch(it)
    return it.receive(data(**options), headers, 1, 4.5, committed=False)


def test_records_are_buffered_and_say_how_far_they_go() -> None:
    it = cursor()
    it.stop = 8
    found = receive(it, BatchHeaders(10, 3, 10, 4), records=b"abcdef")
    assert isinstance(found, PartitionRecords)
    assert (found.data, found.offset, found.next_offset, found.end, found.count) == (b"abcd", 0, 10, 8, 10)
    assert (found.high_watermark, found.node_id, found.read_at) == (20, 1, 4.5)
    assert (it.state, it.offset, it.high_watermark) == (State.BUFFERED, 10, 20)


def test_a_response_without_records_releases_the_cursor_and_ends_its_back_off() -> None:
    it = cursor()
    it.back_off(0.0)
    assert receive(it) is None
    assert (it.state, it.attempts) == (State.USABLE, 0)


def test_a_problem_is_returned_and_not_solved() -> None:
    it = cursor()
    refused = receive(it, error_code=6)
    assert isinstance(refused, FetchRefused)
    assert isinstance(refused.error, NotLeaderOrFollowerError)
    assert state(it) is State.USABLE
    assert receive(it, preferred_read_replica=5) == ReplicaPreferred(5)
    assert state(it) is State.USABLE
    diverging = FetchResponse.EpochEndOffset(epoch=2, end_offset=4)
    assert receive(it, diverging_epoch=diverging) == LogDiverged(4)
    it.rewind(4, -1)
    assert receive(it, BatchHeaders(-1, -1, 0, 6), records=b"abcdef") == NoWholeBatch(6)


def test_a_leader_of_an_older_epoch_than_what_was_consumed_is_not_believed() -> None:
    it = cursor(None)
    it.load()
    it.loaded(7, 5)
    assert (it.began_at, it.began_epoch, it.leader_epoch, it.required_epoch) == (7, 5, 3, 5)
    position = it.fetch(1, has_epochs=True, most=1024)
    assert (position.offset, position.leader_epoch, position.last_fetched_epoch) == (7, 5, 5)
    it.release()
    it.follow(2, 6)
    assert it.required_epoch == 6
    it.load()
    it.loaded(7)
    assert (it.began_epoch, it.required_epoch) == (-1, 6)


def test_where_metadata_has_no_epochs_no_leader_is_checked() -> None:
    it = Cursor(TopicPartition("orders", 0), Uuid(b"0123456789abcdef"))
    it.follow(1, -1)
    it.load()
    it.loaded(7, 5)
    assert it.required_epoch == -1
