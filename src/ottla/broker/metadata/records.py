"""The metadata log: the records in which the controller writes down what it has decided, one small fact each.

They follow KRaft's records in name and meaning, but their bytes are ours: JSON with a type and a version, the
value of an ordinary Kafka record, one batch per decision. What the facts add up to is in image.py.

Invariant: `decode(encode(record)) == record`, and a record never changes once it is made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias

from ottla.broker.metadata.names import METADATA_TOPIC
from ottla.errors import DecodeError
from ottla.wire import Uuid
from ottla.wire.batches import encode_batch
from ottla.wire.primitives import Buffer
from ottla.wire.records import decode_fetch

NO_LEADER: Final = -1


@dataclass(frozen=True, slots=True)
class BrokerEndpoint:
    """Where a broker serves, under one listener name."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


@dataclass(frozen=True, slots=True)
class SupportedFeature:
    """The levels of a feature that a broker can run at."""

    name: str
    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True)
class RegisterBrokerRecord:
    """A broker, or a new incarnation of one, has registered."""

    broker_id: int
    broker_epoch: int
    incarnation_id: Uuid
    listeners: tuple[BrokerEndpoint, ...]
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    features: tuple[SupportedFeature, ...] = ()
    log_dirs: tuple[Uuid, ...] = ()
    """The ids of its directories that work (KIP-858)."""


@dataclass(frozen=True, slots=True)
class BrokerChangeRecord:
    """A registration changes; None leaves a field as it is."""

    broker_id: int
    broker_epoch: int
    fenced: bool | None = None
    in_controlled_shutdown: bool | None = None
    log_dirs: tuple[Uuid, ...] | None = None


@dataclass(frozen=True, slots=True)
class UnregisterBrokerRecord:
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class TopicRecord:
    name: str
    topic_id: Uuid


@dataclass(frozen=True, slots=True)
class RemoveTopicRecord:
    """Takes the topic's partitions and configs with it."""

    topic_id: Uuid


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """A new partition, whole."""

    topic_id: Uuid
    index: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovering: bool = False
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionChangeRecord:
    """A partition changes; None leaves a field as it is.

    Epochs are not written down: every change raises the partition epoch, and one that names a leader, be it the
    same as before, raises the leader epoch.
    """

    topic_id: Uuid
    index: int
    isr: tuple[int, ...] | None = None
    leader: int | None = None
    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    recovering: bool | None = None
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class AssignReplicaRecord:
    """A replica lies in this directory of its broker (KIP-858); only of brokers that have several."""

    topic_id: Uuid
    index: int
    broker_id: int
    directory_id: Uuid


@dataclass(frozen=True, slots=True)
class ClearElrRecord:
    """The eligible leader replicas of a topic are forgotten, or with an empty name those of all topics.

    They were counted against a min.insync.replicas that holds no more (KIP-966).
    """

    topic: str


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """One override of one resource; without a value it is removed."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord:
    """The block of producer ids before `next_producer_id` belongs to this broker."""

    broker_id: int
    broker_epoch: int
    next_producer_id: int


@dataclass(frozen=True, slots=True)
class FeatureLevelRecord:
    """The level that the whole cluster runs a feature at; 0 is off."""

    name: str
    level: int


MetadataRecord: TypeAlias = (
    RegisterBrokerRecord
    | BrokerChangeRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | RemoveTopicRecord
    | PartitionRecord
    | PartitionChangeRecord
    | AssignReplicaRecord
    | ClearElrRecord
    | ConfigRecord
    | ProducerIdsRecord
    | FeatureLevelRecord
)

_VERSION: Final = 0
_TYPES: Final[dict[str, type[MetadataRecord]]] = {
    type_.__name__.removesuffix("Record"): type_
    for type_ in (
        RegisterBrokerRecord,
        BrokerChangeRecord,
        UnregisterBrokerRecord,
        TopicRecord,
        RemoveTopicRecord,
        PartitionRecord,
        PartitionChangeRecord,
        AssignReplicaRecord,
        ClearElrRecord,
        ConfigRecord,
        ProducerIdsRecord,
        FeatureLevelRecord,
    )
}
_NAMES: Final = {type_: name for name, type_ in _TYPES.items()}
_FIELDS: Final = {
    type_: tuple(field.name for field in fields(type_))
    for type_ in (*_TYPES.values(), BrokerEndpoint, SupportedFeature)
}
_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "topic_id": Uuid.parse,
    "incarnation_id": Uuid.parse,
    "directory_id": Uuid.parse,
    "log_dirs": lambda items: None if items is None else tuple(map(Uuid.parse, items)),
    "listeners": lambda items: tuple(BrokerEndpoint(**item) for item in items),
    "features": lambda items: tuple(SupportedFeature(**item) for item in items),
}


def encode(record: MetadataRecord) -> bytes:
    """The value of the log record that carries `record`."""
    content = {"type": _NAMES[type(record)], "version": _VERSION, **_plain(record)}
    return json.dumps(content, separators=(",", ":"), default=_plain_value).encode()


def decode(data: bytes | bytearray | memoryview) -> MetadataRecord:
    """The record in `data`; DecodeError for anything that `encode` has not written."""
    try:
        content = json.loads(bytes(data))
        name = content.pop("type")
        type_ = _TYPES[name]
        version = content.pop("version")
        if version != _VERSION:
            raise DecodeError(f"a {name} record of version {version}, only {_VERSION} is known")
        return type_(**{field: _read(field, value) for field, value in content.items()})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DecodeError(f"not a metadata record: {error!r}") from error


def write_records(records: Sequence[MetadataRecord], now_ms: int) -> bytearray:
    """A batch of the log; the log gives it its offsets."""
    return bytearray(
        encode_batch([(number, now_ms, None, encode(record), []) for number, record in enumerate(records)])
    )


def read_records(data: Buffer, offset: int) -> list[MetadataRecord]:
    """The records of a fetch, from `offset` on."""
    fetched = decode_fetch(data, METADATA_TOPIC, 0, offset=offset)
    return [decode(record.value or b"") for record in fetched]


def _plain(struct: MetadataRecord | BrokerEndpoint | SupportedFeature) -> dict[str, object]:
    return {name: getattr(struct, name) for name in _FIELDS[type(struct)]}


def _plain_value(value: object) -> object:
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, BrokerEndpoint | SupportedFeature):
        return _plain(value)
    raise TypeError(f"{value!r} cannot be part of a metadata record")


def _read(name: str, value: Any) -> Any:
    if name in _READERS:
        return _READERS[name](value)
    return tuple(value) if isinstance(value, list) else value
