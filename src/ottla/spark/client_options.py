"""The options that begin with kafka., as the configuration of an ottla.Client.

A name is one of four kinds: refused because the connector itself sees to it; passed on; known to Java's clients but
without use here, which is logged at most; or unknown, which is logged with the name that may have been meant, as
Java's clients do.

Not here: what the values may be, which ClientConfig knows, and what the connector's own options are (`options`).

Invariant: whatever changes what is read or written is honoured or refused, never passed over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from ottla.config import ClientConfig
from ottla.errors import ConfigurationError
from ottla.spark.jaas import credentials
from ottla.spark.option_names import KAFKA_PREFIX, logger, warn_once
from ottla.spark.option_values import OptionError

_BYTES_IN: Final = (
    "are deserialized as byte arrays: use DataFrame operations to deserialize them, or value.format"
)
_BYTES_OUT: Final = "are serialized as byte arrays: use DataFrame operations to serialize them"
_JAVA_CLASS: Final = "it names Java classes"

# Name -> why, and what to do instead; the JVM connector refuses the same.
_REFUSED_BY_SOURCE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "auto.offset.reset": "set the source option 'startingOffsets' to 'earliest' or 'latest' to say where a new "
        "query starts; a restarted one goes on where it left off",
        "key.deserializer": f"keys {_BYTES_IN}",
        "value.deserializer": f"values {_BYTES_IN}",
        "enable.auto.commit": "positions are kept in the query's checkpoint: leave it out",
        "interceptor.classes": f"{_JAVA_CLASS} that may change what is read: leave it out",
    }
)
_REFUSED_BY_SINK: Final[Mapping[str, str]] = MappingProxyType(
    {
        "key.serializer": f"keys {_BYTES_OUT}",
        "value.serializer": f"values {_BYTES_OUT}",
        "interceptor.classes": f"{_JAVA_CLASS} that may change what is written: leave it out",
        "transactional.id": "rows are written at least once, without transactions: leave it out",
    }
)
_REFUSED_BY_BOTH: Final[Mapping[str, str]] = MappingProxyType(
    {
        "config.providers": f"{_JAVA_CLASS}: put the values themselves in place",
        "security.providers": f"{_JAVA_CLASS}: leave it out",
    }
)

# Options of ClientConfig that only one of the two sides has, by their beginnings.
_FOR_SOURCES: Final = (
    "fetch.",
    "max.partition.fetch.bytes",
    "isolation.level",
    "check.crcs",
    "max.poll.records",
)
_FOR_SINKS: Final = (
    "acks",
    "batch.size",
    "buffer.memory",
    "compression.",
    "delivery.timeout.ms",
    "enable.idempotence",
    "linger.ms",
    "max.block.ms",
    "max.buffered.records",
    "max.in.flight.requests.per.connection",
    "max.request.size",
    "metadata.max.idle.ms",
    "partitioner.",
    "retries",
)
# Names of Java's clients that neither side has any use for: groups, transactions, classes, metrics.
_WITHOUT_USE: Final = frozenset(
    {
        "auto.commit.interval.ms",
        "auto.include.jmx.reporter",
        "auto.offset.reset",
        "enable.auto.commit",
        "exclude.internal.topics",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "interceptor.classes",
        "key.deserializer",
        "key.serializer",
        "max.poll.interval.ms",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "partitioner.class",
        "session.timeout.ms",
        "transaction.timeout.ms",
        "transactional.id",
        "value.deserializer",
        "value.serializer",
    }
)
# What `_security` sees to.
_SECURITY: Final = ("sasl.", "ssl.", "security.protocol")

# One answer may fill the socket while the one before it is decoded: more bytes than a consumer of records wants.
_SOURCE_DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "client.id": "ottla-spark",
        "max.partition.fetch.bytes": str(8 * 1024 * 1024),
        # An offset that is gone is for failOnDataLoss to judge.
        "auto.offset.reset": "none",
        # The JVM connector asks for topics as an administrator does, which creates none.
        "allow.auto.create.topics": "false",
    }
)
_SINK_DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "client.id": "ottla-spark",
        # It fetches nothing, so that no kafka.request.timeout.ms is too short for that.
        "fetch.max.wait.ms": "0",
    }
)

# Kafka's default, and ClientConfig's.
_FETCH_WAIT_MS: Final = 500

_KNOWN: Final = frozenset(option.dotted for option in ClientConfig.describe())


def source_config(kafka: Mapping[str, str]) -> ClientConfig:
    """What the client of a source is told; `kafka` has the names without their prefix."""
    return _source_config(tuple(sorted(kafka.items())))


def sink_config(kafka: Mapping[str, str]) -> ClientConfig:
    """What the client of a sink is told; `kafka` has the names without their prefix."""
    return _sink_config(tuple(sorted(kafka.items())))


# Every task and every micro-batch asks again, and what a config has to say is to be logged once.
@lru_cache(maxsize=64)
def _source_config(items: tuple[tuple[str, str], ...]) -> ClientConfig:
    kafka = dict(items)
    return _config(kafka, {**_SOURCE_DEFAULTS, **_fetch_wait(kafka)}, _REFUSED_BY_SOURCE, others=_FOR_SINKS)


@lru_cache(maxsize=64)
def _sink_config(items: tuple[tuple[str, str], ...]) -> ClientConfig:
    return _config(dict(items), _SINK_DEFAULTS, _REFUSED_BY_SINK, others=_FOR_SOURCES)


def _fetch_wait(kafka: Mapping[str, str]) -> dict[str, str]:
    """The default gives way to a short kafka.request.timeout.ms: brokers have to answer a fetch before it is over."""
    patience = kafka.get("request.timeout.ms", "")
    if not re.fullmatch("[1-9][0-9]{0,2}", patience) or int(patience) > _FETCH_WAIT_MS:
        return {}
    return {"fetch.max.wait.ms": str(int(patience) // 2)}


def _config(
    kafka: Mapping[str, str],
    defaults: Mapping[str, str],
    refused: Mapping[str, str],
    others: tuple[str, ...],
) -> ClientConfig:
    _refuse(kafka, {**refused, **_REFUSED_BY_BOTH})
    properties = {**defaults, **_security(kafka)}
    for name, value in kafka.items():
        if name.startswith(_SECURITY):
            continue
        if name in _KNOWN and name not in _WITHOUT_USE and not name.startswith(others):
            properties[name] = value
        else:
            _leave_out(name)
    return _checked(properties)


def _refuse(kafka: Mapping[str, str], refused: Mapping[str, str]) -> None:
    for name, why in refused.items():
        if name in kafka:
            raise OptionError(f"Kafka option '{name}' is not supported: {why}")


def _security(kafka: Mapping[str, str]) -> dict[str, str]:
    """How to connect, with the protocol first: it is what a client that cannot do it should complain about."""
    given = {name: value for name, value in kafka.items() if name.startswith(("sasl.", "ssl."))}
    protocol = kafka.get("security.protocol", "PLAINTEXT").strip()
    if protocol.upper() == "PLAINTEXT":
        for name in given:
            warn_once(
                f"plaintext {name}",
                f"option {KAFKA_PREFIX}{name} has no effect: {KAFKA_PREFIX}security.protocol is PLAINTEXT",
            )
        return {}
    jaas = given.pop("sasl.jaas.config", None)
    if jaas is not None:
        login = credentials(jaas)
        given |= {"sasl.username": login.username, "sasl.password": login.password}
    return {"security.protocol": protocol, **given}


def _leave_out(name: str) -> None:
    if name in _WITHOUT_USE or name in _KNOWN:
        logger.debug("option %s%s is not used", KAFKA_PREFIX, name)
        return
    close = get_close_matches(name, [*_KNOWN, *_WITHOUT_USE], n=1)
    advice = f"did you mean {KAFKA_PREFIX}{close[0]}?" if close else "Kafka's client has none of that name"
    warn_once(f"unknown kafka.{name}", f"option {KAFKA_PREFIX}{name} has no effect: {advice}")


def _checked(properties: Mapping[str, str]) -> ClientConfig:
    try:
        return ClientConfig.from_properties(properties)
    except ConfigurationError as error:
        name = error.kafka_name or (error.option or "bootstrap.servers").replace("_", ".")
        raise OptionError(f"option '{KAFKA_PREFIX}{name}': {error}") from error
