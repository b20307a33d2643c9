"""What members note, and what the harness makes of it: gaps, by the clock that all processes share."""

from __future__ import annotations

import pytest

from bench.groups.deliveries import QUIET, Deliveries, Timeline, is_spread

NOW = 100.0
LONG_AGO = NOW - 3 * QUIET
READ = (LONG_AGO, NOW)


def test_a_run_goes_on_until_there_is_nothing_for_a_while() -> None:
    deliveries = Deliveries()
    for time in (10.0, 10.25, 10.5):
        deliveries.add(7, time)
    assert deliveries.runs == {7: (10.0, 10.5)}
    deliveries.add(7, later := 10.5 + QUIET)
    assert deliveries.runs == {7: (later, later)}


def test_a_member_says_what_it_was_given_since_then() -> None:
    assert Deliveries().first is None
    deliveries = Deliveries()
    for time, partition in [(1.0, 4), (2.0, 5), (3.0, 4)]:
        deliveries.add(partition, time)
    assert deliveries.first == 1.0
    assert deliveries.since(2.0) == [(2.0, 5), (3.0, 4)]
    assert deliveries.since(4.0) == []


def test_partitions_are_spread_when_each_has_had_one_reader_for_a_while() -> None:
    assert is_spread({0: {0: READ}, 1: {1: READ}}, partitions=2, members=2, now=NOW)
    assert is_spread({0: {0: READ, 1: READ}, 1: {1: (0.0, LONG_AGO)}}, partitions=2, members=1, now=NOW)


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param({0: {0: READ}, 1: {}}, id="one partition is not read"),
        pytest.param({0: {0: READ, 1: READ}, 1: {}}, id="one member reads nothing"),
        pytest.param({0: {0: READ, 1: READ}, 1: {1: READ}}, id="two members read one partition"),
        pytest.param({0: {0: READ}, 1: {1: (NOW - QUIET / 2, NOW)}}, id="one has only begun"),
        pytest.param({0: {0: READ}, 1: {1: (LONG_AGO, NOW - QUIET)}}, id="one has stopped"),
    ],
)
def test_partitions_are_not_spread(runs: dict[int, dict[int, tuple[float, float]]]) -> None:
    assert not is_spread(runs, partitions=2, members=2, now=NOW)


def test_gaps_are_told_apart_by_what_moves_and_what_stays() -> None:
    timeline = Timeline()
    # Partition 0 goes from member 1, which leaves at 5, to member 0; partition 1 stays there.
    timeline.add(0, [(time / 10, 1) for time in range(40, 90)] + [(7.0, 0), (7.1, 0)])
    timeline.add(1, [(4.8, 0), (4.9, 0)])
    gaps = timeline.gaps(at=5.0)
    assert gaps.moved == pytest.approx(2.1)
    assert gaps.stayed == pytest.approx(0.1)


def test_a_partition_that_comes_back_to_its_member_has_stayed() -> None:
    timeline = Timeline()
    timeline.add(0, [(4.0, 0), (4.9, 0), (6.0, 0)])
    timeline.add(1, [(5.2, 0)])
    assert timeline.gaps(at=5.0).stayed == pytest.approx(0.9)
    assert timeline.gaps(at=5.0).moved == 0.0
