"""What the error of a refused option says: which one, what it was given, what it takes, and what Kafka calls it."""

from __future__ import annotations

from ottla.errors import ConfigurationError


class InvalidValueError(ValueError):
    """A value that a rule does not take, before it is known which option it was for; the text is a hint."""


def refused(
    option: str, kafka_name: str | None, value: object, allowed: str, hint: str = ""
) -> ConfigurationError:
    """The error for a value that the option cannot have by itself."""
    advice = f"; {hint}" if hint else ""
    return _error(option, kafka_name, value, allowed, f"it takes {allowed}{advice}")


def disagrees(
    option: str, kafka_name: str | None, value: object, allowed: str, why: str
) -> ConfigurationError:
    """The error for a value that does not go with that of another option."""
    return _error(option, kafka_name, value, allowed, f"{why}; it takes {allowed}")


def _error(
    option: str, kafka_name: str | None, value: object, allowed: str, reason: str
) -> ConfigurationError:
    origin = f" Kafka calls it {kafka_name}." if kafka_name and kafka_name != option else ""
    return ConfigurationError(
        f"{option} cannot be {value!r}: {reason}.{origin}",
        option=option,
        value=value,
        allowed=allowed,
        kafka_name=kafka_name,
    )
