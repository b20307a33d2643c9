"""Which leaders are slow: something waits for them, and cannot be sent for too long."""

from __future__ import annotations

from ottla.client.partitioners import LeaderLatency


def test_a_leader_that_cannot_be_sent_to_becomes_slow_after_the_timeout() -> None:
    leaders = LeaderLatency(timeout=5)
    leaders.on_ready(1, 100, sendable=True)
    leaders.on_ready(1, 105, sendable=False)
    assert not leaders.is_slow(1)
    leaders.on_ready(1, 105.1, sendable=False)
    assert leaders.is_slow(1)
    assert not leaders.is_slow(2)


def test_a_leader_that_can_be_sent_to_again_is_not_slow_any_more() -> None:
    leaders = LeaderLatency(timeout=5)
    leaders.on_ready(1, 100, sendable=False)
    leaders.on_ready(1, 110, sendable=False)
    assert leaders.is_slow(1)
    leaders.on_ready(1, 111, sendable=True)
    assert not leaders.is_slow(1)


def test_the_first_time_that_something_waits_starts_the_clock() -> None:
    leaders = LeaderLatency(timeout=5)
    leaders.on_ready(1, 1000, sendable=False)
    assert not leaders.is_slow(1)


def test_a_leader_for_which_nothing_waits_does_not_become_slow() -> None:
    leaders = LeaderLatency(timeout=5)
    leaders.on_ready(1, 100, sendable=True)
    leaders.on_ready(2, 1000, sendable=True)
    assert not leaders.is_slow(1)


def test_without_a_timeout_no_leader_is_slow() -> None:
    leaders = LeaderLatency(timeout=0)
    leaders.on_ready(1, 100, sendable=False)
    leaders.on_ready(1, 10_000, sendable=False)
    assert not leaders.is_slow(1)


def test_a_leader_that_was_forgotten_starts_again() -> None:
    leaders = LeaderLatency(timeout=5)
    leaders.on_ready(1, 100, sendable=False)
    leaders.on_ready(1, 110, sendable=False)
    leaders.forget(1)
    assert not leaders.is_slow(1)
    leaders.on_ready(1, 111, sendable=False)
    assert not leaders.is_slow(1)
