"""Delays between attempts."""

from __future__ import annotations

from random import Random

import pytest

from ottla.client.backoff import Backoff


@pytest.mark.parametrize(
    ("attempt", "middle"), [(0, 0.05), (1, 0.1), (2, 0.2), (4, 0.8), (5, 1.0), (6, 1.0), (10_000, 1.0)]
)
def test_delays_double_up_to_the_largest_with_a_fifth_of_jitter(attempt: int, middle: float) -> None:
    backoff = Backoff(0.05, 1.0, Random(1))
    delays = [backoff.delay(attempt) for _ in range(500)]
    assert all(0.8 * middle <= delay <= 1.2 * middle for delay in delays)
    assert min(delays) < 0.85 * middle
    assert max(delays) > 1.15 * middle


def test_a_first_delay_beyond_the_largest_is_cut() -> None:
    assert Backoff(5.0, 1.0, Random(1)).delay(0) <= 1.2


def test_without_a_first_delay_there_is_none() -> None:
    assert Backoff(0, 1.0, Random(1)).delay(50) == 0
