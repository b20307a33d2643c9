"""Where reading begins and ends: startingOffsets, endingOffsets, and the same by time.

A time for all partitions beats times by partition, which beat offsets: of several, only the first is looked at. The
names of the alternatives are the JVM connector's.

Not here: which offsets they are, which only a broker knows (`ottla.spark.source.offset_reader`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ottla.client.topic_partition import TopicPartition
from ottla.spark.options.parsing import OptionError, by_partition, refused, whole

# What the JSON of startingOffsets and endingOffsets writes instead of an offset.
LATEST_OFFSET: Final = -1
EARLIEST_OFFSET: Final = -2


@dataclass(frozen=True, slots=True)
class Earliest:
    """The first record that there is, of every partition."""


@dataclass(frozen=True, slots=True)
class Latest:
    """Behind the last record that there is, of every partition."""


@dataclass(frozen=True, slots=True)
class SpecificOffsets:
    """An offset of each partition; LATEST_OFFSET and EARLIEST_OFFSET may stand for one."""

    by_partition: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class GlobalTimestamp:
    """The first record that is not older, of every partition; in milliseconds since 1970."""

    ms: int


@dataclass(frozen=True, slots=True)
class SpecificTimestamps:
    """A time for each partition, each as in GlobalTimestamp."""

    by_partition: Mapping[TopicPartition, int]


OffsetOption: TypeAlias = Earliest | Latest | SpecificOffsets | GlobalTimestamp | SpecificTimestamps

_OFFSETS_EXAMPLE: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMESTAMPS_EXAMPLE: Final = (
    '{"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789, "1": 123456789}}'
)

NoMatchStrategy: TypeAlias = Literal["error", "latest"]


def starting_offsets(options: Mapping[str, str], *, streaming: bool) -> OffsetOption:
    """Where the options say that reading begins; streams begin with what comes, batches with what is there."""
    default = Latest() if streaming else Earliest()
    return _offset_option(options, "starting", default)


def ending_offsets(options: Mapping[str, str]) -> OffsetOption:
    """Where the options of a batch say that reading ends."""
    return _offset_option(options, "ending", Latest())


def no_match_strategy(options: Mapping[str, str]) -> NoMatchStrategy:
    """What to do for a partition that has no record as young as the time to begin at."""
    name = "startingOffsetsByTimestampStrategy"
    text = options.get(name.lower(), "error")
    match text.lower():
        case "error":
            return "error"
        case "latest":
            return "latest"
    raise refused(name, text, "error or latest")


def check_batch(start: OffsetOption, end: OffsetOption) -> None:
    """Refuse what no batch can be read between, as far as that shows without a broker."""
    _check_batch_start(start)
    _check_batch_end(end)
    match start, end:
        case (SpecificOffsets(first), SpecificOffsets(last)):
            _check_order(first, last, "offset", "startingOffsets", "endingOffsets")
        case (SpecificTimestamps(first), SpecificTimestamps(last)):
            names = ("startingOffsetsByTimestamp", "endingOffsetsByTimestamp")
            _check_order(first, last, "timestamp", *names)


def _offset_option(
    options: Mapping[str, str], side: Literal["starting", "ending"], default: OffsetOption
) -> OffsetOption:
    time, times, offsets = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    if (text := options.get(time.lower())) is not None:
        return GlobalTimestamp(_milliseconds(time, text.strip()))
    if (text := options.get(times.lower())) is not None:
        return SpecificTimestamps(_timestamps(times, text.strip()))
    if (text := options.get(offsets.lower())) is None:
        return default
    match text.strip().lower():
        case "latest":
            return Latest()
        case "earliest":
            return Earliest()
    return SpecificOffsets(_offsets(offsets, text.strip()))


def _milliseconds(name: str, text: str) -> int:
    try:
        return whole(name, text)
    except OptionError:
        raise OptionError(
            f"Expected a single long value, got {text} in option '{name}': it takes milliseconds since 1970; "
            f"for earliest or latest there is {name.replace('Timestamp', 'Offsets')}"
        ) from None


def _timestamps(name: str, text: str) -> dict[TopicPartition, int]:
    times = by_partition(name, text, _TIMESTAMPS_EXAMPLE)
    for partition, ms in times.items():
        if ms < 0:
            raise OptionError(
                f"option '{name}' has {ms} for {partition}: a time is in milliseconds since 1970, and not negative"
            )
    return times


def _offsets(name: str, text: str) -> dict[TopicPartition, int]:
    offsets = by_partition(name, text, _OFFSETS_EXAMPLE)
    for partition, offset in offsets.items():
        if offset < EARLIEST_OFFSET:
            raise OptionError(
                f"option '{name}' has {offset} for {partition}: below 0 there are only "
                f"{LATEST_OFFSET} for latest and {EARLIEST_OFFSET} for earliest"
            )
    return offsets


def _check_batch_start(start: OffsetOption) -> None:
    advice = "a batch ends where the latest record is: begin before it"
    if isinstance(start, Latest):
        raise OptionError(
            f"starting offset can't be latest for batch queries on Kafka: {advice}, or set "
            "startingOffsets to earliest"
        )
    if isinstance(start, SpecificOffsets):
        for partition, offset in start.by_partition.items():
            if offset == LATEST_OFFSET:
                raise OptionError(
                    f"startingOffsets for {partition} can't be latest for batch queries on Kafka: {advice}, or "
                    f"write {EARLIEST_OFFSET} for earliest"
                )


def _check_batch_end(end: OffsetOption) -> None:
    if isinstance(end, Earliest):
        raise OptionError(
            "ending offset can't be earliest for batch queries on Kafka: there is nothing before it to read; "
            "set endingOffsets to latest"
        )
    if isinstance(end, SpecificOffsets):
        for partition, offset in end.by_partition.items():
            if offset == EARLIEST_OFFSET:
                raise OptionError(
                    f"ending offset for {partition} can't be earliest for batch queries on Kafka: there is nothing "
                    f"before it to read; write {LATEST_OFFSET} for latest in endingOffsets"
                )


def _check_order(
    first: Mapping[TopicPartition, int],
    last: Mapping[TopicPartition, int],
    what: str,
    start_name: str,
    end_name: str,
) -> None:
    if first.keys() != last.keys():
        raise OptionError(
            "The specified start offset and end offset should have the same topic-partitions. "
            f"Topic-partitions for start offset: {_listed(first)}, topic-partitions for end offset: {_listed(last)}. "
            f"Name the same ones in {start_name} and {end_name}"
        )
    for partition, begin in first.items():
        end = last[partition]
        if begin > end >= 0:
            raise OptionError(
                f"The specified start {what} {begin} is greater than the end {what} {end} for topic "
                f"{partition.topic} partition {partition.partition}: lower {start_name} or raise {end_name}"
            )


def _listed(named: Iterable[TopicPartition]) -> str:
    return ", ".join(str(partition) for partition in sorted(named))
