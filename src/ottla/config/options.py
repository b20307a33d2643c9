"""What is known of one option, and how a dataclass field carries it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.config.errors import InvalidValueError, refused
from ottla.config.rules import Rule

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_T = TypeVar("_T")
_META: Final = "ottla.option"


@dataclass(frozen=True, slots=True)
class Option:
    """One option as documentation shows it; `default` is None for the one that must be given.

    `kafka_name` is None for what Kafka's own clients do not have; in a file it is written with dots as well.
    """

    name: str
    kafka_name: str | None
    default: object
    doc: str
    rule: Rule

    @property
    def allowed(self) -> str:
        return self.rule.allowed

    @property
    def dotted(self) -> str:
        """The name in from_properties."""
        return self.name.replace("_", ".")

    def check(self, value: object) -> object:
        """The value as the config keeps it; ConfigurationError for one that the option cannot have."""
        try:
            return self.rule.check(value)
        except InvalidValueError as invalid:
            raise refused(self.name, self.kafka_name, value, self.allowed, str(invalid)) from None

    def parse(self, text: str) -> object:
        """The value that a text of Kafka's stands for."""
        try:
            return self.rule.parse(text)
        except InvalidValueError as invalid:
            raise refused(self.name, self.kafka_name, text, self.allowed, str(invalid)) from None


@dataclass(frozen=True, slots=True)
class _Meta:
    rule: Rule
    doc: str
    ours: bool


def option(default: _T, rule: Rule, doc: str, *, ours: bool = False) -> _T:
    """A field with a default; `ours` is one that Kafka's clients do not have."""
    return field(default=default, metadata={_META: _Meta(rule, doc, ours)})


def required(rule: Rule, doc: str) -> Mapping[str, object]:
    """The metadata of a field without default: type checkers take only `field` itself for such a one."""
    return {_META: _Meta(rule, doc, ours=False)}


def options_of(config: type[DataclassInstance]) -> Mapping[str, Option]:
    """The options among the fields of a dataclass, by name, in their order."""
    declared: dict[str, Field[Any]] = config.__dataclass_fields__
    return MappingProxyType(
        {name: _described(each) for name, each in declared.items() if _META in each.metadata}
    )


def _described(declared: Field[Any]) -> Option:
    meta: _Meta = declared.metadata[_META]
    name = declared.name
    default = None if declared.default is MISSING else declared.default
    return Option(name, None if meta.ours else name.replace("_", "."), default, meta.doc, meta.rule)
