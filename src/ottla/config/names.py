"""Names that are no option: what to say to each, so that no user is left with the word "unknown"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from ottla.config.options import Option
from ottla.errors import ConfigurationError

_SHARE_GROUPS: Final = "share groups"
_TWO_PHASE_COMMIT: Final = "two-phase commit by brokers (KIP-939)"

# Kafka's names for what Ottla does not do yet -> what they belong to.
NOT_SUPPORTED_YET: Final[Mapping[str, str]] = MappingProxyType(
    {
        "share.acknowledgement.mode": _SHARE_GROUPS,
        "share.acquire.mode": _SHARE_GROUPS,
        "transaction.two.phase.commit.enable": _TWO_PHASE_COMMIT,
        "bootstrap.controllers": "administration of controllers without a broker",
    }
)
# There are too many of these to list, and the same message is right for all.
_LATER_PREFIXES: Final = (("ssl.", "TLS"), ("sasl.", "SASL"))


@dataclass(frozen=True, slots=True)
class JavaOnly:
    """A name that means something to a JVM only; `harmless` if a program does the same without it."""

    advice: str
    harmless: bool


_SERIALIZER: Final = JavaOnly("serializers are Python objects: give the client one of ottla.serde", True)
_DESERIALIZER: Final = JavaOnly("deserializers are Python objects: give the client one of ottla.serde", True)
_METRICS: Final = JavaOnly("it is about metrics of the Java client: watch this one with hooks", True)

JAVA_ONLY: Final[Mapping[str, JavaOnly]] = MappingProxyType(
    {
        "key.serializer": _SERIALIZER,
        "value.serializer": _SERIALIZER,
        "key.deserializer": _DESERIALIZER,
        "value.deserializer": _DESERIALIZER,
        "metric.reporters": _METRICS,
        "metrics.num.samples": _METRICS,
        "metrics.recording.level": _METRICS,
        "metrics.sample.window.ms": _METRICS,
        "interceptor.classes": JavaOnly("it names Java classes: hooks are Ottla's interceptors", False),
        "partitioner.class": JavaOnly("it names a Java class: give the client a partitioner", False),
        "config.providers": JavaOnly("it names Java classes: put the values themselves in place", False),
        "security.providers": JavaOnly("it names Java classes: Python's ssl module needs none", False),
    }
)

# Other clients' names -> Kafka's.
_ELSEWHERE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "metadata.broker.list": "bootstrap.servers",
        "bootstrap": "bootstrap.servers",
        "brokers": "bootstrap.servers",
        "timeout": "default.api.timeout.ms",
        "timeout.ms": "default.api.timeout.ms",
        "request.required.acks": "acks",
        "queue.buffering.max.ms": "linger.ms",
        "queue.buffering.max.kbytes": "buffer.memory",
        "compression.codec": "compression.type",
        "message.max.bytes": "max.request.size",
        "message.timeout.ms": "delivery.timeout.ms",
        "message.send.max.retries": "retries",
        "max.in.flight": "max.in.flight.requests.per.connection",
        "max.batch.size": "batch.size",
        "fetch.wait.max.ms": "fetch.max.wait.ms",
        "fetch.message.max.bytes": "max.partition.fetch.bytes",
        "socket.send.buffer.bytes": "send.buffer.bytes",
        "socket.receive.buffer.bytes": "receive.buffer.bytes",
        "socket.timeout.ms": "request.timeout.ms",
        "topic.metadata.refresh.fast.interval.ms": "metadata.min.age.ms",
    }
)


def no_option(name: str, options: Mapping[str, Option], *, dotted: bool) -> ConfigurationError:
    """The error for a name that is none of the options; `dotted` if names are given Kafka's way here."""
    canonical = name.strip().replace("_", ".")
    spelled = canonical if dotted else canonical.replace(".", "_")
    known = {option.dotted: option for option in options.values()}
    return ConfigurationError(
        _what_to_do(name, canonical, spelled, known, dotted),
        option=name,
        kafka_name=canonical
        if canonical in known or unsupported_feature(canonical) or canonical in JAVA_ONLY
        else None,
    )


def unsupported_feature(dotted: str) -> str | None:
    """What a name of Kafka's belongs to, if Ottla does not do that yet."""
    if dotted in NOT_SUPPORTED_YET:
        return NOT_SUPPORTED_YET[dotted]
    return next((what for prefix, what in _LATER_PREFIXES if dotted.startswith(prefix)), None)


def _what_to_do(name: str, canonical: str, spelled: str, known: Mapping[str, Option], dotted: bool) -> str:
    style = "Kafka's dotted names stand here" if dotted else "as a keyword it has no dots"
    if canonical in known:
        return f"{name} is not how it is written: {style}, so write {spelled}"
    if belongs := unsupported_feature(canonical):
        return f"{name} belongs to {belongs}, not supported yet: leave it out"
    if canonical in JAVA_ONLY:
        return f"{name} is no option: {JAVA_ONLY[canonical].advice}"
    if canonical in _ELSEWHERE:
        return f"{name} is another client's name: write {_in_style(_ELSEWHERE[canonical], dotted)}"
    if close := get_close_matches(canonical.lower(), [*known, *NOT_SUPPORTED_YET], n=1):
        return f"there is no option {name}: did you mean {_in_style(close[0], dotted)}?"
    return f"there is no option {name}: ClientConfig.describe() lists them all"


def _in_style(dotted_name: str, dotted: bool) -> str:
    return dotted_name if dotted else dotted_name.replace(".", "_")
