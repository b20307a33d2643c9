"""What one broker is configured with: static, dynamic for all brokers, and dynamic for itself (KIP-226).

The most specific layer wins. Rules that concern several configs at once are in broker_rules.py, and which changes a
running broker may take in broker_changes.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import dropwhile
from typing import Any, Final, NamedTuple

from ottla.broker.configs import values
from ottla.broker.configs.broker_rules import check_rules
from ottla.broker.configs.definitions import Definition, Overrides, Synonym
from ottla.broker.configs.tables import BROKER, GROUP, TOPIC
from ottla.broker.configs.values import ConfigError
from ottla.wire.resources import ConfigSource

_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.(.+)")
# Of these there is one per listener and SASL mechanism: listener.name.{listener}.{mechanism}.{config}.
_PER_MECHANISM: Final = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
# Several units of one config; the first that is set counts.
_SAME: Final[Mapping[str, tuple[str, ...]]] = {
    name: family
    for family in (
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        ("log.roll.ms", "log.roll.hours"),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    )
    for name in family
} | {"log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")}


class LayerValue(NamedTuple):
    """A value that some layer has, as text."""

    name: str
    value: str | None
    source: ConfigSource


class BrokerConfigs:
    """The configs of one broker, by Kafka's names.

    >>> configs = BrokerConfigs({"message.max.bytes": 2000, "log.cleanup.policy": ["compact"]}, node_id=1)
    >>> configs.value("message.max.bytes"), configs.value("num.partitions")
    (2000, 1)

    Static configs are checked at once: a ConfigError, which is a ValueError, says what is wrong with them.
    """

    def __init__(self, static: Mapping[str, object] | None = None, *, node_id: int) -> None:
        self.node_id = node_id
        self.static: Overrides = _static(static or {}, node_id)
        self.dynamic: Overrides = {}
        """Set for this broker."""
        self.dynamic_default: Overrides = {}
        """Set for all brokers."""
        self._text: Overrides = self.static
        self._values: dict[str, Any] = {}
        check_rules(self)

    def set_dynamic(self, own: Overrides, default: Overrides) -> None:
        """Replaces what was set while the broker runs: for it alone, and for all brokers."""
        self.dynamic, self.dynamic_default = dict(own), dict(default)
        self._text = _merged(self.static, default, own)
        self._values = {}

    def with_dynamic(self, own: Overrides, default: Overrides) -> BrokerConfigs:
        """The same broker after such a change."""
        other = BrokerConfigs.__new__(BrokerConfigs)
        other.node_id, other.static = self.node_id, self.static
        other.set_dynamic(own, default)
        return other

    def value(self, name: str) -> Any:
        """What holds for this broker, typed; KeyError for a name that no broker config has."""
        try:
            return self._values[name]
        except KeyError:
            value = self._values[name] = self._resolve(name)
            return value

    def first_value(self, synonyms: Sequence[Synonym]) -> Any:
        """The value of the first of some configs that has one, in the unit that all of them stand for."""
        for synonym in synonyms:
            value = self.value(synonym.name)
            if value is not None:
                return value if synonym.scale == 1 else value * synonym.scale
        return None

    def set_names(self) -> Iterator[str]:
        """Whatever is set anywhere, known or not."""
        return iter(self._text)

    def layers(self) -> tuple[tuple[ConfigSource, Overrides], ...]:
        """All that has been set, the most specific first."""
        return (
            (ConfigSource.DYNAMIC_BROKER, self.dynamic),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, self.dynamic_default),
            (ConfigSource.STATIC_BROKER, self.static),
        )

    def synonyms(self, name: str) -> list[LayerValue]:
        """Every value that there is for a config, in the order of precedence, its default last.

        One that stands under another name counts only behind one under the name itself: that is how Kafka
        leaves the base config out of the description of a listener's, and log.retention.hours out of that
        of log.retention.ms.
        """
        names = _same(name)
        found = [
            LayerValue(each, layer[each], source)
            for source, layer in self.layers()
            for each in names
            if each in layer
        ]
        for each in names:
            default = BROKER[each].default if each in BROKER else None
            if default is not None:
                found.append(LayerValue(each, default, ConfigSource.DEFAULT))
        return list(dropwhile(lambda one: one.name != name, found))

    def _resolve(self, name: str) -> Any:
        definition = definition_of(name)
        if definition is None:
            raise KeyError(name)
        text = self._text.get(name)
        if text is None:
            return BROKER.default(definition.name)
        return values.parse(definition, text)


def definition_of(name: str) -> Definition | None:
    """The definition of a broker config, also of one under the name of a listener; None if it is unknown."""
    return BROKER.get(name if name in BROKER else base_name(name))


def base_name(name: str) -> str:
    """What a config is called without the name of the listener that it is for."""
    match = _LISTENER.fullmatch(name)
    if match is None:
        return name
    base = match[1]
    return next((each for each in _PER_MECHANISM if base.endswith(each)), base)


def is_for_listener(name: str) -> bool:
    return _LISTENER.fullmatch(name) is not None


def to_static_text(value: object) -> str:
    """The text of a Python value that a user writes into a dict of configs."""
    match value:
        case bool() | float():
            return values.to_text(value) or ""
        case list() | tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)


def _static(given: Mapping[str, object], node_id: int) -> Overrides:
    # What every broker must have, and what is no choice of the user's.
    static = {"process.roles": "broker", "controller.listener.names": "CONTROLLER"}
    for name, value in given.items():
        definition = definition_of(name)
        if definition is None:
            raise ConfigError(_unknown(name))
        if value is not None:
            text = static[name] = to_static_text(value)
            values.parse(definition, text, name)
    for name in ("node.id", "broker.id"):
        if static.setdefault(name, str(node_id)) != str(node_id):
            raise ConfigError(f"{name} is {static[name]}, but this is node {node_id}")
    return static


def _unknown(name: str) -> str:
    for table, kind in ((TOPIC, "topic"), (GROUP, "group")):
        if name in table:
            synonyms = table[name].synonyms
            instead = f"; for all brokers it is {synonyms[0].name!r}" if synonyms else ""
            return f"{name!r} is a config of a {kind}, not of a broker{instead}"
    nearest = BROKER.nearest(name)
    return f"unknown broker config {name!r}" + (f"; did you mean {nearest!r}?" if nearest else "")


def _merged(static: Overrides, *layers: Overrides) -> Overrides:
    merged = dict(static)
    for layer in layers:
        for name, value in layer.items():
            # A unit that is set later also replaces the other units.
            for same in _SAME.get(name, ()):
                merged.pop(same, None)
            merged[name] = value
    return merged


def _same(name: str) -> tuple[str, ...]:
    if is_for_listener(name):
        return (name, base_name(name))
    return _SAME.get(name, (name,))
