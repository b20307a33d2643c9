"""What one value may be: a rule takes a Python value (`check`) or Kafka's text for one (`parse`).

Both return the value as the config keeps it, or raise InvalidValueError with a hint. The types are strict on purpose:
True is no number and "10" is none either, since either is more often a mistake than a wish.

Invariant: check(check(v)) == check(v), which is what makes a config that was checked replaceable.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from ottla.config.addresses import parse_servers
from ottla.config.errors import InvalidValueError

INT32: Final = 2**31 - 1
INT64: Final = 2**63 - 1


class Rule(Protocol):
    @property
    def allowed(self) -> str:
        """What the option takes, to follow the words "it takes"."""

    def check(self, value: object) -> object: ...

    def parse(self, text: str) -> object: ...


@dataclass(frozen=True, slots=True)
class Flag:
    """True or False, and nothing that merely is true."""

    @property
    def allowed(self) -> str:
        return "True or False"

    def check(self, value: object) -> object:
        if isinstance(value, bool):
            return value
        hint = ""
        if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            hint = f"write {value.strip().capitalize()}, without the quotes"
        raise InvalidValueError(hint)

    def parse(self, text: str) -> object:
        match text.strip().lower():
            case "true":
                return True
            case "false":
                return False
        raise InvalidValueError("in text, true or false")


# As many digits as 2**63 has: Python refuses to turn thousands of them into a number.
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class WholeNumber:
    """A whole number between two others; `off` is one outside them that has a meaning of its own."""

    minimum: int
    maximum: int = INT64
    off: int | None = None

    @property
    def allowed(self) -> str:
        bounds = (
            f"of at least {self.minimum}"
            if self.maximum in (INT32, INT64)
            else f"from {self.minimum} to {self.maximum}"
        )
        return f"a whole number {bounds}" + (f", or {self.off}" if self.off is not None else "")

    def check(self, value: object) -> object:
        if isinstance(value, bool):
            raise InvalidValueError(f"{value} is no number")
        if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
            raise InvalidValueError(f"write {int(value)}, without the quotes")
        if isinstance(value, float) and value.is_integer():
            raise InvalidValueError(f"write {int(value)}")
        if not isinstance(value, int):
            raise InvalidValueError
        if value != self.off and not self.minimum <= value <= self.maximum:
            raise InvalidValueError(f"{self.maximum} is the most" if value > self.maximum else "")
        return value

    def parse(self, text: str) -> object:
        if not _WHOLE.fullmatch(text.strip()):
            raise InvalidValueError
        return self.check(int(text))


@dataclass(frozen=True, slots=True)
class Text:
    """Any text."""

    @property
    def allowed(self) -> str:
        return "text"

    def check(self, value: object) -> object:
        if not isinstance(value, str):
            raise InvalidValueError
        return value

    def parse(self, text: str) -> object:
        return text


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words; `later` are words of Kafka's that Ottla does not know how to honour yet."""

    words: tuple[str, ...]
    later: tuple[str, ...] = ()
    any_case: bool = False

    @property
    def allowed(self) -> str:
        return _one_of([repr(word) for word in self.words])

    def check(self, value: object) -> object:
        if not isinstance(value, str):
            raise InvalidValueError
        for word in self.words:
            if value == word or (self.any_case and value.lower() == word.lower()):
                return word
        if value.upper() in self.later:
            raise InvalidValueError(f"{value.upper()} is not supported yet")
        raise InvalidValueError(f"write {value.lower()!r}" if value.lower() in self.words else "")

    def parse(self, text: str) -> object:
        return self.check(text.strip())


@dataclass(frozen=True, slots=True)
class Acks:
    """How many replicas acknowledge: "all", 1 or 0; -1 is how the protocol writes "all"."""

    @property
    def allowed(self) -> str:
        return "'all', 1 or 0"

    def check(self, value: object) -> object:
        if value == "all" or (value == -1 and isinstance(value, int)):
            return "all"
        if isinstance(value, int) and not isinstance(value, bool) and value in (0, 1):
            return value
        raise InvalidValueError(f"write {value}, without the quotes" if value in ("-1", "0", "1") else "")

    def parse(self, text: str) -> object:
        word = text.strip().lower()
        return self.check(int(word) if word in ("-1", "0", "1") else word)


_JAVA_ASSIGNORS: Final = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.StickyAssignor": "sticky",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}


@dataclass(frozen=True, slots=True)
class Assignors:
    """Names of assignors of classic groups, kept as a tuple; the names of Java's classes stand for theirs."""

    @property
    def allowed(self) -> str:
        return f"{', '.join(map(repr, _JAVA_ASSIGNORS.values()))}, or several in a list or with commas"

    def check(self, value: object) -> object:
        if isinstance(value, str):
            return self.parse(value)
        if not isinstance(value, Sequence) or not value:
            raise InvalidValueError
        names = []
        for each in value:
            if not isinstance(each, str):
                raise InvalidValueError
            name = _JAVA_ASSIGNORS.get(each, each)
            if name not in _JAVA_ASSIGNORS.values():
                raise InvalidValueError(f"there is no assignor {each!r}")
            names.append(name)
        return tuple(dict.fromkeys(names))

    def parse(self, text: str) -> object:
        return self.check([name for part in text.split(",") if (name := part.strip())])


_BY_DURATION: Final = "by_duration:"
# What java.time.Duration.parse takes, without its signs: Kafka refuses to reset to a time in the future.
_DURATION: Final = re.compile(
    r"P(?=.)(?:([0-9]{1,19})D)?"
    r"(?:T(?=.)(?:([0-9]{1,19})H)?(?:([0-9]{1,19})M)?(?:([0-9]{1,19})(?:[.,]([0-9]{0,9}))?S)?)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """Where reading begins without a position: an end, or some time ago (KIP-1106)."""

    @property
    def allowed(self) -> str:
        return "'earliest', 'latest', 'none' or 'by_duration:PnDTnHnMn.nS'"

    def check(self, value: object) -> object:
        if not isinstance(value, str):
            raise InvalidValueError
        if value in ("earliest", "latest", "none") or reset_duration_ms(value) is not None:
            return value
        if value.startswith(_BY_DURATION.rstrip(":")):
            raise InvalidValueError("an hour ago is 'by_duration:PT1H', a week ago 'by_duration:P7D'")
        raise InvalidValueError

    def parse(self, text: str) -> object:
        return self.check(text.strip())


def reset_duration_ms(reset: str) -> int | None:
    """The milliseconds in "by_duration:PT1H"; None for any other text."""
    if not reset.startswith(_BY_DURATION):
        return None
    match = _DURATION.fullmatch(reset.removeprefix(_BY_DURATION))
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:4])
    milliseconds = int((match[5] or "").ljust(3, "0")[:3])
    total = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + milliseconds
    return total if total <= INT64 else None


@dataclass(frozen=True, slots=True)
class Servers:
    """Bootstrap servers, kept as a tuple of "host:port"."""

    @property
    def allowed(self) -> str:
        return "'host:port' texts, in a list or with commas between them"

    def check(self, value: object) -> object:
        if isinstance(value, str):
            return self.parse(value)
        if not isinstance(value, Sequence) or not all(isinstance(entry, str) for entry in value):
            raise InvalidValueError("such as 'localhost:9092', or ['one:9092', 'other:9092']")
        return tuple(map(str, parse_servers(value)))

    def parse(self, text: str) -> object:
        return tuple(map(str, parse_servers(text)))


def _one_of(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
