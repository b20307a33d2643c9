"""Which segments a log no longer has to keep (cleanup.policy=delete): whole ones, oldest first.

Three reasons, as in Kafka: the log begins behind the segment, the log is larger than retention.bytes without it, or
its newest record is older than retention.ms. Nothing above the high watermark goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.broker.log.config import LogConfig
from ottla.broker.log.segment import Segment

Condition = Callable[[Segment, Segment | None], bool]
"""Whether a segment may go, given the one behind it."""


def conditions(
    segments: Sequence[Segment], config: LogConfig, log_start_offset: int, now_ms: int
) -> list[Condition]:
    """What to delete by. A log that is only compacted loses no more than what DeleteRecords has taken."""
    found = [_below(log_start_offset)]
    if config.delete and config.retention_bytes >= 0:
        found.append(_beyond(sum(segment.size for segment in segments) - config.retention_bytes))
    if config.delete and config.retention_ms >= 0:
        found.append(_older_than(now_ms - config.retention_ms))
    return found


def deletable(
    segments: Sequence[Segment], condition: Condition, log_end_offset: int, high_watermark: int
) -> int:
    """How many segments may go, from the oldest on. The active one may, if there is something in it."""
    for number, segment in enumerate(segments):
        following = segments[number + 1] if number + 1 < len(segments) else None
        end = log_end_offset if following is None else following.base_offset
        if high_watermark < end or not condition(segment, following):
            return number
        if following is None and not segment.size:
            return number
    return len(segments)


def _below(log_start_offset: int) -> Condition:
    def condition(segment: Segment, following: Segment | None) -> bool:
        return following is not None and following.base_offset <= log_start_offset

    return condition


def _beyond(excess: int) -> Condition:
    def condition(segment: Segment, following: Segment | None) -> bool:
        nonlocal excess
        excess -= segment.size
        return excess >= 0

    return condition


def _older_than(oldest_ms: int) -> Condition:
    def condition(segment: Segment, following: Segment | None) -> bool:
        return segment.largest_timestamp < oldest_ms

    return condition
