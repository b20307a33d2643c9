"""Kafka's records in plain Python: batches of magic 2, and a `records` field of any formats as a consumer reads it.

Written for the eye and slow: the truth that the compiled codec is checked against. It shares nothing with `ottla`.

    batch = build_batch([OracleRecord(offset=7, timestamp=1_700_000_000_000, value=b"hello")], codec="lz4")
    assert decode_batch(encode_batch(batch)) == batch
    assert [record.value for record in decode_records(encode_batch(batch))] == [b"hello"]

What is accepted and refused follows Kafka's consumer (CompletedFetch, DefaultRecordBatch, DefaultRecord), but for
two things. A batch is read as a whole: where Kafka would hand out the records in front of a broken one, here is an
error. And a batch without records is not decompressed: there Kafka may stumble over bytes that mean nothing.
Message sets, the older formats, are in message_sets.py.
"""

from __future__ import annotations

import dataclasses
import heapq
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tests.oracle.crc32c import crc32c
from tests.oracle.message_sets import (
    CODECS,
    CREATE_TIME,
    LEAST_SIZE,
    LOG_APPEND_TIME,
    LOG_APPEND_TIME_BIT,
    MAGIC_AT,
    PREFIX,
    OracleError,
    OracleMessage,
    OracleRecord,
    codec_name,
    compress,
    decode_message,
    decompress,
    encode_message,
    message_records,
)

__all__ = [
    "ABORT",
    "CODECS",
    "COMMIT",
    "CREATE_TIME",
    "HEADER_SIZE",
    "LEADER_CHANGE",
    "LOG_APPEND_TIME",
    "AbortedTransactions",
    "Entry",
    "OracleBatch",
    "OracleError",
    "OracleMessage",
    "OracleRecord",
    "build_batch",
    "control_type",
    "coordinator_epoch",
    "decode_batch",
    "decode_entry",
    "decode_header",
    "decode_records",
    "encode_batch",
    "encode_entry",
    "encode_varint",
    "end_marker",
    "fast_crc32c",
    "iter_records",
    "next_fetch_offset",
    "resealed",
    "split_entries",
]

Entry: TypeAlias = "OracleBatch | OracleMessage"

TRANSACTIONAL_BIT, CONTROL_BIT, DELETE_HORIZON_BIT = 1 << 4, 1 << 5, 1 << 6
ABORT, COMMIT, LEADER_CHANGE = 0, 1, 2  # types of control records

# Base offset, length; leader epoch, magic, crc; then all that the checksum covers: attributes, last offset delta,
# base and maximum timestamp, producer id and epoch, base sequence, count of records, and the records.
HEAD = struct.Struct(">qiibI")
BODY = struct.Struct(">hiqqqhii")
HEADER_SIZE = HEAD.size + BODY.size
MAX_SEQUENCE = 2**31 - 1


