"""The pace of requests: a machine fed with times."""

from __future__ import annotations

from random import Random

from ottla.client.backoff import Backoff
from ottla.client.metadata.pace import QUICK_RETRIES, URGENT_SPACING, Pace

MIN_AGE = 5.0
MAX_AGE = 300.0


def begun() -> Pace:
    random = Random(1)
    pace = Pace(MIN_AGE, MAX_AGE, Backoff(0.1, 1.0, random), random)
    pace.begin(0.0)
    return pace


def answered(*troubles: str, at: float = 0.0) -> Pace:
    pace = begun()
    pace.sent()
    pace.answered(at, troubles)
    return pace


def test_nothing_is_due_at_first_until_max_age() -> None:
    assert begun().due(0.0) == MAX_AGE


def test_the_first_trigger_of_either_kind_is_due_at_once() -> None:
    lazy, urgent = begun(), begun()
    lazy.trigger()
    urgent.trigger_now()
    assert lazy.due(0.0) <= 0.0
    assert urgent.due(0.0) <= 0.0


def test_a_lazy_trigger_waits_for_min_age_and_an_immediate_one_does_not() -> None:
    pace = answered()
    pace.trigger()
    assert pace.due(1.0) == MIN_AGE
    pace.trigger_now()
    assert pace.due(1.0) == 1.0


def test_triggers_before_a_request_is_sent_are_answered_by_it() -> None:
    pace = begun()
    pace.trigger_now()
    pace.trigger()
    pace.sent()
    pace.answered(1.0, [])
    assert pace.due(1.0) == 1.0 + MAX_AGE


def test_triggers_while_a_request_is_under_way_lead_to_one_more() -> None:
    pace = begun()
    pace.sent()
    for _ in range(10):
        pace.trigger_now()
    pace.answered(1.0, [])
    assert pace.due(1.0) == 1.0
    pace.sent()
    pace.answered(2.0, [])
    assert pace.due(2.0) == 2.0 + MAX_AGE


def test_urgent_triggers_are_due_at_once_but_not_right_after_an_answer() -> None:
    pace = answered(at=1.0)
    pace.trigger_urgent()
    assert pace.due(1.0) == 1.0 + URGENT_SPACING
    assert pace.due(7.0) == 7.0
    pace.trigger_now()
    assert pace.due(1.0) == 1.0
    pace.sent()
    pace.answered(2.0, [])
    assert pace.due(2.0) == 2.0 + MAX_AGE


def retry_delays(pace: Pace, trouble: str, count: int) -> list[float]:
    delays = []
    now = 10.0
    for _ in range(count):
        pace.sent()
        pace.answered(now, [trouble])
        delays.append(pace.due(now) - now)
        now = pace.due(now)
    return delays


def test_troubles_are_retried_quickly_eight_times_and_then_every_min_age() -> None:
    delays = retry_delays(begun(), "no leader", QUICK_RETRIES + 3)
    assert QUICK_RETRIES == 8
    assert all(0.2 <= delay <= 0.3 for delay in delays[:QUICK_RETRIES])
    assert len(set(delays[:QUICK_RETRIES])) > 1, "clients that failed together do not come back together"
    assert delays[QUICK_RETRIES:] == [MIN_AGE] * 3


def test_a_new_trouble_gets_quick_retries_of_its_own() -> None:
    pace = begun()
    retry_delays(pace, "an old trouble", QUICK_RETRIES + 1)
    assert retry_delays(pace, "a new trouble", 1)[0] < MIN_AGE


def test_without_troubles_the_pace_is_normal_again() -> None:
    pace = begun()
    retry_delays(pace, "no leader", 3)
    pace.sent()
    pace.answered(50.0, [])
    assert pace.due(50.0) == 50.0 + MAX_AGE
    assert len([delay for delay in retry_delays(pace, "no leader", 8) if delay < MIN_AGE]) == 8


def test_failures_back_off_whatever_is_triggered() -> None:
    pace = begun()
    delays = []
    for _ in range(6):
        pace.sent()
        pace.failed(10.0)
        pace.trigger_now()
        delays.append(pace.due(10.0) - 10.0)
    assert 0.08 <= delays[0] <= 0.12
    assert delays == sorted(delays[:4]) + delays[4:]
    assert max(delays) <= 1.2
    assert pace.is_failing


def test_an_answer_ends_the_back_off() -> None:
    pace = begun()
    pace.failed(10.0)
    pace.sent()
    pace.answered(11.0, [])
    assert not pace.is_failing
    assert pace.due(11.0) == 11.0 + MAX_AGE
