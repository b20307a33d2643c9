"""Forms of single texts in a pipeline: topics, intervals, triggers, names. Each function says what is wrong, or None.

Invariant: what passes here is taken by Kafka, or by Spark, as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from ottla.spark.pipeline.options import AVAILABLE_NOW

_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]+")
_LONGEST_TOPIC: Final = 249
_VIEW: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_PIPELINE: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*")
# The parameter of a transform that gets the session.
_SESSION: Final = "spark"

_EXAMPLES: Final = "as in '10 seconds' or '1 hour 30 minutes'"
_UNITS: Final = ("microsecond", "millisecond", "second", "minute", "hour", "day", "week")
_WITHOUT_LENGTH: Final = ("month", "year")
# Each as Spark does not take it.
_ABBREVIATED: Final = {
    "us": "microseconds",
    "ms": "milliseconds",
    "s": "seconds",
    "sec": "seconds",
    "secs": "seconds",
    "m": "minutes",
    "min": "minutes",
    "mins": "minutes",
    "h": "hours",
    "hr": "hours",
    "d": "days",
    "w": "weeks",
}
_PART: Final = re.compile(r"([+-]?[0-9]+(?:\.[0-9]+)?)\s*([a-z]*)", re.IGNORECASE | re.ASCII)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question with the name that is nearest, or nothing.

    >>> did_you_mean("chekpoint", ["checkpoint", "trigger"])
    ' did you mean checkpoint?'
    """
    near = nearest(name, known)
    return "" if near is None else f" did you mean {near}?"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Which of the names may have been meant, without regard to case."""
    by_lower = {each.lower(): each for each in known}
    close = get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[close[0]] if close else None


def alternatives(names: Iterable[str]) -> str:
    """
    >>> alternatives(["bytes", "string", "json"])
    'bytes, string or json'
    """
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


def topic_mistake(topic: str) -> str | None:
    """By Kafka's rules."""
    if not topic:
        return "it is empty; name a topic"
    if topic in (".", ".."):
        return f"Kafka has no topic {topic!r}; name another"
    if not _TOPIC.fullmatch(topic):
        return f"{topic!r} cannot be the name of a topic; letters of ASCII, digits, '.', '_' and '-' make one"
    if len(topic) > _LONGEST_TOPIC:
        return f"{topic[:20]!r}... has {len(topic)} characters; a topic's name has at most {_LONGEST_TOPIC}"
    return None


def view_mistake(name: str) -> str | None:
    """Of the name of a source, a view in SQL and a parameter of functions, or of a sink."""
    if not _VIEW.fullmatch(name):
        return f"{name!r} cannot be its name; letters of ASCII, digits and '_' make one, and no digit is the first"
    if name.lower() == _SESSION:
        return f"{name!r} is what a transform calls the session; give it another name"
    return None


def pipeline_mistake(name: str) -> str | None:
    if not _PIPELINE.fullmatch(name):
        return (
            f"{name!r} cannot be the name of a pipeline, which begins its transactional ids and topics; "
            "letters of ASCII, digits, '.', '_' and '-' make one, and begin it with a letter or a digit"
        )
    return None


def interval_mistake(text: str) -> str | None:
    """Of a length of time as Spark writes it, "1 hour 30 minutes".

    >>> interval_mistake("10s")
    "'10s' is no interval of Spark; write '10 seconds'"
    """
    bare = re.sub(r"^interval\s+", "", text.strip(), flags=re.IGNORECASE)
    parts = _parts(bare)
    if parts is None:
        return f"{text!r} is no interval of Spark; write numbers and units, {_EXAMPLES}"
    for number, unit in parts:
        singular = unit.lower().removesuffix("s")
        if singular in _WITHOUT_LENGTH:
            return f"{text!r} has no fixed length; write days"
        if singular not in _UNITS:
            return _unit_mistake(text, bare, unit)
        if number.startswith("-"):
            return f"{text!r} is negative; write a length of time"
        if "." in number and singular != "second":
            return f"{text!r} has a fraction, which Spark takes of seconds only; write it in a smaller unit"
    # Spark wants blanks between a number and its unit.
    spaced = " ".join(f"{number} {unit}" for number, unit in parts)
    if bare.split() != spaced.split():
        return f"{text!r} is no interval of Spark; write {spaced!r}"
    return None


def _parts(bare: str) -> list[tuple[str, str]] | None:
    found, at = [], 0
    while at < len(bare):
        match = _PART.match(bare, at)
        if match is None:
            return None
        found.append((match[1], match[2]))
        at = match.end()
        while at < len(bare) and bare[at].isspace():
            at += 1
    return found or None


def _unit_mistake(text: str, bare: str, unit: str) -> str:
    if not unit:
        return f"{text!r} has a number without a unit; write it as in '{bare} seconds'"
    parts = _parts(bare) or []
    if all(each.lower() in _ABBREVIATED or _is_unit(each) for _, each in parts):
        whole = " ".join(f"{number} {_ABBREVIATED.get(each.lower(), each)}" for number, each in parts)
        return f"{text!r} is no interval of Spark; write {whole!r}"
    near = did_you_mean(unit, [f"{each}s" for each in _UNITS])
    return f"{text!r} has the unit {unit!r}, which there is not;{near or ' write seconds, minutes, hours or days'}"


def _is_unit(word: str) -> bool:
    return word.lower().removesuffix("s") in _UNITS


def trigger_mistake(text: str) -> str | None:
    """Of a pause between micro-batches, or "available-now"."""
    squeezed = re.sub(r"[\s_-]", "", text.lower())
    if text == AVAILABLE_NOW:
        return None
    if squeezed == "availablenow":
        return f"{text!r} is no trigger; write '{AVAILABLE_NOW}'"
    if squeezed == "once":
        return f"Spark has given up 'once'; write '{AVAILABLE_NOW}', which reads the same in several micro-batches"
    if "continuous" in squeezed:
        return "Spark has no continuous mode for sources in Python; leave it out, for micro-batches without a pause"
    wrong = interval_mistake(text)
    return f"{wrong}, or '{AVAILABLE_NOW}'" if wrong is not None and wrong.endswith(_EXAMPLES) else wrong
