"""Known answers about records: bytes, what they were made from, and what a consumer gets from them.

`kafka_vectors` were written by Kafka's own classes and are in the tree (tools/make_record_vectors.py). The others
come from the tests of other projects, stay outside of it, and skip the calling test where they are missing.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ottla.wire.message import message_class
from tests.facts import Vector, third_party_vectors
from tests.oracle.message_sets import NO_TIMESTAMP, NO_TIMESTAMP_TYPE, wrap
from tests.oracle.records import (
    ABORT,
    COMMIT,
    CREATE_TIME,
    LOG_APPEND_TIME,
    Entry,
    OracleBatch,
    OracleMessage,
    OracleRecord,
    build_batch,
    end_marker,
)

KAFKA = Path(__file__).with_name("kafka_batches.jsonl")


@dataclass(frozen=True)
class BatchFacts:
    """What Kafka tells about a batch, or about a message in front of batches."""

    magic: int
    codec: str
    base_offset: int
    last_offset: int
    max_timestamp: int
    size: int
    crc: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    transactional: bool
    control: bool


@dataclass(frozen=True)
class KafkaVector:
    """What Kafka was asked to write (`entries`), what it wrote, and what a consumer of that gets."""

    name: str
    data: bytes
    entries: tuple[Entry, ...]
    records: tuple[OracleRecord, ...]
    facts: tuple[BatchFacts, ...]  # none for control batches and batches without records

    @property
    def exact(self) -> bool:
        """Whether every writer has to write these very bytes; those of a codec depend on its library."""
        return all(entry.codec == "none" for entry in self.entries)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class ThirdPartyVector:
    """Bytes from another project's tests. `entries` are as in the facts: magic, offsets, crc, records or inner."""

    name: str
    data: bytes
    crc_ok: bool
    entries: tuple[Vector, ...]
    records: tuple[OracleRecord, ...]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Capture:
    """The `records` field of a fetch response that a broker sent, and the keys and values in it."""

    name: str
    data: bytes
    pairs: tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True)
class InvalidVector:
    """Bytes that Kafka refuses as corrupt, or in which it sees no whole batch."""

    name: str
    data: bytes
    corrupt: bool


@cache
def kafka_vectors() -> tuple[KafkaVector, ...]:
    return tuple(_kafka_vector(json.loads(line)) for line in KAFKA.read_text().splitlines())


def third_party_batches() -> tuple[ThirdPartyVector, ...]:
    """Every magic and codec, as sarama, kafkajs, kafka-python and kafka-protocol-rs have them."""
    return tuple(
        _third_party_vector(vector)
        for vector in third_party_vectors("record-batch-thirdparty")
        if "hex" in vector["input"]
    )


def checksum_vectors() -> tuple[tuple[str, OracleBatch, int], ...]:
    """Name, batch and its checksum: what aiokafka's tests say of batches whose bytes they do not show."""
    return tuple(
        (vector["id"], _aiokafka_batch(vector["input"]), vector["expected"]["crc"])
        for vector in third_party_vectors("record-batch-thirdparty")
        if "hex" not in vector["input"]
    )


def captures() -> tuple[Capture, ...]:
    """Fetch responses in which a broker mixed messages and batches, compressed and not."""
    return tuple(_capture(vector) for vector in third_party_vectors("fetch-response-capture"))


def invalid_vectors() -> tuple[InvalidVector, ...]:
    return tuple(
        InvalidVector(v["id"], bytes.fromhex(v["input"]["hex"]), v["expected"]["error"] is not None)
        for v in third_party_vectors("record-batch-invalid")
    )


def _kafka_vector(raw: Vector) -> KafkaVector:
    given, expected = raw["input"], raw["expected"]
    data = bytes.fromhex(expected["hex"])
    if "records" in given:
        entries = (_batch(given),) if given["magic"] == 2 else _messages(given)
        records = _delivered(given)
    else:
        entries, records = (_batch_without_records(given),), ()
    return KafkaVector(raw["id"], data, entries, records, tuple(map(_facts, expected["batches"] or ())))


def _batch(given: Vector) -> OracleBatch:
    base = given["baseOffset"]
    records = [
        OracleRecord(base + i, r["timestamp"], _bytes(r["key"]), _bytes(r["value"]), _headers(r["headers"]))
        for i, r in enumerate(given["records"])
    ]
    append_time = given.get("logAppendTime")
    return build_batch(
        records,
        max_timestamp=append_time,
        leader_epoch=given.get("partitionLeaderEpoch", -1),
        codec=given["codec"],
        timestamp_type=CREATE_TIME if append_time is None else LOG_APPEND_TIME,
        transactional=given.get("transactional", False),
        producer_id=given.get("producerId", -1),
        producer_epoch=given.get("producerEpoch", -1),
        base_sequence=given.get("baseSequence", -1),
    )


def _messages(given: Vector) -> tuple[OracleMessage, ...]:
    append_time = given.get("logAppendTime")
    messages = tuple(
        OracleMessage(
            given["magic"],
            given["baseOffset"] + i,
            r["timestamp"] if append_time is None else append_time,
            _bytes(r["key"]),
            _bytes(r["value"]),
            timestamp_type=CREATE_TIME if append_time is None else LOG_APPEND_TIME,
        )
        for i, r in enumerate(given["records"])
    )
    return messages if given["codec"] == "none" else (wrap(messages, given["codec"], magic=given["magic"]),)


