"""What one config is: its type, default, bounds, and how and where it may be changed.

A definition is made from one line of kafka.configs, whose head explains the form. Which resources have which
configs is in tables.py; what a text means is in values.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final, TypeAlias

Overrides: TypeAlias = Mapping[str, str]
"""What has been set for one resource: text by config name."""

Value: TypeAlias = bool | int | float | str | tuple[str, ...] | None
"""A parsed config: LIST is a tuple; STRING, CLASS and PASSWORD are text."""


class ConfigType(IntEnum):
    """The codes are those of DescribeConfigs (KIP-569)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class UpdateMode(Enum):
    """Who may change a broker config while the broker runs (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker config that stands in for a config of a topic or group, in another unit perhaps."""

    name: str
    scale: int = 1


@dataclass(frozen=True, slots=True)
class Definition:
    name: str
    type: ConfigType
    default: str | None
    """As text; None where there is none, or where the config is required."""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    any_case: bool = False
    """The choices are compared without regard to case."""
    nonempty: bool = False
    rule: str | None = None
    update_mode: UpdateMode = UpdateMode.READ_ONLY
    per_listener: bool = False
    """While the broker runs, it may change only under the name of a listener."""
    internal: bool = False
    """Not described unless it is set."""
    synonyms: tuple[Synonym, ...] = ()
    documentation: str = ""

    @property
    def is_sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD


def parse_definition(line: str) -> Definition:
    """The definition that a line of kafka.configs states."""
    facts, _, documentation = line.partition(" | ")
    name, type_name, default, *options = facts.split(" ")
    given = {key: value for key, _, value in (option.partition("=") for option in options)}
    choices = given.get("in") or given.get("anycase")
    return Definition(
        name=name,
        type=ConfigType[type_name.upper()],
        default=_DEFAULTS.get(default, default),
        minimum=_bound(given.get("min")),
        maximum=_bound(given.get("max")),
        choices=tuple(choices.split(",")) if choices else (),
        any_case="anycase" in given,
        nonempty="nonempty" in given,
        rule=given.get("rule"),
        update_mode=next((mode for mode in UpdateMode if mode.value in given), UpdateMode.READ_ONLY),
        per_listener="per-listener" in given,
        internal="internal" in given,
        synonyms=_synonyms(given.get("synonyms")),
        documentation=documentation,
    )


_DEFAULTS: Final[Mapping[str, str | None]] = {"null": None, "required": None, '""': ""}


def _bound(text: str | None) -> float | None:
    if text is None:
        return None
    return float(text) if "." in text else int(text)


def _synonyms(text: str | None) -> tuple[Synonym, ...]:
    if text is None:
        return ()
    parts = (part.partition("*") for part in text.split(","))
    return tuple(Synonym(name, int(scale or 1)) for name, _, scale in parts)
