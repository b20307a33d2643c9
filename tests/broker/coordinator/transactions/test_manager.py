"""A shard of transactions: what requests, markers, time and a load do, and what its log has of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.errors import CoordinatorNotAvailableError, InvalidProducerIdMappingError
from tests.broker.coordinator.transactions.shards import ID, LoneTransactions, code

ORDERS, PAYMENTS = ("orders", 0), ("payments", 1)
UNSUPPORTED_VERSION = 35
NONE, INVALID_EPOCH, INVALID_STATE, MAPPING, CONCURRENT, FENCED = 0, 47, 48, 49, 51, 90


@pytest.fixture
def world() -> LoneTransactions:
    return LoneTransactions().begin()


def test_a_transaction_from_its_first_producer_to_its_last_marker(world: LoneTransactions) -> None:
    producer = world.first()
    assert producer == (1000, 0)
    world.add(producer, ORDERS)
    world.add(producer, PAYMENTS)
    world.add(producer, ORDERS)
    following = world.end(producer, True)
    assert following == (1000, 1)
    (end,) = world.markers.sent
    assert (end.producer, end.is_commit, end.shard) == ((1000, 1), True, 3)
    assert (end.coordinator_epoch, end.transaction_version) == (1, 2)
    assert list(end.remaining) == [ORDERS, PAYMENTS]
    world.markers.write_all()
    assert world.labels == ["Empty", "Ongoing", "Ongoing", "PrepareCommit", "CompleteCommit"]
    assert world.state().producer == following
    assert not world.shard.ends


def test_an_abort_without_a_transaction_needs_no_marker(world: LoneTransactions) -> None:
    assert world.end(world.first(), False) == (1000, 1)
    (end,) = world.markers.sent
    assert not end.remaining
    world.markers.write_all()
    assert world.labels == ["Empty", "PrepareAbort", "CompleteAbort"]


def test_while_markers_are_on_their_way_everything_is_concurrent(world: LoneTransactions) -> None:
    producer = world.first()
    world.add(producer, ORDERS)
    following = world.end(producer, True)
    assert code(lambda: world.init()) == CONCURRENT
    assert code(lambda: world.add(following, ORDERS)) == CONCURRENT
    for who in (producer, following):
        for is_commit in (True, False):
            assert code(lambda who=who, is_commit=is_commit: world.end(who, is_commit)) == CONCURRENT  # type: ignore[misc]
    world.markers.write_all()
    assert world.end(producer, True) == following
    assert code(lambda: world.end(producer, False)) == INVALID_STATE


def test_an_id_that_is_not_known(world: LoneTransactions) -> None:
    producer = world.first(name="other")
    assert code(lambda: world.add(producer, ORDERS)) == MAPPING
    assert code(lambda: world.end(producer, True)) == MAPPING
    with pytest.raises(InvalidProducerIdMappingError):
        world.write(lambda shard: shard.verify(ID, producer, [ORDERS]))


@pytest.mark.parametrize(("version", "aborted"), [(0, 1), (1, 1), (2, 1)])
def test_the_next_producer_aborts_what_the_one_before_it_has_begun(version: int, aborted: int) -> None:
    world = LoneTransactions(version).begin()
    producer = world.first()
    client_version = 2 if version == 2 else 0
    world.add(producer, ORDERS, client_version=client_version)
    assert world.init() is None  # the request is to come again
    assert code(lambda: world.init()) == CONCURRENT
    (end,) = world.markers.sent
    assert (end.producer, end.is_commit, end.transaction_version) == (
        (1000, aborted),
        False,
        client_version,
    )
    world.markers.write_all()
    assert world.init() == (1000, 2)
    assert code(lambda: world.end(producer, True, bumps=version == 2)) == FENCED
    assert code(lambda: world.add(producer, ORDERS, client_version=client_version)) == FENCED


def test_at_version_0_producers_of_version_2_are_refused_and_nothing_is_changed() -> None:
    world = LoneTransactions(0).begin()
    producer = world.first()
    assert code(lambda: world.add(producer, ORDERS)) == UNSUPPORTED_VERSION
    assert code(lambda: world.end(producer, False)) == UNSUPPORTED_VERSION
    world.add(producer, ORDERS, client_version=0)
    assert code(lambda: world.end(producer, True)) == UNSUPPORTED_VERSION
    assert world.end(producer, True, bumps=False) == producer
    assert world.labels == ["Empty", "Ongoing", "PrepareCommit"]


# Commits and failures of the log


def test_markers_leave_when_the_end_is_on_all_replicas_in_sync(world: LoneTransactions) -> None:
    producer = world.first()
    world.add(producer, ORDERS)
    world.commits_at_once = False
    world.end(producer, True)
    assert not world.markers.sent
    world.commit()
    assert len(world.markers.sent) == 1
    world.commit()
    assert len(world.markers.sent) == 1


def test_an_end_that_the_log_refuses_has_not_been(world: LoneTransactions) -> None:
    producer = world.first()
    world.add(producer, ORDERS)
    world.refusal = CoordinatorNotAvailableError()
    assert code(lambda: world.end(producer, True)) == CoordinatorNotAvailableError.code
    world.refusal = None
    assert not world.markers.sent
    assert world.end(producer, False) == (1000, 1)
    assert not world.markers.sent[0].is_commit


def test_a_fence_that_the_log_refuses_bumps_no_further() -> None:
    world = LoneTransactions(1).begin()
    world.add(world.first(), ORDERS)
    world.refusal = CoordinatorNotAvailableError()
    for _ in range(3):
        assert code(lambda: world.init()) == CoordinatorNotAvailableError.code
    world.refusal = None
    assert world.init() is None
    assert world.state().producer == (1000, 1)


def test_a_completion_that_the_log_refuses_is_written_when_it_is_tried_again(world: LoneTransactions) -> None:
    producer = world.first()
    world.add(producer, ORDERS)
    world.end(producer, True)
    (end,) = world.markers.sent
    world.refusal = CoordinatorNotAvailableError()
    assert code(end.on_written) == CoordinatorNotAvailableError.code
    world.refusal = None
    end.on_written()
    end.on_written()
    assert world.labels[-2:] == ["PrepareCommit", "CompleteCommit"]


# Loading


def test_the_next_coordinator_knows_what_the_one_before_it_has_written(world: LoneTransactions) -> None:
    first, second = world.first(name="a"), world.first(name="b")
    world.add(first, ORDERS, PAYMENTS, name="a")
    world.end(second, False, name="b")
    world.markers.write_all()
    other = world.loaded()
    assert list(other.shard.states) == ["a", "b"]
    assert other.state("a") == world.state("a")
    assert other.state("b").producer == world.state("b").producer
    assert not other.markers.sent
    assert other.end(first, True, name="a") == (first.producer_id, 1)


def test_an_end_that_is_prepared_is_ended_by_the_next_coordinator_in_its_own_epoch(
    world: LoneTransactions,
) -> None:
    producer = world.first()
    world.add(producer, ORDERS, PAYMENTS)
    world.end(producer, True)
    world.markers.sent[0].remaining.pop(ORDERS)
    other = world.loaded()
    (end,) = other.markers.sent
    # All of them once more: the log does not say which were written.
    assert (end.coordinator_epoch, list(end.remaining), end.is_commit) == (2, [ORDERS, PAYMENTS], True)
    assert code(lambda: other.end(producer, True)) == CONCURRENT
    other.markers.write_all()
    assert other.end(producer, True) == (1000, 1)
    assert code(lambda: other.end(producer, False)) == INVALID_STATE


def test_an_end_that_is_loaded_and_not_committed_sends_no_marker_before_it_is(
    world: LoneTransactions,
) -> None:
    producer = world.first()
    world.add(producer, ORDERS)
    world.end(producer, True)
    other = LoneTransactions(2, 2)
    other.log = list(world.log)
    other.shard.on_committed(len(world.log))  # what a shard hears while it loads is for later
    assert not other.markers.sent
    third = LoneTransactions(2, 3)
    for offset, record in enumerate(world.log):
        third.shard.replay(record.key, record.value, offset)
    third.shard.on_committed(len(world.log) - 1)
    third.shard.on_loaded()
    assert not third.markers.sent
    third.shard.on_committed(len(world.log))
    assert len(third.markers.sent) == 1


def test_a_transaction_goes_on_with_its_old_start(world: LoneTransactions) -> None:
    producer = world.first(timeout_ms=20_000)
    world.add(producer, ORDERS)
    world.timers.advance(15)
    other = world.loaded()
    other.timers.advance(11)
    assert other.state().status.label == "PrepareAbort"


def test_a_shard_that_is_unloaded_drops_its_markers(world: LoneTransactions) -> None:
    world.shard.on_unloaded()
    assert world.markers.dropped == [3]


# Time


@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(version: int) -> None:
    world = LoneTransactions(version).begin()
    producer = world.first(timeout_ms=25_000)
    world.add(producer, ORDERS, client_version=version)
    world.timers.advance(20)
    assert world.state().status.label == "Ongoing"
    world.timers.advance(10.1)
    assert world.state().status.label == "PrepareAbort"
    assert world.markers.sent[0].producer == (1000, 1)
    world.markers.write_all()
    if version == 2:
        # It may not know, and ends what has ended: as an abort that is fine.
        assert world.end(producer, False) == (1000, 1)
        assert code(lambda: world.end(producer, True)) == INVALID_STATE
        assert world.init(producer) == (1000, 1)
    else:
        assert code(lambda: world.end(producer, False, bumps=False)) == FENCED
        assert code(lambda: world.init(producer)) == FENCED
    assert not any("timeouts" in str(key) for key in world.timers.keys)


def test_a_transaction_that_times_out_in_the_last_epoch_gets_another_producer_id(
    world: LoneTransactions,
) -> None:
    world.first()
    world.shard.states[ID] = replace(world.state(), epoch=32766)
    last = world.state().producer
    world.add(last, ORDERS)
    world.timers.advance(80)
    assert world.markers.sent[0].producer == (1000, 32767)
    world.markers.write_all()
    assert world.state().producer == (1001, 0)
    assert world.end(last, False) == (1001, 0)


def test_an_id_that_no_producer_uses_is_forgotten(world: LoneTransactions) -> None:
    week = 7 * 24 * 3600
    producer = world.first()
    busy = world.first(name="busy", timeout_ms=900_000)
    world.timers.advance(week - 3600)
    world.end(busy, False, name="busy")
    world.markers.write_all()
    world.timers.advance(2 * 3600)
    assert list(world.shard.states) == ["busy"]
    assert world.log[-1].value is None
    assert code(lambda: world.add(producer, ORDERS)) == MAPPING
    assert world.init(producer) == (1002, 0)
    world.timers.advance(week + 3600)
    assert not world.shard.states
    assert not world.timers.keys
    assert not world.loaded().shard.states


def test_an_id_in_a_transaction_is_never_forgotten() -> None:
    world = LoneTransactions(transactional_id_expiration_ms=1000).begin()
    producer = world.first(timeout_ms=900_000)
    world.add(producer, ORDERS)
    world.end(producer, True)
    world.timers.advance(3 * 3600)
    assert world.state().status.label == "PrepareCommit"


def test_a_record_of_another_kind_is_left_out(
    world: LoneTransactions, caplog: pytest.LogCaptureFixture
) -> None:
    world.shard.replay(b"\0\7\0\2me", b"what", 0)
    assert not world.shard.states
    assert "newer release" in caplog.text


def test_the_topic_has_nothing_transactional(world: LoneTransactions) -> None:
    with pytest.raises(ValueError, match="no transactional records"):
        world.shard.replay_transactional(1, b"", b"", 0)
    with pytest.raises(ValueError, match="no markers"):
        world.shard.end_transaction(1, True, 0)
