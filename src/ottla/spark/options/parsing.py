"""Options as Spark hands them over: their names, the texts that they are given as, and OptionError.

Names arrive in lower case; texts for users have the spelling of the documentation. A name that neither the connector
nor Spark knows is most often a misspelt one whose default applies in silence, so it is logged. Values are texts: what
stands here takes the texts that the JVM connector takes and refuses those that it refuses.

Not here: what options mean, alone and together (`connector`).
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final, TypeVar

from ottla.client.topic_partition import TopicPartition

logger: Final = logging.getLogger("ottla.spark")

# Names

KAFKA_PREFIX: Final = "kafka."

_SOURCE: Final = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "minPartitions",
    "targetPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "includeHeaders",
    "groupIdPrefix",
    "ottla.commit.group",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
    "value.format",
    "value.schema",
    "value.schema.id",
    "value.malformed",
    "value.malformed.column",
    "value.nested",
)
_SINK: Final = ("topic", "includeHeaders", "ottla.delivery", "ottla.sink.id")
# What Spark itself reads from the same options, and hands on.
_SPARK: Final = ("checkpointLocation", "path", "paths", "queryName", "outputMode", "sourceName")
_SPARK_PREFIXES: Final = ("asyncprogresstracking", "_")

# Lower case -> as documented. One table for source and sink: one set of options often serves both.
SPELLED: Final[Mapping[str, str]] = MappingProxyType(
    {name.lower(): name for name in (*_SOURCE, *_SINK, *_SPARK)}
)

# Names that were logged: a stream parses its options again for every micro-batch.
_logged: set[str] = set()


def warn_once(key: str, message: str) -> None:
    """Log what a user should know, once in this process."""
    if key not in _logged:
        _logged.add(key)
        logger.warning("%s", message)


def warn_of_unknown(options: Iterable[str]) -> None:
    """Log every name, in lower case, that means nothing to the connector, to Kafka's client or to Spark."""
    for name in options:
        if name in SPELLED or name.startswith((KAFKA_PREFIX, *_SPARK_PREFIXES)):
            continue
        warn_once(f"unknown {name}", f"option {name} has no effect: {_advice(name)}")


def _advice(name: str) -> str:
    if close := get_close_matches(name, SPELLED, n=1, cutoff=0.75):
        return f"did you mean {SPELLED[close[0]]}?"
    return "there is none of that name; options for Kafka's client begin with kafka."


# Values

INT32: Final = 2**31 - 1
INT64: Final = 2**63 - 1

_T = TypeVar("_T")

# What Java's Long.parseLong takes. The bound keeps thousands of digits from becoming a number.
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_DURATION: Final = re.compile(r"(-?[0-9]{1,19})([a-z]*)", re.ASCII)
_SECONDS: Final = {
    "us": 1e-6,
    "": 1e-3,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}


class OptionError(ValueError):
    """An option that is missing, or has a value that it cannot have; the text says what to change."""


def refused(name: str, value: str, takes: str) -> OptionError:
    return OptionError(f"option '{name}' cannot be {value!r}: it takes {takes}")


def whole(name: str, text: str, *, least: int = 0, most: int = INT64) -> int:
    """A whole number, written as Java reads one: no blanks, no underscores."""
    if _WHOLE.fullmatch(text) and least <= int(text) <= most:
        return int(text)
    bound = f" of at most {most}" if _WHOLE.fullmatch(text) and int(text) > most else f" of at least {least}"
    raise refused(name, text, f"a whole number{bound}")


def positive(name: str, text: str, *, most: int = INT64) -> int:
    """A whole number above 0; the refusal of 0 and less begins as the JVM connector's does."""
    if _WHOLE.fullmatch(text) and int(text) <= 0:
        raise OptionError(f"{name} must be positive: it is {text}")
    return whole(name, text, least=1, most=most)


def flag(name: str, text: str) -> bool:
    """true or false in any case, without blanks."""
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise refused(name, text, "true or false")


def seconds(name: str, text: str) -> float:
    """A duration as Spark writes it, "15m", "90s" or "500ms"; a number alone counts milliseconds."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or match[2] not in _SECONDS:
        raise refused(
            name,
            text,
            "a whole number and one of us, ms, s, m, min, h, d, as in 90s; fractions are not taken",
        )
    return int(match[1]) * _SECONDS[match[2]]


def partitions(text: str) -> tuple[TopicPartition, ...]:
    """The partitions in {"topic": [0, 1]}, each once, in their order."""

    def expected() -> OptionError:
        return OptionError(
            f'Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {text} in option \'assign\''
        )

    found: dict[TopicPartition, None] = {}
    for topic, numbers in _json_object(text, expected).items():
        if not isinstance(numbers, list):
            raise expected()
        for number in numbers:
            found[TopicPartition(topic, _number(number, 0, INT32, expected))] = None
    return tuple(found)


def by_partition(name: str, text: str, example: str) -> dict[TopicPartition, int]:
    """The numbers in {"topic": {"0": 23}}."""

    def expected() -> OptionError:
        return OptionError(f"Expected e.g. {example}, got {text} in option '{name}'")

    found: dict[TopicPartition, int] = {}
    for topic, numbers in _json_object(text, expected).items():
        if not isinstance(numbers, dict):
            raise expected()
        for partition, number in numbers.items():
            tp = TopicPartition(topic, _partition_number(partition, expected))
            found[tp] = _number(number, -INT64 - 1, INT64, expected)
    return found


def _json_object(text: str, expected: Callable[[], OptionError]) -> dict[str, object]:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        raise expected() from None
    if not isinstance(parsed, dict):
        raise expected()
    return parsed


def _number(value: object, least: int, most: int, expected: Callable[[], OptionError]) -> int:
    """A whole JSON number; 1e3 is one, as in Java, but 1.5, true and null are mistakes."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise expected()
    return value


def _partition_number(key: str, expected: Callable[[], OptionError]) -> int:
    """The number of a partition as a key, where JSON has only text."""
    if not _WHOLE.fullmatch(key):
        raise expected()
    return _number(int(key), 0, INT32, expected)


def optional(options: Mapping[str, str], name: str, parse: Callable[[str, str], _T]) -> _T | None:
    """The option parsed, or None when it is not given. `options` has keys in lower case."""
    text = options.get(name.lower())
    return None if text is None else parse(name, text)
