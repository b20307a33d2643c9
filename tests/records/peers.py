"""The record codecs of two clients that nobody here wrote, behind one small interface.

kafka-python's is plain Python. aiokafka has two, one compiled and one in Python, and both are taken. Which codecs a
peer can compress and read depends on what is installed beside it, so each says which it has.

    for peer in PEERS:
        assert peer.decode(peer.encode(records, codec="gzip")) == records
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, TypeAlias

import aiokafka.codec
from aiokafka.record import default_records, legacy_records, memory_records

from tests.oracle.message_sets import CODECS, NO_TIMESTAMP, Headers
from tests.oracle.records import split_entries

with warnings.catch_warnings():
    # It reads its schemas through a function that Python 3.11 deprecated and 3.13 took back.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.codec
    from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

# Offset, timestamp (-1 for none), key, value, headers: OracleRecord.plain.
PlainRecord: TypeAlias = tuple[int, int, bytes | None, bytes | None, Headers]

ENOUGH = 1 << 30  # a limit for the size of a batch that no test reaches


@dataclass(frozen=True)
class ProducerState:
    """What an idempotent or transactional producer adds to a batch."""

    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False


@dataclass(frozen=True)
class PeerBatch:
    """What a peer tells about a batch; of a message before magic 2 it tells the records only."""

    records: tuple[PlainRecord, ...]
    base_offset: int | None = None
    next_offset: int | None = None
    control: bool = False
    producer: ProducerState = ProducerState()


@dataclass(frozen=True)
class Peer:
    name: str
    codecs: tuple[str, ...]
    read: Callable[[bytes], Iterable[Any]]
    write: Callable[[Sequence[PlainRecord], str, int, ProducerState], bytes]
    mixes_formats: bool = True  # whether messages and batches may follow each other in what it reads

    def supports(self, codec: str, magic: int = 2) -> bool:
        """zstd came with magic 2. LZ4 in magic 0 has Kafka's mistake in its header: no peer copes with it here."""
        return codec in self.codecs and codec not in (["lz4", "zstd"], ["zstd"], [])[magic]

    def decode_batches(self, data: bytes) -> list[PeerBatch]:
        """All batches and messages, each with its checksum verified."""
        return [_batch(batch) for batch in self.read(data)]

    def decode(self, data: bytes) -> list[PlainRecord]:
        """The records that a consumer is given: none of control batches."""
        return [
            record for batch in self.decode_batches(data) if not batch.control for record in batch.records
        ]

    def encode(
        self,
        records: Sequence[PlainRecord],
        *,
        codec: str = "none",
        magic: int = 2,
        producer: ProducerState | None = None,
    ) -> bytes:
        """One batch, as a producer sends it, with offsets from 0. Of magic 2, it stays as it is if no smaller."""
        return self.write(records, codec, magic, producer or ProducerState())

    def __str__(self) -> str:
        return self.name


def _batch(batch: Any) -> PeerBatch:
    assert batch.validate_crc()
    if not hasattr(batch, "base_sequence"):
        return PeerBatch(tuple(map(_plain, batch)))
    producer = ProducerState(
        batch.producer_id, batch.producer_epoch, batch.base_sequence, bool(batch.is_transactional)
    )
    base, following, control = batch.base_offset, batch.next_offset, bool(batch.is_control_batch)
    return PeerBatch(tuple(map(_plain, batch)), base, following, control, producer)


def _plain(record: Any) -> PlainRecord:
    timestamp = NO_TIMESTAMP if record.timestamp is None else record.timestamp
    return record.offset, timestamp, record.key, record.value, tuple(record.headers)


def _available(codec: ModuleType) -> tuple[str, ...]:
    return ("none", *(name for name in CODECS[1:] if getattr(codec, f"has_{name}")()))


def _kafka_python_write(
    records: Sequence[PlainRecord], codec: str, magic: int, producer: ProducerState
) -> bytes:
    builder = MemoryRecordsBuilder(
        magic,
        CODECS.index(codec),
        ENOUGH,
        transactional=producer.transactional,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=producer.base_sequence,
    )
    for offset, timestamp, key, value, headers in records:
        assert offset == builder.next_offset(), "the builder numbers the records itself"
        assert builder.append(timestamp, key, value, list(headers)) is not None
    builder.close()
    return bytes(builder.buffer())


def _aiokafka_read(data: bytes) -> Iterator[Any]:
    records = memory_records.MemoryRecords(data)
    while records.has_next():
        yield records.next_batch()


def _aiokafka_read_in_python(data: bytes) -> Iterator[Any]:
    # Its own splitting makes compiled batches wherever there are some.
    for entry in split_entries(data):
        if entry[16] == 2:
            yield default_records._DefaultRecordBatchPy(entry)
        else:
            yield legacy_records._LegacyRecordBatchPy(entry, entry[16])


def _aiokafka_write(
    batch_builder: Any,
    message_builder: Any,
    records: Sequence[PlainRecord],
    codec: str,
    magic: int,
    producer: ProducerState,
) -> bytes:
    if magic < 2:
        builder = message_builder(magic, CODECS.index(codec), ENOUGH)
    else:
        builder = batch_builder(
            magic=magic,
            compression_type=CODECS.index(codec),
            is_transactional=int(producer.transactional),
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=producer.base_sequence,
            batch_size=ENOUGH,
        )
    for offset, timestamp, key, value, headers in records:
        assert builder.append(offset, timestamp, key, value, list(headers)) is not None
    return bytes(builder.build())


PEERS = (
    Peer("kafka-python", _available(kafka.codec), MemoryRecords, _kafka_python_write),
    Peer(
        "aiokafka",
        _available(aiokafka.codec),
        _aiokafka_read,
        partial(
            _aiokafka_write,
            default_records.DefaultRecordBatchBuilder,
            legacy_records.LegacyRecordBatchBuilder,
        ),
        mixes_formats=False,  # it takes the magic of the first entry for that of all, and reads nonsense
    ),
    Peer(
        "aiokafka-in-python",
        _available(aiokafka.codec),
        _aiokafka_read_in_python,
        partial(
            _aiokafka_write,
            default_records._DefaultRecordBatchBuilderPy,
            legacy_records._LegacyRecordBatchBuilderPy,
        ),
    ),
)
