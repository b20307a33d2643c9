"""When requests are due: a machine fed with times."""

from __future__ import annotations

from random import Random

from ottla.client.backoff import Backoff
from ottla.client.metadata.refresh_policy import QUICK_RETRIES, URGENT_SPACING, RefreshPolicy

MIN_AGE = 5.0
MAX_AGE = 300.0


def begun() -> RefreshPolicy:
    random = Random(1)
    policy = RefreshPolicy(MIN_AGE, MAX_AGE, Backoff(0.1, 1.0, random), random)
    policy.begin(0.0)
    return policy


def succeeded(*reasons: str, at: float = 0.0) -> RefreshPolicy:
    policy = begun()
    policy.sent()
    policy.succeeded(at, reasons)
    return policy


def test_nothing_is_due_at_first_until_max_age() -> None:
    assert begun().due(0.0) == MAX_AGE


def test_the_first_trigger_of_either_kind_is_due_at_once() -> None:
    lazy, urgent = begun(), begun()
    lazy.trigger()
    urgent.trigger_now()
    assert lazy.due(0.0) <= 0.0
    assert urgent.due(0.0) <= 0.0


def test_a_lazy_trigger_waits_for_min_age_and_an_immediate_one_does_not() -> None:
    policy = succeeded()
    policy.trigger()
    assert policy.due(1.0) == MIN_AGE
    policy.trigger_now()
    assert policy.due(1.0) == 1.0


def test_triggers_before_a_request_is_sent_are_answered_by_it() -> None:
    policy = begun()
    policy.trigger_now()
    policy.trigger()
    policy.sent()
    policy.succeeded(1.0, [])
    assert policy.due(1.0) == 1.0 + MAX_AGE


def test_triggers_while_a_request_is_under_way_lead_to_one_more() -> None:
    policy = begun()
    policy.sent()
    for _ in range(10):
        policy.trigger_now()
    policy.succeeded(1.0, [])
    assert policy.due(1.0) == 1.0
    policy.sent()
    policy.succeeded(2.0, [])
    assert policy.due(2.0) == 2.0 + MAX_AGE


def test_urgent_triggers_are_due_at_once_but_not_right_after_an_answer() -> None:
    policy = succeeded(at=1.0)
    policy.trigger_urgent()
    assert policy.due(1.0) == 1.0 + URGENT_SPACING
    assert policy.due(7.0) == 7.0
    policy.trigger_now()
    assert policy.due(1.0) == 1.0
    policy.sent()
    policy.succeeded(2.0, [])
    assert policy.due(2.0) == 2.0 + MAX_AGE


def retry_delays(policy: RefreshPolicy, reason: str, count: int) -> list[float]:
    delays = []
    now = 10.0
    for _ in range(count):
        policy.sent()
        policy.succeeded(now, [reason])
        delays.append(policy.due(now) - now)
        now = policy.due(now)
    return delays


def test_reasons_are_retried_quickly_eight_times_and_then_every_min_age() -> None:
    delays = retry_delays(begun(), "no leader", QUICK_RETRIES + 3)
    assert QUICK_RETRIES == 8
    assert all(0.2 <= delay <= 0.3 for delay in delays[:QUICK_RETRIES])
    assert len(set(delays[:QUICK_RETRIES])) > 1, "clients that failed together do not come back together"
    assert delays[QUICK_RETRIES:] == [MIN_AGE] * 3


def test_a_new_reason_gets_quick_retries_of_its_own() -> None:
    policy = begun()
    retry_delays(policy, "an old reason", QUICK_RETRIES + 1)
    assert retry_delays(policy, "a new reason", 1)[0] < MIN_AGE


def test_without_reasons_the_pace_is_normal_again() -> None:
    policy = begun()
    retry_delays(policy, "no leader", 3)
    policy.sent()
    policy.succeeded(50.0, [])
    assert policy.due(50.0) == 50.0 + MAX_AGE
    assert len([delay for delay in retry_delays(policy, "no leader", 8) if delay < MIN_AGE]) == 8


def test_failures_back_off_whatever_is_triggered() -> None:
    policy = begun()
    delays = []
    for _ in range(6):
        policy.sent()
        policy.failed(10.0)
        policy.trigger_now()
        delays.append(policy.due(10.0) - 10.0)
    assert 0.08 <= delays[0] <= 0.12
    assert delays == sorted(delays[:4]) + delays[4:]
    assert max(delays) <= 1.2
    assert policy.is_failing


def test_an_answer_ends_the_back_off() -> None:
    policy = begun()
    policy.failed(10.0)
    policy.sent()
    policy.succeeded(11.0, [])
    assert not policy.is_failing
    assert policy.due(11.0) == 11.0 + MAX_AGE
