"""What callers write, as Kafka wants it: configs as text, moments as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from ottla.client.consume.offset_spec import Timestamp, start_spec
from ottla.errors import ConfigurationError

Moment = str | datetime | Timestamp
"""A name from `_MOMENTS`, or a time as `consume` takes it. A number is an offset there, and no moment here."""

_MOMENTS: Final[Mapping[str, int]] = {
    "latest": -1,
    "earliest": -2,
    "max_timestamp": -3,
    "earliest_local": -4,
    "latest_tiered": -5,
}


def config_text(value: object) -> str | None:
    """Kafka's configs are text: true and false in small letters, lists with commas."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(str(config_text(each)) for each in value)
    return str(value)


def moment_ms(at: object, now_ms: int) -> int:
    """The timestamp that stands for a Moment in ListOffsets; a ConfigurationError for what is none."""
    if isinstance(at, str) and at in _MOMENTS:
        return _MOMENTS[at]
    if isinstance(at, str | datetime | Timestamp):
        try:
            place = start_spec(at, now_ms)
        except ConfigurationError:
            place = None
        if place is not None and place.timestamp is not None:
            return place.timestamp
    number = isinstance(at, int) and not isinstance(at, bool)
    hint = f"a number is an offset; for a time write Timestamp({at}), or " if number else "write "
    names = ", ".join(map(repr, _MOMENTS))
    raise ConfigurationError(
        f"at={at!r}: {hint}{names}, a datetime, a Timestamp or 'by_duration:PT1H'", option="at", value=at
    )