def _batch_without_records(given: Vector) -> OracleBatch:
    """Control batches, and the header that compaction leaves of a batch when its last record goes."""
    if given.get("type") == "LEADER_CHANGE":
        # The value is a message of its own (version 0, leader 1, voters 1 and 2, voter 1 granting) and not asked for.
        value = bytes.fromhex("0000 00000001 03 00000001 00 00000002 00 02 00000001 00 00")
        record = OracleRecord(given["baseOffset"], given["timestamp"], struct.pack(">hh", 0, 2), value)
        return build_batch([record], leader_epoch=given["leaderEpoch"], control=True)
    if "type" in given:
        return end_marker(
            {"ABORT": ABORT, "COMMIT": COMMIT}[given["type"]],
            offset=given["baseOffset"],
            timestamp=given["timestamp"],
            producer_id=given["producerId"],
            producer_epoch=given["producerEpoch"],
            coordinator_epoch=given["coordinatorEpoch"],
            leader_epoch=given["partitionLeaderEpoch"],
        )
    return OracleBatch(
        base_offset=given["baseOffset"],
        last_offset=given["lastOffset"],
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=given["timestamp"],
        leader_epoch=given["partitionLeaderEpoch"],
        transactional=given["transactional"],
        producer_id=given["producerId"],
        producer_epoch=given["producerEpoch"],
        base_sequence=given["baseSequence"],
    )


def _delivered(given: Vector) -> tuple[OracleRecord, ...]:
    append_time = given.get("logAppendTime")
    if given["magic"] == 0:
        kind = NO_TIMESTAMP_TYPE
    else:
        kind = CREATE_TIME if append_time is None else LOG_APPEND_TIME
    return tuple(
        OracleRecord(
            given["baseOffset"] + i,
            r["timestamp"] if append_time is None else append_time,
            _bytes(r["key"]),
            _bytes(r["value"]),
            _headers(r["headers"]),
            kind,
            given.get("partitionLeaderEpoch", -1),
        )
        for i, r in enumerate(given["records"])
    )


def _facts(raw: Vector) -> BatchFacts:
    return BatchFacts(
        magic=raw["magic"],
        codec=raw["codec"],
        base_offset=raw["baseOffset"],
        last_offset=raw["lastOffset"],
        max_timestamp=raw["maxTimestamp"],
        size=raw["sizeInBytes"],
        crc=raw["crc"],
        producer_id=raw["producerId"],
        producer_epoch=raw["producerEpoch"],
        base_sequence=raw["baseSequence"],
        last_sequence=raw["lastSequence"],
        transactional=raw["isTransactional"],
        control=raw["isControl"],
    )


def _third_party_vector(raw: Vector) -> ThirdPartyVector:
    entries = raw["expected"]
    return ThirdPartyVector(
        raw["id"],
        bytes.fromhex(raw["input"]["hex"]),
        all(entry["crcOk"] for entry in entries),
        tuple(entries),
        tuple(record for entry in entries for record in _third_party_records(entry)),
    )


def _third_party_records(entry: Vector) -> list[OracleRecord]:
    if entry["magic"] == 2:
        if entry["attributes"] & 0b10_0000:
            return []  # a control batch
        kind = LOG_APPEND_TIME if entry["attributes"] & 0b1000 else CREATE_TIME
        return [
            OracleRecord(
                r["offset"],
                r["timestamp"],
                _bytes(r["key"]),
                _bytes(r["value"]),
                _headers(r["headers"]),
                kind,
                entry["partitionLeaderEpoch"],
            )
            for r in entry["records"]
        ]
    # All wrappers in there have offset 0 or magic 0, so that the offsets inside stand as they are. The facts also
    # give an `absoluteOffset`, which leaves out Kafka's rule for a wrapper at 0; it is not used.
    return [
        OracleRecord(
            message["offset"],
            NO_TIMESTAMP if message["timestamp"] is None else message["timestamp"],
            _bytes(message["key"]),
            _bytes(message["value"]),
            (),
            NO_TIMESTAMP_TYPE if message["magic"] == 0 else CREATE_TIME,
        )
        for message in entry.get("inner", [entry])
    ]


def _aiokafka_batch(given: Vector) -> OracleBatch:
    """The facts describe the records in words: ten alike, a millisecond apart."""
    headers = (("header1", b"aaa"), ("header2", b"bbb"))
    return build_batch(
        [OracleRecord(i, 9_999_999 + i, b"test", b"Super", headers) for i in range(10)],
        codec=given["codec"],
        transactional=given["transactional"],
        producer_id=given["producerId"],
        producer_epoch=given["producerEpoch"],
        base_sequence=given["baseSequence"],
    )


def _capture(raw: Vector) -> Capture:
    framed = bytes.fromhex(raw["input"]["framedHex"])
    response: Any = message_class("FetchResponse").decode(framed[8:], raw["input"]["version"])
    (partition,) = response.responses[0].partitions
    pairs = tuple((key.encode(), value.encode()) for key, value in raw["expected"]["recordsKeyValue"])
    return Capture(raw["id"], bytes(partition.records), pairs)


def _bytes(hex_: str | None) -> bytes | None:
    return None if hex_ is None else bytes.fromhex(hex_)


def _headers(raw: list[tuple[str, str | None]]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((name, _bytes(value)) for name, value in raw)
