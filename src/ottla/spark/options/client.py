"""The options that begin with kafka., as the configuration of an ottla.Client.

A name is one of four kinds: refused because the connector itself sees to it; passed on; known to Java's clients but
without use here, which is logged at most; or unknown, which is logged with the name that may have been meant, as
Java's clients do.

Here too: `kafka.partitioner.class` and `kafka.sasl.jaas.config`, which Java writes in a way of its own.

Not here: what the values may be, which ClientConfig knows, and the connector's own options (`connector`).

Invariant: whatever changes what is read or written is honoured or refused, never passed over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from ottla.config import ClientConfig
from ottla.errors import ConfigurationError
from ottla.spark.options.parsing import KAFKA_PREFIX, OptionError, logger, warn_once

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
        "transactional.id": "the sink names its transactions itself, one for every task: leave it out, and give the "
        "sink a name of its own with ottla.sink.id",
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
_FOR_TRANSACTIONS: Final = frozenset({"transaction.timeout.ms"})
# What `_security` sees to.
_SECURITY: Final = ("sasl.", "ssl.", "security.protocol")

# One response may fill the socket while the one before it is decoded: more bytes than a consumer of records wants.
_SOURCE_DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "client.id": "ottla-spark",
        "max.partition.fetch.bytes": str(8 * 1024 * 1024),
        # failOnDataLoss decides what becomes of an offset that is gone.
        "auto.offset.reset": "none",
        # The JVM connector requests topics as an administrator does, which creates none.
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

_NOT_WITH_TRANSACTIONS: Final = (
    "the sink writes exactly once, which takes transactions, and those take an idempotent producer with acks=all. "
    "Leave the option out, or set ottla.delivery to at-least-once"
)

# Kafka's default, and ClientConfig's.
_FETCH_WAIT_MS: Final = 500

_KNOWN: Final = frozenset(option.dotted for option in ClientConfig.describe())


def source_config(kafka: Mapping[str, str]) -> ClientConfig:
    """The configuration of a source's client; `kafka` has the names without their prefix."""
    return _source_config(tuple(sorted(kafka.items())))


def sink_config(kafka: Mapping[str, str]) -> ClientConfig:
    """The configuration of a sink's client; `kafka` has the names without their prefix."""
    return _sink_config(tuple(sorted(kafka.items())))


def transactional_config(kafka: Mapping[str, str], sink_id: str = "ottla-sink") -> ClientConfig:
    """The configuration of a client that writes exactly once: for each sink another, so that none has to wait.

    It takes a transactional id for every task and batch; that it has one before only says that it will.
    """
    return _transactional_config(tuple(sorted(kafka.items())), sink_id)


# Called for every task and every micro-batch, and what a config has to say is to be logged once.
@lru_cache(maxsize=64)
def _source_config(items: tuple[tuple[str, str], ...]) -> ClientConfig:
    kafka = dict(items)
    return _config(kafka, {**_SOURCE_DEFAULTS, **_fetch_wait(kafka)}, _REFUSED_BY_SOURCE, others=_FOR_SINKS)


@lru_cache(maxsize=64)
def _sink_config(items: tuple[tuple[str, str], ...]) -> ClientConfig:
    return _config(dict(items), _SINK_DEFAULTS, _REFUSED_BY_SINK, others=_FOR_SOURCES)


@lru_cache(maxsize=64)
def _transactional_config(items: tuple[tuple[str, str], ...], sink_id: str) -> ClientConfig:
    kafka = dict(items)
    if (acks := kafka.get("acks", "all").strip().lower()) not in ("all", "-1"):
        raise OptionError(f"option 'kafka.acks' cannot be {acks!r}: {_NOT_WITH_TRANSACTIONS}")
    if kafka.get("enable.idempotence", "true").strip().lower() == "false":
        raise OptionError(f"option 'kafka.enable.idempotence' cannot be 'false': {_NOT_WITH_TRANSACTIONS}")
    return _config(
        kafka,
        {"client.id": "ottla-spark", "transactional.id": sink_id, **_fetch_wait(kafka)},
        _REFUSED_BY_SINK,
        others=_FOR_SOURCES,
        used=_FOR_TRANSACTIONS,
    )


