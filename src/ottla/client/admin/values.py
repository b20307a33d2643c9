"""What callers write, as Kafka wants it: configs as text, moments as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from operator import index
from typing import Final, SupportsIndex

Moment = str | int | datetime
"""A name from `_MOMENTS`, milliseconds since 1970, or a datetime with a time zone."""

_MOMENTS: Final[Mapping[str, int]] = {
    "latest": -1,
    "earliest": -2,
    "max_timestamp": -3,
    "earliest_local": -4,
    "latest_tiered": -5,
}
_LARGEST: Final = 2**63 - 1


def config_text(value: object) -> str | None:
    """Kafka's configs are text: true and false in small letters, lists with commas."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(str(config_text(each)) for each in value)
    return str(value)


def moment_ms(at: Moment) -> int:
    """The timestamp that stands for it in ListOffsets."""
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise ValueError(f"at={at!r} has no time zone: add one, such as datetime.UTC")
        at = round(at.timestamp() * 1000)
    if isinstance(at, str):
        if at not in _MOMENTS:
            raise ValueError(
                f"at={at!r}: it is {', '.join(map(repr, _MOMENTS))}, milliseconds since 1970 or a datetime"
            )
        return _MOMENTS[at]
    if not _is_timestamp(at):
        raise ValueError(f"at={at!r}: milliseconds since 1970 are meant, or a name such as 'earliest'")
    return at


def _is_timestamp(value: object) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, SupportsIndex) and 0 <= index(value) <= _LARGEST