@dataclass(frozen=True)
class OracleBatch:
    """A batch of magic 2, as it is written. Its records have their own times, even where those of the log count."""

    base_offset: int
    last_offset: int
    base_timestamp: int
    max_timestamp: int
    records: tuple[OracleRecord, ...] = ()
    leader_epoch: int = -1
    codec: str = "none"
    timestamp_type: int = CREATE_TIME
    transactional: bool = False
    control: bool = False
    delete_horizon: bool = False  # the base timestamp is when its tombstones and markers may go (KIP-534)
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    count: int = dataclasses.field(default=0, compare=False)
    crc: int = dataclasses.field(default=0, compare=False)

    @property
    def attributes(self) -> int:
        return (
            CODECS.index(self.codec)
            | self.timestamp_type * LOG_APPEND_TIME_BIT
            | self.transactional * TRANSACTIONAL_BIT
            | self.control * CONTROL_BIT
            | self.delete_horizon * DELETE_HORIZON_BIT
        )

    @property
    def last_sequence(self) -> int:
        """Sequence numbers go from the largest int32 to 0."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset - self.base_offset) % (MAX_SEQUENCE + 1)

    @property
    def delivered(self) -> list[OracleRecord]:
        """The records as a consumer gets them; it would drop those of a control batch."""
        return [
            dataclasses.replace(
                record,
                timestamp=self.max_timestamp if self.timestamp_type == LOG_APPEND_TIME else record.timestamp,
                timestamp_type=self.timestamp_type,
                leader_epoch=self.leader_epoch,
            )
            for record in self.records
        ]


def build_batch(
    records: Sequence[OracleRecord],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    leader_epoch: int = -1,
    codec: str = "none",
    timestamp_type: int = CREATE_TIME,
    transactional: bool = False,
    control: bool = False,
    delete_horizon: bool = False,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> OracleBatch:
    """A batch of these records. What is left out is taken from them, as a producer does."""
    return OracleBatch(
        base_offset=records[0].offset if base_offset is None else base_offset,
        last_offset=records[-1].offset if last_offset is None else last_offset,
        base_timestamp=records[0].timestamp if base_timestamp is None else base_timestamp,
        max_timestamp=max(r.timestamp for r in records) if max_timestamp is None else max_timestamp,
        records=tuple(records),
        leader_epoch=leader_epoch,
        codec=codec,
        timestamp_type=timestamp_type,
        transactional=transactional,
        control=control,
        delete_horizon=delete_horizon,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=len(records),
    )


def end_marker(
    outcome: int,
    *,
    offset: int,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int = 0,
    leader_epoch: int = -1,
) -> OracleBatch:
    """What the broker writes when a transaction ends: ABORT or COMMIT."""
    marker = OracleRecord(
        offset, timestamp, struct.pack(">hh", 0, outcome), struct.pack(">hi", 0, coordinator_epoch)
    )
    return build_batch(
        [marker],
        leader_epoch=leader_epoch,
        transactional=True,
        control=True,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def control_type(key: bytes | None) -> tuple[int, int]:
    """Version and type in the key of a control record. A newer version has more behind them."""
    if key is None or len(key) < 4:
        raise OracleError("control", f"the key {key!r}")
    version, kind = struct.unpack_from(">hh", key)
    if version < 0:
        raise OracleError("control", f"version {version}")
    return version, kind


def coordinator_epoch(value: bytes) -> int:
    """The epoch in the value of an end marker."""
    epoch: int = struct.unpack_from(">hi", value)[1]
    return epoch


def encode_batch(batch: OracleBatch) -> bytes:
    payload = compress(batch.codec, b"".join(_encode_record(batch, record) for record in batch.records))
    body = BODY.pack(
        batch.attributes,
        batch.last_offset - batch.base_offset,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        len(batch.records),
    )
    size = HEADER_SIZE - PREFIX.size + len(payload)
    return resealed(HEAD.pack(batch.base_offset, size, batch.leader_epoch, 2, 0) + body + payload)


def encode_entry(entry: Entry) -> bytes:
    return encode_batch(entry) if isinstance(entry, OracleBatch) else encode_message(entry)


def resealed(data: bytes) -> bytes:
    """A batch with the length and the checksum that its bytes now have: for tests that tamper with one."""
    offset, _, leader_epoch, magic, _ = HEAD.unpack_from(data)
    checksum = fast_crc32c(data[HEAD.size :])
    return HEAD.pack(offset, len(data) - PREFIX.size, leader_epoch, magic, checksum) + data[HEAD.size :]


def decode_header(data: bytes, *, check_crc: bool = True) -> OracleBatch:
    """The batch that `data` consists of, without its records; `count` tells how many it says it has."""
    if len(data) < HEADER_SIZE:
        raise OracleError("size", f"a batch of {len(data)} bytes")
    base_offset, length, leader_epoch, magic, crc = HEAD.unpack_from(data)
    if length != len(data) - PREFIX.size:
        raise OracleError("size", f"{length} bytes announced, {len(data) - PREFIX.size} are there")
    if magic != 2:
        raise OracleError("magic", f"a batch of magic {magic}")
    if check_crc and crc != fast_crc32c(data[HEAD.size :]):
        raise OracleError("crc", f"{crc:#x} is stored, {fast_crc32c(data[HEAD.size :]):#x} computed")
    attributes, last_delta, base_timestamp, max_timestamp, producer_id, producer_epoch, sequence, count = (
        BODY.unpack_from(data, HEAD.size)
    )
    return OracleBatch(
        base_offset=base_offset,
        last_offset=base_offset + last_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        leader_epoch=leader_epoch,
        codec=codec_name(attributes),
        timestamp_type=LOG_APPEND_TIME if attributes & LOG_APPEND_TIME_BIT else CREATE_TIME,
        transactional=bool(attributes & TRANSACTIONAL_BIT),
        control=bool(attributes & CONTROL_BIT),
        delete_horizon=bool(attributes & DELETE_HORIZON_BIT),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        count=count,
        crc=crc,
    )


def decode_batch(data: bytes, *, check_crc: bool = True) -> OracleBatch:
    """The batch that `data` consists of."""
    return _with_records(decode_header(data, check_crc=check_crc), data)


def decode_entry(data: bytes, *, check_crc: bool = True) -> Entry:
    """The batch or message that `data` consists of."""
    if data[MAGIC_AT] == 2:
        return decode_batch(data, check_crc=check_crc)
    return decode_message(data, check_crc=check_crc)


def split_entries(data: bytes) -> Iterator[bytes]:
    """The batches and messages of a `records` field. A last one that is cut off is left out.

    Brokers cut where the answer is full. What is wrong with size or magic is told even of the one cut off.
    """
    start = 0
    while len(data) >= start + PREFIX.size:
        _, size = PREFIX.unpack_from(data, start)
        if size < LEAST_SIZE:
            raise OracleError("size", f"a batch with {size} bytes after the first {PREFIX.size}")
        if len(data) <= start + MAGIC_AT:
            return
        if data[start + MAGIC_AT] > 2:
            raise OracleError("magic", f"{data[start + MAGIC_AT]}")
        end = start + PREFIX.size + size
        if len(data) < end:
            return
        yield data[start:end]
        start = end


def decode_records(
    data: bytes,
    *,
    fetch_offset: int = 0,
    check_crc: bool = True,
    read_committed: bool = False,
    aborted: Iterable[tuple[int, int]] = (),
) -> list[OracleRecord]:
    """What a consumer delivers from the `records` field of a fetch response.

    `aborted` is the list beside it: producer id and first offset of each transaction that was aborted.
    """
    return list(
        iter_records(
            data,
            fetch_offset=fetch_offset,
            check_crc=check_crc,
            read_committed=read_committed,
            aborted=aborted,
        )
    )


def iter_records(
    data: bytes,
    *,
    fetch_offset: int = 0,
    check_crc: bool = True,
    read_committed: bool = False,
    aborted: Iterable[tuple[int, int]] = (),
) -> Iterator[OracleRecord]:
    """The same, batch by batch: what lies in front of an error is delivered before it is raised."""
    transactions = AbortedTransactions(aborted)
    for entry in split_entries(data):
        if entry[MAGIC_AT] < 2:
            delivered = message_records(decode_message(entry, check_crc=check_crc), check_crc=check_crc)
        else:
            header = decode_header(entry, check_crc=check_crc)
            if read_committed and transactions.skips(header, entry):
                continue  # not even decompressed
            batch = _with_records(header, entry)
            delivered = [] if batch.control else batch.delivered
        yield from (record for record in delivered if record.offset >= fetch_offset)


def next_fetch_offset(data: bytes, fetch_offset: int) -> int:
    """Where to fetch next: behind the last whole batch, even if compaction took its last records."""
    for entry in split_entries(data):
        if entry[MAGIC_AT] < 2:
            fetch_offset = decode_message(entry, check_crc=False).offset + 1
        else:
            fetch_offset = decode_header(entry, check_crc=False).last_offset + 1
    return fetch_offset


class AbortedTransactions:
    """Which batches a consumer with read_committed skips (KIP-98).

    The broker lists the aborted transactions by producer and first offset. From its first offset on, all that the
    producer wrote as part of a transaction is skipped, up to its next abort marker.
    """

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._waiting = [(first_offset, producer_id) for producer_id, first_offset in aborted]
        heapq.heapify(self._waiting)
        self._aborting: set[int] = set()

    def skips(self, batch: OracleBatch, data: bytes) -> bool:
        if batch.producer_id < 0:
            return False
        while self._waiting and self._waiting[0][0] <= batch.last_offset:
            self._aborting.add(heapq.heappop(self._waiting)[1])
        if batch.control and _holds_abort_marker(_with_records(batch, data)):
            self._aborting.discard(batch.producer_id)
            return False
        return batch.transactional and batch.producer_id in self._aborting


def _holds_abort_marker(batch: OracleBatch) -> bool:
    return bool(batch.records) and control_type(batch.records[0].key)[1] == ABORT


def _encode_record(batch: OracleBatch, record: OracleRecord) -> bytes:
    body = b"\0"  # attributes, none of which is in use
    body += encode_varint(record.timestamp - batch.base_timestamp)
    body += encode_varint(record.offset - batch.base_offset)
    body += _encode_field(record.key) + _encode_field(record.value)
    body += encode_varint(len(record.headers))
    for name, value in record.headers:
        body += _encode_field(name.encode()) + _encode_field(value)
    return encode_varint(len(body)) + body


def _encode_field(field: bytes | None) -> bytes:
    return encode_varint(-1) if field is None else encode_varint(len(field)) + field


def _with_records(header: OracleBatch, data: bytes) -> OracleBatch:
    if header.count < 0:
        raise OracleError("negative", f"{header.count} records")
    if header.count == 0:
        return header  # whatever follows, Kafka does not look at it
    reader = Reader(decompress(header.codec, data[HEADER_SIZE:]))
    records = []
    for number in range(header.count):
        if not reader.remaining:
            raise OracleError("count", f"{header.count} records announced, {number} are there")
        records.append(_decode_record(header, reader))
    if reader.remaining:
        raise OracleError("count", f"{reader.remaining} bytes behind the last of {header.count} records")
    return dataclasses.replace(header, records=tuple(records))


def _decode_record(batch: OracleBatch, reader: Reader) -> OracleRecord:
    length = reader.varint(32)
    if length < 0:
        raise OracleError("negative", f"a record of {length} bytes")
    body = Reader(reader.take(length))
    body.take(1)  # attributes
    timestamp = _int64(batch.base_timestamp + body.varint(64))
    offset = _int64(batch.base_offset + body.varint(32))
    key, value = body.field(), body.field()
    headers = []
    count = body.varint(32)
    if count < 0:
        raise OracleError("negative", f"{count} headers")
    for _ in range(count):
        name = body.field()
        if name is None:
            raise OracleError("negative", "a header without a name")
        headers.append((name.decode(errors="replace"), body.field()))
    if body.remaining:
        raise OracleError("size", f"{body.remaining} bytes of a record are left over")
    return OracleRecord(offset, timestamp, key, value, tuple(headers))


class Reader:
    """Reads bytes from front to back."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def remaining(self) -> int:
        return len(self._data) - self._at

    def take(self, length: int) -> bytes:
        if length > self.remaining:
            raise OracleError("truncated", f"{length} bytes wanted, {self.remaining} are there")
        self._at += length
        return self._data[self._at - length : self._at]

    def varint(self, bits: int) -> int:
        """A zigzag varint. Bits beyond those of the type are dropped, one byte more than it needs is an error."""
        number = 0
        for shift in range(0, bits, 7):
            (byte,) = self.take(1)
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                number &= (1 << bits) - 1
                return (number >> 1) ^ -(number & 1)
        raise OracleError("varint", f"more than {bits} bits")

    def field(self) -> bytes | None:
        """Bytes behind their length. Kafka takes any negative length for null."""
        length = self.varint(32)
        return None if length < 0 else self.take(length)


def encode_varint(number: int) -> bytes:
    """Zigzag: small numbers of either sign take few bytes, seven bits in each, the lowest first."""
    rest = number << 1 if number >= 0 else ~(number << 1)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def _int64(number: int) -> int:
    """Java's long: it wraps."""
    return (number + 2**63) % 2**64 - 2**63


def fast_crc32c(data: bytes) -> int:
    """The oracle's checksum a byte at a time: its answers for single bytes make the table."""
    register = 0xFFFFFFFF
    for byte in data:
        register = register >> 8 ^ _TABLE[(register ^ byte) & 0xFF]
    return register ^ 0xFFFFFFFF


_TABLE = [crc32c(bytes([byte]), 0xFFFFFFFF) ^ 0xFFFFFFFF for byte in range(256)]