def _fetch_wait(kafka: Mapping[str, str]) -> dict[str, str]:
    """The default gives way to a short kafka.request.timeout.ms: brokers have to respond before it is over."""
    patience = kafka.get("request.timeout.ms", "")
    if not re.fullmatch("[1-9][0-9]{0,2}", patience) or int(patience) > _FETCH_WAIT_MS:
        return {}
    return {"fetch.max.wait.ms": str(int(patience) // 2)}


def _config(
    kafka: Mapping[str, str],
    defaults: Mapping[str, str],
    refused: Mapping[str, str],
    others: tuple[str, ...],
    used: frozenset[str] = frozenset(),
) -> ClientConfig:
    """`used` are names that other clients of the connector have no use for."""
    _refuse(kafka, {**refused, **_REFUSED_BY_BOTH})
    properties = {**defaults, **_security(kafka)}
    for name, value in kafka.items():
        if name.startswith(_SECURITY):
            continue
        if name in _KNOWN and name not in _WITHOUT_USE - used and not name.startswith(others):
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
    advice = unknown(name, prefix=KAFKA_PREFIX)
    if advice is None:
        logger.debug("option %s%s is not used", KAFKA_PREFIX, name)
        return
    warn_once(f"unknown kafka.{name}", f"option {KAFKA_PREFIX}{name} has no effect: {advice}")


def unknown(name: str, *, prefix: str = "") -> str | None:
    """What to say of a name, without its prefix, that none of Kafka's clients has; None of the others."""
    if name in _KNOWN or name in _WITHOUT_USE or name.startswith(_SECURITY):
        return None
    close = get_close_matches(name, [*_KNOWN, *_WITHOUT_USE], n=1)
    return f"did you mean {prefix}{close[0]}?" if close else "Kafka's client has none of that name"


def _checked(properties: Mapping[str, str]) -> ClientConfig:
    try:
        return ClientConfig.from_properties(properties)
    except ConfigurationError as error:
        name = error.kafka_name or (error.option or "bootstrap.servers").replace("_", ".")
        raise OptionError(f"option '{KAFKA_PREFIX}{name}': {error}") from error


# kafka.partitioner.class of the sink: Java's classes by what they do, the client's own partitioners by name

_PARTITIONER: Final = "partitioner.class"
_PARTITIONERS_OF_JAVA: Final[Mapping[str, str]] = MappingProxyType(
    {
        "org.apache.kafka.clients.producer.RoundRobinPartitioner": "round_robin",
        "org.apache.kafka.clients.producer.internals.DefaultPartitioner": "default",
    }
)
# Without those that would make a Python object of every row.
_PARTITIONERS: Final = ("default", "hash", "round_robin", "least_backup", "manual")


def partitioner(kafka: Mapping[str, str]) -> str:
    """The name of the client's partitioner; `kafka` has the names of options without their prefix.

    >>> partitioner({"partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"})
    'round_robin'
    """
    given = kafka.get(_PARTITIONER, "").strip()
    if not given:
        return "default"
    name = _PARTITIONERS_OF_JAVA.get(given, given)
    if name not in _PARTITIONERS:
        known = ", ".join((*_PARTITIONERS_OF_JAVA, *_PARTITIONERS))
        raise OptionError(
            f"Kafka option '{_PARTITIONER}' cannot be {given!r}: it is one of {known}. "
            "To choose by other rules, give rows a column 'partition'"
        )
    return name


# kafka.sasl.jaas.config: a user and a password in the syntax of Java's login modules
#
#     org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";
#
# The class may have any package, as some distributions move Kafka's into one of their own.

_JAAS_ENTRY: Final = re.compile(
    r"""
    \s* (?P<module>[\w.$]+)
    \s+ (?:required|requisite|sufficient|optional)
    (?P<options> (?: \s+ [\w.]+ \s*=\s* (?: "(?:[^"\\]|\\.)*" | [^\s";]+ ) )* )
    \s* ;? \s*
    """,
    re.VERBOSE | re.IGNORECASE,
)
_JAAS_OPTION: Final = re.compile(r"""([\w.]+) \s*=\s* (?: "((?:[^"\\]|\\.)*)" | ([^\s";]+) )""", re.VERBOSE)
_LOGIN_MODULES: Final = ("PlainLoginModule", "ScramLoginModule")


class Credentials(NamedTuple):
    username: str
    password: str


def credentials(jaas: str) -> Credentials:
    """Who the text says that the client is. Errors never quote it: there is a password in it."""
    entry = _JAAS_ENTRY.fullmatch(jaas)
    if entry is None:
        raise OptionError(
            "option 'kafka.sasl.jaas.config' cannot be read: it takes one entry, as in "
            'org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";'
        )
    if entry["module"].rpartition(".")[2] not in _LOGIN_MODULES:
        raise OptionError(
            f"option 'kafka.sasl.jaas.config' has the login module {entry['module']}, which only a JVM has: "
            f"supported are {' and '.join(_LOGIN_MODULES)}, of any package"
        )
    options = {
        name: re.sub(r"\\(.)", r"\1", quoted) or bare
        for name, quoted, bare in _JAAS_OPTION.findall(entry["options"])
    }
    missing = [name for name in Credentials._fields if name not in options]
    if missing:
        raise OptionError(f"option 'kafka.sasl.jaas.config' lacks {' and '.join(missing)}")
    return Credentials(options["username"], options["password"])
