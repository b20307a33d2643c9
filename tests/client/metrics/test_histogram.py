"""Histograms: quantiles near the truth, and differences that add up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.metrics import Distribution, Histogram, distribution, merged

values = st.lists(st.floats(min_value=1e-9, max_value=1e12), min_size=1, max_size=200)


def recorded(numbers: list[float]) -> Histogram:
    histogram = Histogram()
    for number in numbers:
        histogram.record(number)
    return histogram


@given(values, st.floats(min_value=0.01, max_value=1.0))
def test_a_quantile_is_within_four_per_cent_of_the_value_at_that_rank(
    numbers: list[float], share: float
) -> None:
    ordered = sorted(numbers)
    rank = next(rank for rank in range(1, len(ordered) + 1) if rank >= share * len(ordered))
    assert distribution(recorded(numbers)).quantile(share) == pytest.approx(ordered[rank - 1], rel=0.04)


@given(values, values)
def test_the_difference_of_two_moments_is_what_came_in_between(
    first: list[float], second: list[float]
) -> None:
    histogram = recorded(first)
    before = distribution(histogram)
    for number in second:
        histogram.record(number)
    between, alone = distribution(histogram).since(before), distribution(recorded(second))
    assert (between.count, between.buckets) == (alone.count, alone.buckets)
    assert between.max == pytest.approx(alone.max, rel=0.04)
    assert between.sum == pytest.approx(alone.sum, rel=1e-6, abs=sum(first) * 1e-9)


@given(values, values)
def test_several_histograms_together_are_one_over_all_values(first: list[float], second: list[float]) -> None:
    together = merged([distribution(recorded(first)), distribution(recorded(second))])
    alone = distribution(recorded(first + second))
    assert (together.count, together.max, together.buckets) == (alone.count, alone.max, alone.buckets)
    assert together.sum == pytest.approx(alone.sum)


def test_zero_and_negative_values_count_as_zero() -> None:
    found = distribution(recorded([0.0, -1.0]))
    assert (found.count, found.sum, found.max, found.p99) == (2, 0.0, 0.0, 0.0)


def test_without_values_everything_is_zero() -> None:
    nothing = Distribution()
    assert (nothing.avg, nothing.p50, nothing.p99, nothing.max) == (0.0, 0.0, 0.0, 0.0)
    assert nothing.since(nothing).max == 0.0


def test_values_up_to_a_bound_are_counted() -> None:
    found = distribution(recorded([0.001, 0.002, 0.5, 3.0]))
    assert [found.at_most(bound) for bound in (0.0005, 0.01, 1.0, 10.0)] == [0, 2, 3, 4]
