"""The texts that options are given as: whole numbers, flags, durations, JSON; and OptionError.

Spark hands every option over as text. What stands here takes the texts that the JVM connector takes and refuses
those that it refuses; a refusal names the option in the spelling of the documentation.

Not here: which options there are and what they mean together (`options`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from ottla.client.topic_partition import TopicPartition

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
            place = TopicPartition(topic, _partition_number(partition, expected))
            found[place] = _number(number, -INT64 - 1, INT64, expected)
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
