"""Broker configs whose text has a form of its own: listeners, maps of names, classes and folders.

What is checked here is what a request may change. The sentences are Kafka's, also where they are Java's and speak of
the length of a text without a colon.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from ottla.broker.configs.definitions import ConfigType, Definition
from ottla.broker.configs.values import ConfigError, invalid

_ENDPOINT: Final = re.compile(r"(.*)://(?:\[[0-9a-zA-Z\-%._:]*\]|[0-9a-zA-Z\-%._:]*):(-?[0-9]+)")
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}")
# A broker of the embedded cluster loads no classes: those that Kafka brings along are taken for granted.
_OF_KAFKA: Final = "org.apache.kafka."


class Texts(Protocol):
    """The part of BrokerConfigs that is looked at."""

    def value(self, name: str) -> object: ...


def check_class(definition: Definition, name: str, text: str) -> None:
    """A class that a broker should load must be there."""
    if definition.type is ConfigType.CLASS and not text.strip().startswith(_OF_KAFKA):
        raise invalid(name, text, f"Class {text} could not be found.")


def check_listeners(configs: Texts) -> None:
    """That each is an address under a name of its own, and has a security protocol."""
    protocols = dict(_pairs(configs, "listener.security.protocol.map"))
    for name, protocol in protocols.items():
        if not name:
            raise ConfigError("The provided listener name is null or empty string")
        if protocol not in _PROTOCOLS:
            raise ConfigError(
                f"Invalid security protocol `{protocol}` defined in listener.security.protocol.map"
            )
    listeners = configs.value("listeners")
    assert isinstance(listeners, tuple)
    try:
        _check_endpoints(listeners, {name.upper() for name in protocols})
    except ConfigError as error:
        shown = ", ".join(listeners)
        raise ConfigError(f"Error creating broker listeners from '[{shown}]': {error}") from None


def check_connection_limits(configs: Texts) -> None:
    for _, limit in _pairs(configs, "max.connections.per.ip.overrides"):
        if not _INTEGER.fullmatch(limit):
            raise ConfigError(f'For input string: "{limit}"')


def foreign_reporters(configs: Texts) -> bool:
    """Whether metrics should go to a class that is not Kafka's own."""
    reporters = configs.value("metric.reporters")
    assert isinstance(reporters, tuple)
    return not all(reporter.startswith(_OF_KAFKA) for reporter in reporters)


def _check_endpoints(listeners: Sequence[str], named: Iterable[str]) -> None:
    names, ports = [], []
    for listener in listeners:
        endpoint = _ENDPOINT.fullmatch(listener)
        if endpoint is None:
            raise ConfigError(f"Unable to parse {listener} to a broker endpoint")
        name = endpoint[1].upper()
        if name not in named:
            raise ConfigError(f"No security protocol defined for listener {name}")
        names.append(name)
        ports.append(int(endpoint[2]))
    shown = ", ".join(listeners)
    if len(set(names)) < len(names):
        raise ConfigError(f"Each listener must have a different name, listeners: [{shown}]")
    chosen = [port for port in ports if port]
    if len(set(chosen)) < len(chosen):
        raise ConfigError(f"Each listener must have a different port, listeners: [{shown}]")


def _pairs(configs: Texts, config: str) -> Iterator[tuple[str, str]]:
    """The entries `name:value` of a map."""
    text = configs.value(config)
    assert isinstance(text, str | tuple)
    for entry in text.split(",") if isinstance(text, str) else text:
        entry = entry.strip()
        if not entry:
            continue
        name, colon, value = entry.rpartition(":")
        if not colon:
            raise ConfigError(
                f"Error parsing configuration property '{config}': begin 0, end -1, length {len(entry)}"
            )
        yield name.strip(), value.strip()
