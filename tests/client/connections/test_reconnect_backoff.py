"""When to connect again, and how long to try."""

from __future__ import annotations

from random import Random

import pytest

from ottla.client.connections.broker import ReconnectBackoff
from ottla.config import ClientConfig

CONFIG = ClientConfig(bootstrap_servers="localhost:9092")


def nearly(value: float) -> object:
    return pytest.approx(value, rel=0.2)


def test_the_wait_doubles_with_every_failure_up_to_its_most() -> None:
    broker = ReconnectBackoff(CONFIG, Random(1))
    waits = []
    for now in range(100, 107):
        broker.failed(started=now - 0.5, now=now)
        waits.append(broker.wait(now))
    assert waits == [nearly(each) for each in (0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0)]
    assert len({round(wait, 6) for wait in waits[-2:]}) == 2, "two clients must not come back together"
    assert broker.wait(200) == 0


def test_an_attempt_may_take_longer_after_each_failure() -> None:
    broker = ReconnectBackoff(CONFIG, Random(1))
    timeouts = []
    for now in range(100, 104):
        timeouts.append(broker.setup_timeout())
        broker.failed(started=now - 0.5, now=now)
    assert timeouts == [nearly(each) for each in (10, 20, 30, 30)]


def test_attempts_that_fail_side_by_side_count_once() -> None:
    broker = ReconnectBackoff(CONFIG, Random(1))
    for _ in range(5):
        broker.failed(started=99.0, now=100.0)
    broker.failed(started=99.5, now=100.01)
    assert broker.wait(100.0) == nearly(0.05)


def test_success_ends_the_row() -> None:
    broker = ReconnectBackoff(CONFIG, Random(1))
    for now in range(100, 110):
        broker.failed(started=now, now=now)
    before = broker.is_failing
    broker.succeeded()
    assert (before, broker.is_failing) == (True, False)
    broker.failed(started=200, now=200)
    assert broker.wait(200) == nearly(0.05)


def test_after_a_loss_the_next_connection_waits_a_little() -> None:
    broker = ReconnectBackoff(CONFIG, Random(1))
    assert broker.wait(100) == 0
    broker.lost(100)
    assert broker.wait(100) == nearly(0.05)
    assert not broker.is_failing
