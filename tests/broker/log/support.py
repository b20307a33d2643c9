"""Logs and batches for the tests beside this file."""

from __future__ import annotations

import struct

from ottla._native import crc32c
from ottla._native.record_batch import Batch
from ottla.broker.log.flushing import Checkpointed
from ottla.broker.log.fs import MemoryFileSystem
from ottla.broker.log.guards import Guard
from ottla.broker.log.log import Appended, Log, LogConfig, Origin, Slice
from ottla.broker.log.validation import only_batch
from ottla.broker.replication.partition import Partition
from ottla.wire.batches import BatchHeader, ControlType, batch_headers, encode_batch, end_transaction_marker
from ottla.wire.records import decode_fetch

NOW = 1_700_000_000_000
DIRECTORY = "orders-0"


def make_batch(
    count: int = 1,
    *,
    timestamp: int = NOW,
    key: bytes | None = b"key",
    value: bytes = b"value",
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
    codec: int = 0,
) -> bytearray:
    """A batch as a producer sends it; `producer` is (id, epoch, base sequence)."""
    producer_id, producer_epoch, base_sequence = producer
    return bytearray(
        encode_batch(
            [(index, timestamp, key, value, []) for index in range(count)],
            codec=codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
        )
    )


def make_marker(
    outcome: ControlType, producer_id: int, *, epoch: int = 0, coordinator_epoch: int = 0
) -> bytearray:
    return bytearray(
        end_transaction_marker(
            outcome,
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp=NOW,
            coordinator_epoch=coordinator_epoch,
        )
    )


def patched(data: bytes | bytearray, layout: str, at: int, value: int, *, new_crc: bool = True) -> bytearray:
    """The batch with another number in it, and a checksum that says that it has to be so."""
    changed = bytearray(data)
    struct.pack_into(layout, changed, at, value)
    if new_crc:
        struct.pack_into(">I", changed, 17, crc32c(memoryview(changed)[21:]))
    return changed


UNKNOWN = Checkpointed()
CLOSED = Checkpointed(recovery_point=None)


def open_log(
    fs: MemoryFileSystem | None = None,
    config: LogConfig | None = None,
    now_ms: int = NOW,
    known: Checkpointed = UNKNOWN,
) -> Log:
    volume = MemoryFileSystem() if fs is None else fs
    return Log.open(volume, DIRECTORY, LogConfig() if config is None else config, now_ms, known)


def append(log: Log, data: bytes | bytearray, epoch: int = 0, now_ms: int = NOW) -> Appended:
    """Appends a producer's batch; for transactional data the coordinator is asked, and says yes."""
    batch = only_batch(data)
    return log.append_as_leader(batch, epoch, now_ms, guard=guard_of(log, batch, now_ms))


def guard_of(log: Log, batch: Batch, now_ms: int = NOW) -> Guard | None:
    """What a leader asks the coordinator for, if the batch begins a transaction."""
    if not batch.is_transactional or batch.is_control or not batch.has_producer_id:
        return None
    if log.producers.duplicate_of(batch) is not None:
        return None
    return log.producers.guard(
        batch.producer_id, batch.producer_epoch, batch.base_sequence, now_ms, adds_partitions=False
    )


def append_to(partition: Partition, data: bytes | bytearray) -> Appended:
    """The same through the replica that leads."""
    batch = only_batch(bytearray(data))
    return partition.append(batch, acks=1, now_ms=NOW, guard=guard_of(partition.log, batch))


def append_marker(
    log: Log, outcome: ControlType, producer_id: int, *, epoch: int = 0, coordinator_epoch: int = 0
) -> Appended:
    marker = make_marker(outcome, producer_id, epoch=epoch, coordinator_epoch=coordinator_epoch)
    return log.append_as_leader(only_batch(marker), 0, NOW, origin=Origin.COORDINATOR)


def joined(found: Slice) -> bytes:
    data = b"".join(found.parts)
    assert len(data) == found.size
    return data


def headers(found: Slice) -> list[BatchHeader]:
    """Of the batches of a slice; all of them have to be whole."""
    data = joined(found)
    known = batch_headers(data)
    assert sum(header.size for header in known) == len(data)
    return known


def bases(found: Slice) -> list[int]:
    return [header.base_offset for header in headers(found)]


def values(log: Log) -> list[bytes | None]:
    found = log.read(log.log_start_offset, 1 << 30)
    return [record.value for record in decode_fetch(joined(found), "orders", 0, offset=log.log_start_offset)]


def copy_of(fs: MemoryFileSystem, directory: str = DIRECTORY) -> MemoryFileSystem:
    """Another volume with the same files."""
    copied = MemoryFileSystem()
    for name in fs.list(directory):
        file = fs.open(f"{directory}/{name}")
        copied.open(f"{directory}/{name}").append(b"".join(file.read(0, file.size)))
    return copied
