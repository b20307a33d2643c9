"""From text to a typed value and back, as Kafka's ConfigDef does it, with Kafka's error messages for bad ones.

Which error code a bad value leads to depends on the resource: ConfigError becomes INVALID_CONFIG for a topic and
INVALID_REQUEST for a broker (alter.py), and reaches a user as the ValueError it is.

Invariant: to_text(parse(d, to_text(v))) == to_text(v). What DescribeConfigs shows is to_text of the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

from ottla.broker.configs.definitions import ConfigType, Definition, Value


class ConfigError(ValueError):
    """A config that Kafka would refuse; the message is Kafka's."""


def parse(definition: Definition, text: str, name: str | None = None) -> Value:
    """The value that a text stands for; ConfigError for one that the config may not have.

    `name` is what to call it, where that is not the definition's own name: under the name of a listener.
    """
    name = name or definition.name
    value = _PARSERS[definition.type](name, text)
    if isinstance(value, tuple):
        return _checked_list(definition, name, value)
    if isinstance(value, str):
        _check_text(definition, name, value)
    elif not isinstance(value, bool):
        _check_number(definition, name, value)
    return value


def to_text(value: Value) -> str | None:
    """The text of a value in Java's notation; None for none."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case float():
            return _java_double(value)
        case tuple():
            return ",".join(value)
        case _:
            return str(value)


def invalid(name: str, value: object, why: str) -> ConfigError:
    return ConfigError(f"Invalid value {_shown(value)} for configuration {name}: {why}")


_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_DOUBLE: Final = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_COMMA: Final = re.compile(r"\s*,\s*")
_THROTTLED: Final = re.compile(r"(?:[0-9]+:[0-9]+)?")
# What java.time.Duration.parse takes, without the signs: no offset lies in the future.
_DURATION: Final = re.compile(
    r"by_duration:P(?=.)(?:\d+D)?(?:T(?=.)(?:\d+H)?(?:\d+M)?(?:\d+(?:[.,]\d{0,9})?S)?)?", re.IGNORECASE
)


def _text(name: str, text: str) -> str:
    return text.strip()


def _boolean(name: str, text: str) -> bool:
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise invalid(name, text, "Expected value to be either true or false")


def _whole(kind: str, bits: int) -> Callable[[str, str], int]:
    limit = 1 << (bits - 1)

    def parse_whole(name: str, text: str) -> int:
        stripped = text.strip()
        if _WHOLE.fullmatch(stripped) and len(stripped) < 40 and -limit <= int(stripped) < limit:
            return int(stripped)
        raise invalid(name, text, f"Not a number of type {kind}")

    return parse_whole


def _double(name: str, text: str) -> float:
    stripped = text.strip()
    if not _DOUBLE.fullmatch(stripped):
        raise invalid(name, text, "Not a number of type DOUBLE")
    # Java writes 0.5f and 0.5d; the f of Infinity does not stand last.
    return float(stripped.rstrip("fFdD"))


def _list(name: str, text: str) -> tuple[str, ...]:
    stripped = text.strip()
    return tuple(_COMMA.split(stripped)) if stripped else ()


_PARSERS: Final[Mapping[ConfigType, Callable[[str, str], Value]]] = {
    ConfigType.BOOLEAN: _boolean,
    ConfigType.STRING: _text,
    ConfigType.INT: _whole("INT", 32),
    ConfigType.SHORT: _whole("SHORT", 16),
    ConfigType.LONG: _whole("LONG", 64),
    ConfigType.DOUBLE: _double,
    ConfigType.LIST: _list,
    ConfigType.CLASS: _text,
    ConfigType.PASSWORD: _text,
}


def _check_number(definition: Definition, name: str, value: Value) -> None:
    assert isinstance(value, int | float)
    if definition.minimum is not None and value < definition.minimum:
        raise invalid(name, to_text(value), f"Value must be at least {definition.minimum}")
    if definition.maximum is not None and value > definition.maximum:
        raise invalid(name, to_text(value), f"Value must be no more than {definition.maximum}")
    if definition.rule == "gzip-level" and value != -1 and not 1 <= value <= 9:
        raise invalid(name, value, "Value must be between 1 and 9 or equal to -1")


def _check_text(definition: Definition, name: str, value: str) -> None:
    choices = definition.choices
    if definition.any_case:
        if value.upper() not in choices:
            raise invalid(name, value, f"String must be one of (case insensitive): {', '.join(choices)}")
    elif choices and value not in choices:
        raise invalid(name, value, f"String must be one of: {', '.join(choices)}")
    if definition.nonempty and not value:
        raise invalid(name, value, "String must be non-empty")
    if definition.rule == "offset-reset":
        _check_offset_reset(name, value)


def _check_offset_reset(name: str, value: str) -> None:
    """KIP-932: a share group starts at either end, or some time ago (KIP-1106)."""
    if value not in ("earliest", "latest") and not _DURATION.fullmatch(value):
        raise invalid(
            name,
            value,
            f"Invalid value `{_shown(value)}` for configuration {name}. The value must be either 'earliest', "
            "'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
        )


def _checked_list(definition: Definition, name: str, value: tuple[str, ...]) -> tuple[str, ...]:
    if definition.rule == "throttled-replicas":
        if value != ("*",) and not all(map(_THROTTLED.fullmatch, value)):
            raise invalid(
                name,
                value,
                f"{name} must be the literal '*' or a list of replicas in the following format: "
                "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
            )
        return value
    if definition.rule == "any-list":
        return tuple(filter(None, value))
    if definition.nonempty and not value:
        allowed = ", ".join(definition.choices)
        valid = f"[{allowed}]" if allowed else "any non-empty value"
        raise ConfigError(f"Configuration '{name}' must not be empty. Valid values include: {valid}")
    for element in value:
        if not element:
            raise ConfigError(f"Configuration '{name}' values must not be empty.")
        if definition.choices and element not in definition.choices:
            raise invalid(name, element, f"String must be one of: {', '.join(definition.choices)}")
    # Kafka warns of duplicates and drops them (KIP-1161).
    return tuple(dict.fromkeys(value))


def _shown(value: object) -> str:
    return f"[{', '.join(value)}]" if isinstance(value, tuple) else str(value)


def _java_double(value: float) -> str:
    """As Double.toString writes it: from 10^-3 up to 10^7 in plain digits, else with an exponent."""
    text = repr(value)
    if value != value:
        return "NaN"
    if text.endswith("inf"):
        return text.replace("inf", "Infinity")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return text
    # The shortest digits that mean this value are Python's too; only the notation differs.
    shortest = Decimal(text).normalize()
    first, *rest = shortest.as_tuple().digits
    sign = "-" if value < 0 else ""
    return f"{sign}{first}.{''.join(map(str, rest)) or 0}E{shortest.adjusted()}"
