"""Rules for the configs of one broker: what no broker could start with.

Rules between configs, and those for texts with a form of their own: listeners, maps of names, classes and folders. Of
these only what a request may change is checked. The error messages are Kafka's, also where a Scala `require` or the
length of a text without a colon shows in them: they are what its clients see. What a running broker may change is in
broker_changes.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from ottla.broker.configs.definitions import ConfigType, Definition, Synonym
from ottla.broker.configs.tables import TOPIC
from ottla.broker.configs.values import ConfigError, invalid

_MEBIBYTE: Final = 1024 * 1024
_ENDPOINT: Final = re.compile(r"(.*)://(?:\[[0-9a-zA-Z\-%._:]*\]|[0-9a-zA-Z\-%._:]*):(-?[0-9]+)")
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}")
# A broker of the embedded cluster loads no classes: those that Kafka brings along are taken for granted.
_OF_KAFKA: Final = "org.apache.kafka."


_NOT_LESS: Final = "greater than or equal to"
_NOT_MORE: Final = "less than or equal to"
_LESS: Final = "less than"


class BrokerValues(Protocol):
    """The part of BrokerConfigs that rules look at."""

    def value(self, name: str) -> Any: ...

    def first_value(self, synonyms: Sequence[Synonym]) -> Any: ...


def check_rules(configs: BrokerValues) -> None:
    """Raises ConfigError for configs that no broker could start with: the first that Kafka would name."""
    for protocol in ("consumer", "share", "streams"):
        _check_group_bounds(configs, protocol)
    _check_share_bounds(configs)
    _check_order(
        configs, "group.streams.num.standby.replicas", _NOT_MORE, "group.streams.max.standby.replicas"
    )
    check_listeners(configs)
    for holds, message in _requirements(configs):
        if not holds:
            raise ConfigError(f"requirement failed: {message}")


def _requirements(configs: BrokerValues) -> Iterator[tuple[bool, str]]:
    value = configs.value
    yield (
        configs.first_value(TOPIC["segment.ms"].synonyms) >= 1,
        "log.roll.ms must be greater than or equal to 1",
    )
    yield (
        configs.first_value(TOPIC["segment.jitter.ms"].synonyms) >= 0,
        "log.roll.jitter.ms must be greater than or equal to 0",
    )
    yield (
        configs.first_value(TOPIC["retention.ms"].synonyms) != 0,
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    )
    yield (
        value("log.cleaner.dedupe.buffer.size") // max(value("log.cleaner.threads"), 1) > _MEBIBYTE,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )
    missing = [
        folder
        for folder in value("cordoned.log.dirs")
        if folder not in (value("log.dirs") or value("log.dir"))
    ]
    yield (
        not missing,
        "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : "
        + ", ".join(missing),
    )
    yield (
        value("replica.fetch.wait.max.ms") <= value("replica.socket.timeout.ms"),
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary "
        "socket timeouts",
    )
    yield (
        value("replica.fetch.wait.max.ms") <= value("replica.lag.time.max.ms"),
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent "
        "frequent changes in ISR",
    )
    queued = value("queued.max.request.bytes")
    yield (
        queued <= 0 or queued >= value("socket.request.max.bytes"),
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )
    yield (
        value("max.connections.per.ip") > 0 or bool(value("max.connections.per.ip.overrides")),
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
    )
    delay, idle = value("connection.failed.authentication.delay.ms"), value("connections.max.idle.ms")
    yield (
        idle < 0 or delay < idle,
        f"connection.failed.authentication.delay.ms={delay} should always be less than "
        f"connections.max.idle.ms={idle} to prevent failed authentication responses from timing out",
    )


def _check_group_bounds(configs: BrokerValues, protocol: str) -> None:
    prefix = f"group.{protocol}."
    for name in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"):
        own, low, high = f"{prefix}{name}", f"{prefix}min.{name}", f"{prefix}max.{name}"
        _check_order(configs, high, _NOT_LESS, low)
        _check_order(configs, own, _NOT_LESS, low)
        _check_order(configs, own, _NOT_MORE, high)
    _check_order(configs, f"{prefix}heartbeat.interval.ms", _LESS, f"{prefix}session.timeout.ms")


def _check_share_bounds(configs: BrokerValues) -> None:
    for name in ("delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms"):
        own = f"group.share.{name}"
        _check_order(configs, f"group.share.max.{name}", _NOT_LESS, own)
        _check_order(configs, own, _NOT_LESS, f"group.share.min.{name}")
    _check_order(configs, "group.share.max.share.sessions", _NOT_LESS, "group.share.max.size")
    assignors = configs.value("group.share.assignors")
    if len(assignors) != 1:
        raise ConfigError(
            f"group.share.assignors must contain exactly one assignor, but found {len(assignors)}"
        )


def _check_order(configs: BrokerValues, name: str, relation: str, other: str) -> None:
    left, right = configs.value(name), configs.value(other)
    holds = {_NOT_LESS: left >= right, _NOT_MORE: left <= right, _LESS: left < right}
    if not holds[relation]:
        raise ConfigError(f"{name} must be {relation} {other}")


def check_class(definition: Definition, name: str, text: str) -> None:
    """A class that a broker should load must be there."""
    if definition.type is ConfigType.CLASS and not text.strip().startswith(_OF_KAFKA):
        raise invalid(name, text, f"Class {text} could not be found.")


def check_listeners(configs: BrokerValues) -> None:
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


def check_connection_limits(configs: BrokerValues) -> None:
    for _, limit in _pairs(configs, "max.connections.per.ip.overrides"):
        if not _INTEGER.fullmatch(limit):
            raise ConfigError(f'For input string: "{limit}"')


def foreign_reporters(configs: BrokerValues) -> bool:
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


def _pairs(configs: BrokerValues, config: str) -> Iterator[tuple[str, str]]:
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
