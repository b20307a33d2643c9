"""`--from` and `--until`: places in a topic, as offsets or as times."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from ottla.errors import ConfigurationError

Place = str | int | datetime

_AGO: Final = re.compile(r"-(\d+)([smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_FORMS: Final = (
    "an offset such as 42, a time such as 2026-05-01T12:00 or @1777636800000 (milliseconds), or how long ago, "
    "such as -30m or -2h (s, m, h, d)"
)


class PlaceError(ConfigurationError):
    """A place that cannot be understood; the message lists the forms."""


def parse_start(text: str, now: datetime) -> Place:
    """Where to begin: "earliest", "latest", an offset or a time."""
    if text in ("earliest", "beginning", "start"):
        return "earliest"
    if text in ("latest", "end"):
        return "latest"
    return _offset_or_time(text, now, f"--from {text}: expected earliest, latest, {_FORMS}")


def parse_stop(text: str, now: datetime) -> Place:
    """Where to end: "latest" (what is the end now), an offset or a time; that itself is no longer read."""
    if text in ("latest", "end"):
        return "latest"
    return _offset_or_time(text, now, f"--until {text}: expected end, {_FORMS}")


def _offset_or_time(text: str, now: datetime, complaint: str) -> Place:
    if text.isdecimal():
        return int(text)
    try:
        if text.startswith("@"):
            return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=int(text[1:]))
        if ago := _AGO.fullmatch(text):
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError) as error:
        raise PlaceError(complaint) from error
    # Without a zone it is the time on the wall.
    return found if found.tzinfo is not None else found.astimezone()
