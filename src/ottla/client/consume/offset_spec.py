"""Where reading begins and ends: what a user may write for `start` and `stop`, and what a request says for it.

An offset spec is an offset, or a timestamp that ListOffsets turns into one: Kafka has negative timestamps for both
ends. Nothing here sends a request, and the time comes with the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import index
from typing import Final, SupportsIndex, TypeAlias

from ottla.client.topic_partition import TopicPartition
from ottla.config import ClientConfig
from ottla.config.rules import reset_duration_ms
from ottla.errors import ConfigurationError

_EARLIEST: Final = -2
_LATEST: Final = -1
_LARGEST_TIMESTAMP: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """Milliseconds since 1970, as records have them: `start=Timestamp(1_700_000_000_000)`."""

    ms: int

    def __post_init__(self) -> None:
        if isinstance(self.ms, bool) or not isinstance(self.ms, SupportsIndex):
            raise TypeError(f"Timestamp({self.ms!r}): whole milliseconds since 1970 are meant, an int")
        if not 0 <= index(self.ms) <= _LARGEST_TIMESTAMP:
            raise ValueError(f"Timestamp({self.ms!r}): milliseconds since 1970 are meant, 0 or more")


Start: TypeAlias = str | int | datetime | Timestamp
Stop: TypeAlias = str | int | datetime | Timestamp
Stops: TypeAlias = Stop | Mapping[TopicPartition, Stop]
"""One for all partitions, or one for each."""


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """A position that is known (`offset`), or one that the leader knows (`timestamp`, for ListOffsets)."""

    offset: int | None = None
    timestamp: int | None = None
    leader_epoch: int = -1
    """Of what lies before the offset, where a commit has said it."""

    def __str__(self) -> str:
        if self.offset is not None:
            return f"offset {self.offset}"
        return {_EARLIEST: "the beginning", _LATEST: "the end"}.get(
            self.timestamp or 0, f"timestamp {self.timestamp}"
        )


EARLIEST: Final = OffsetSpec(timestamp=_EARLIEST)
LATEST: Final = OffsetSpec(timestamp=_LATEST)


def start_spec(start: Start, now_ms: int) -> OffsetSpec:
    """From what a user wrote; a ConfigurationError says what may be written."""
    if isinstance(start, str):
        if start == "earliest":
            return EARLIEST
        if start == "latest":
            return LATEST
        ago = reset_duration_ms(start)
        if ago is not None:
            return OffsetSpec(timestamp=max(0, now_ms - ago))
    spec = _offset_or_time(start)
    if spec is None:
        raise _unfit("start", start, "'earliest', 'latest', 'by_duration:PT1H'")
    return spec


def stop_spec(stop: Stop) -> OffsetSpec:
    """From what a user wrote; the record at this offset is not read any more."""
    if stop == "latest":
        return LATEST
    spec = _offset_or_time(stop)
    if spec is None:
        raise _unfit("stop", stop, "'latest' (the end as of the start)")
    return spec


def reset_spec(config: ClientConfig, now_ms: int) -> OffsetSpec | None:
    """Where `auto_offset_reset` leads; None for "none"."""
    if config.auto_offset_reset == "none":
        return None
    return start_spec(config.auto_offset_reset, now_ms)


def _offset_or_time(given: object) -> OffsetSpec | None:
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return OffsetSpec(offset=given)
    if isinstance(given, Timestamp):
        return OffsetSpec(timestamp=given.ms)
    if isinstance(given, datetime):
        # A naive one is local time, as everywhere in Python.
        return OffsetSpec(timestamp=Timestamp(round(given.timestamp() * 1000)).ms)
    return None


def _unfit(name: str, value: object, words: str) -> ConfigurationError:
    return ConfigurationError(
        f"{name}={value!r}: write {words}, an offset from 0, a datetime or a Timestamp",
        option=name,
        value=value,
        allowed=words,
    )
