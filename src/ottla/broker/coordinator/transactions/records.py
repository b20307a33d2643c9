"""The records of __transaction_state, in the bytes of Apache Kafka 4.3: by transactional id, its state.

Version 0 is written while the cluster's transaction.version is 0, version 1 with its tagged fields since. A record
without a value is a tombstone. Keys of another type are left by a newer release and skipped, as Kafka does; a value
of an unknown version, or of a status that is never written, is an error.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from ottla.broker.coordinator.shard import CoordinatorRecord
from ottla.broker.coordinator.transactions.state import (
    NO_PRODUCER_ID,
    TopicPartition,
    TransactionalIdState,
    TransactionalIdStatus,
)
from ottla.errors import DecodeError
from ottla.wire.decoder import Decoder, compile_decoder
from ottla.wire.encoder import Encoder, compile_encoder
from ottla.wire.primitives import Buffer
from ottla.wire.schema import MessageSchema, parse_message

_INT16: Final = struct.Struct(">h")
_KEY_TYPE: Final = 0
_FLEXIBLE_VERSION: Final = 1
_STORED: Final = frozenset(TransactionalIdStatus) - {
    TransactionalIdStatus.DEAD,
    TransactionalIdStatus.PREPARE_EPOCH_FENCE,
}

_SCHEMA: Final = """\
data TransactionLogKey 0 flexible=none
  TransactionalId string

data TransactionLogValue 0-1 flexible=1+
  ProducerId int64
  PreviousProducerId int64 1+ tag=0 default=-1 ignorable
  NextProducerId int64 1+ tag=1 default=-1 ignorable
  ProducerEpoch int16
  NextProducerEpoch int16 1+ tag=3 default=-1 ignorable
  TransactionTimeoutMs int32
  TransactionStatus int8
  TransactionPartitions []PartitionsSchema?
    Topic string
    PartitionIds []int32
  TransactionLastUpdateTimestampMs int64
  TransactionStartTimestampMs int64
  ClientTransactionVersion int16 1+ tag=2 default=0 ignorable
"""


@dataclass(slots=True, kw_only=True)
class TransactionLogKey:
    transactional_id: str
    unknown_tagged_fields: dict[int, bytes] | None = field(default=None, repr=False)


@dataclass(slots=True, kw_only=True)
class PartitionsSchema:
    topic: str
    partition_ids: list[int] = field(default_factory=list)
    unknown_tagged_fields: dict[int, bytes] | None = field(default=None, repr=False)


@dataclass(slots=True, kw_only=True)
class TransactionLogValue:
    producer_id: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    producer_epoch: int
    next_producer_epoch: int = -1
    """Kafka 4.3 knows it and does not write it."""
    transaction_timeout_ms: int
    transaction_status: int
    transaction_partitions: list[PartitionsSchema] | None = None
    """Null where there is no transaction, which is not the same as one without partitions."""
    transaction_last_update_timestamp_ms: int
    transaction_start_timestamp_ms: int
    client_transaction_version: int = 0
    unknown_tagged_fields: dict[int, bytes] | None = field(default=None, repr=False)


_CLASSES: Final = {
    type_.__name__: type_ for type_ in (TransactionLogKey, TransactionLogValue, PartitionsSchema)
}


def encode(
    transactional_id: str, state: TransactionalIdState | None, *, transaction_version: int
) -> CoordinatorRecord:
    """The record of a state; without one it is a tombstone."""
    key = _encoded(_KEY_TYPE, 0, TransactionLogKey(transactional_id=transactional_id))
    if state is None:
        return CoordinatorRecord(key, None)
    version = _FLEXIBLE_VERSION if transaction_version else 0
    value = TransactionLogValue(
        producer_id=state.producer_id,
        previous_producer_id=state.previous_producer_id,
        next_producer_id=state.next_producer_id,
        producer_epoch=state.epoch,
        transaction_timeout_ms=state.timeout_ms,
        transaction_status=state.status,
        transaction_partitions=(
            None if state.status is TransactionalIdStatus.EMPTY else by_topic(state.partitions)
        ),
        transaction_last_update_timestamp_ms=state.updated_ms,
        transaction_start_timestamp_ms=state.started_ms,
        client_transaction_version=state.client_version,
    )
    return CoordinatorRecord(key, _encoded(version, version, value))


def by_topic(partitions: tuple[TopicPartition, ...]) -> list[PartitionsSchema]:
    topics: dict[str, PartitionsSchema] = {}
    for topic, index in partitions:
        topics.setdefault(topic, PartitionsSchema(topic=topic)).partition_ids.append(index)
    return list(topics.values())


def decode(key: bytes, value: bytes | None) -> tuple[str, TransactionalIdState | None] | None:
    """The transactional id and its state; None for a record that is to be skipped."""
    if _number(key, "key") != _KEY_TYPE:
        return None
    named: TransactionLogKey = _decoded(TransactionLogKey, 0, key)
    if value is None:
        return named.transactional_id, None
    version = _number(value, "value")
    if version not in _schema(TransactionLogValue.__name__).versions:
        raise DecodeError(f"the state of {named.transactional_id!r} has the unknown version {version}")
    stored: TransactionLogValue = _decoded(TransactionLogValue, version, value)
    if stored.transaction_status not in _STORED:
        raise DecodeError(
            f"the state of {named.transactional_id!r} has the unknown status {stored.transaction_status}"
        )
    state = TransactionalIdState(
        producer_id=stored.producer_id,
        epoch=stored.producer_epoch,
        previous_producer_id=stored.previous_producer_id,
        next_producer_id=stored.next_producer_id,
        timeout_ms=stored.transaction_timeout_ms,
        status=TransactionalIdStatus(stored.transaction_status),
        partitions=tuple(
            (topic.topic, index)
            for topic in stored.transaction_partitions or ()
            for index in topic.partition_ids
        ),
        started_ms=stored.transaction_start_timestamp_ms,
        updated_ms=stored.transaction_last_update_timestamp_ms,
        client_version=stored.client_transaction_version,
    )
    return named.transactional_id, state


def _number(data: bytes, what: str) -> int:
    if len(data) < _INT16.size:
        raise DecodeError(f"a {what} of {len(data)} bytes")
    number: int = _INT16.unpack_from(data)[0]
    return number


def _encoded(prefix: int, version: int, content: TransactionLogKey | TransactionLogValue) -> bytes:
    parts: list[Buffer] = [_INT16.pack(prefix)]
    _encoder(type(content).__name__, version)(content, parts.append)
    return b"".join(parts)


def _decoded(type_: type, version: int, data: bytes) -> Any:
    decoded, _ = _decoder(type_.__name__, version)(data, _INT16.size, len(data))
    return decoded


@cache
def _encoder(name: str, version: int) -> Encoder:
    return compile_encoder(_schema(name), version, _CLASSES)


@cache
def _decoder(name: str, version: int) -> Decoder:
    return compile_decoder(_schema(name), version, _CLASSES)


@cache
def _schema(name: str) -> MessageSchema:
    return next(parse_message(block) for block in _SCHEMA.strip().split("\n\n") if block.split()[1] == name)
