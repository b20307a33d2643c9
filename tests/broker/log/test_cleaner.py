"""Which log is compacted next, from where to where."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.broker.log.cleaner import DirtyLog, dirty_log, filthiest, first_dirty_offset
from ottla.broker.log.log import Log, LogConfig

from .support import NOW, append, make_batch, open_log

HOUR = 3_600_000
CONFIG = LogConfig(compact=True, delete=False)


def in_segments(count: int, config: LogConfig = CONFIG, *, records: int = 1) -> Log:
    """Segment by segment, an hour apart; the last one is active, and has nothing in it."""
    log = open_log(config=config)
    for number in range(count):
        append(log, make_batch(records, timestamp=NOW + number * HOUR), now_ms=NOW + number * HOUR)
        log.roll(NOW + number * HOUR)
    return log


def range_of(
    log: Log, *, stable: int | None = None, now_ms: int = NOW + 100 * HOUR
) -> tuple[int, int] | None:
    found = dirty_log(log, log.log_end_offset if stable is None else stable, now_ms)
    return None if found is None else (found.first_dirty_offset, found.upper_offset)


def found_in(log: Log, now_ms: int = NOW + 100 * HOUR) -> DirtyLog:
    found = dirty_log(log, log.log_end_offset, now_ms)
    assert found is not None
    return found


def test_everything_before_the_active_segment_is_compacted() -> None:
    log = in_segments(3, records=2)
    append(log, make_batch())
    assert range_of(log) == (0, 6)


def test_a_log_with_an_active_segment_only_has_nothing_to_compact() -> None:
    log = open_log(config=CONFIG)
    assert range_of(log) is None
    append(log, make_batch())
    assert range_of(log) is None


@pytest.mark.parametrize(("stable", "upper"), [(6, 6), (5, 4), (4, 4), (2, 2), (1, None), (0, None)])
def test_a_segment_with_something_unstable_is_left_alone(stable: int, upper: int | None) -> None:
    assert range_of(in_segments(3, records=2), stable=stable) == (None if upper is None else (0, upper))


def test_segments_younger_than_the_smallest_lag_are_left_alone() -> None:
    log = in_segments(3, replace(CONFIG, min_compaction_lag_ms=HOUR))
    for hours, expected in [(0.9, None), (1, (0, 1)), (1.9, (0, 1)), (2, (0, 2)), (3, (0, 3))]:
        assert range_of(log, now_ms=NOW + int(hours * HOUR)) == expected


def test_a_pass_goes_on_where_the_last_one_has_ended() -> None:
    log = in_segments(3)
    log.first_dirty_offset = 2
    assert range_of(log) == (2, 3)
    log.first_dirty_offset = 3
    assert range_of(log) is None


def test_an_end_outside_of_the_log_is_the_start_of_the_log() -> None:
    log = in_segments(3)
    log.first_dirty_offset = 4
    assert first_dirty_offset(log) == 0
    log.delete_records(2)
    assert first_dirty_offset(log) == 2
    log.first_dirty_offset = 1
    assert first_dirty_offset(log) == 2
    log.first_dirty_offset = 3
    assert first_dirty_offset(log) == 3


def test_the_ratio_is_that_of_the_dirty_bytes() -> None:
    log = in_segments(4)
    assert found_in(log).ratio == 1.0
    log.first_dirty_offset = 3
    assert found_in(log).ratio == pytest.approx(0.25)
    assert not found_in(log).is_due
    log.first_dirty_offset = 2
    assert not found_in(log).is_due  # one half is not more than one half
    log.first_dirty_offset = 1
    assert found_in(log).is_due


def test_a_ratio_of_the_topic_counts() -> None:
    log = in_segments(4, replace(CONFIG, min_cleanable_dirty_ratio=0.2))
    log.first_dirty_offset = 3
    assert found_in(log).is_due


def test_what_has_waited_for_too_long_is_due_however_little_it_is() -> None:
    log = in_segments(4, replace(CONFIG, max_compaction_lag_ms=10 * HOUR))
    log.first_dirty_offset = 3
    assert not found_in(log, NOW + 13 * HOUR).is_due
    assert found_in(log, NOW + 13 * HOUR + 1).is_due


def test_the_dirtiest_of_those_that_are_due_comes_first() -> None:
    clean, dirty, dirtier = (in_segments(6) for _ in range(3))
    clean.first_dirty_offset, dirty.first_dirty_offset, dirtier.first_dirty_offset = 4, 2, 1
    chosen = filthiest([found_in(clean), None, found_in(dirty), found_in(dirtier)])
    assert chosen is not None
    assert chosen.log is dirtier
    assert filthiest([found_in(clean), None]) is None
    assert filthiest([]) is None


def test_of_equals_the_first_is_taken() -> None:
    logs = [found_in(in_segments(2)) for _ in range(3)]
    assert filthiest(logs) is logs[0]


def test_an_active_segment_older_than_the_largest_lag_is_rolled_with_the_next_record() -> None:
    log = open_log(config=replace(CONFIG, max_compaction_lag_ms=HOUR))
    append(log, make_batch())
    append(log, make_batch(timestamp=NOW + HOUR), now_ms=NOW + HOUR)
    assert len(log.segments) == 1
    append(log, make_batch(timestamp=NOW + HOUR + 1), now_ms=NOW + HOUR + 1)
    assert len(log.segments) == 2
    log.reconfigure(LogConfig(max_compaction_lag_ms=HOUR))
    append(log, make_batch(timestamp=NOW + 3 * HOUR), now_ms=NOW + 3 * HOUR)
    assert len(log.segments) == 2
