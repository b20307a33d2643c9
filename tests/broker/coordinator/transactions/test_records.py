"""The records of transactions: Apache Kafka's bytes, in both directions.

kafka_records.jsonl is what a node of Apache Kafka 4.3.1 had in __transaction_state after producers of EndTxn versions
4 and 5 had committed, aborted, been fenced, timed out and begun again.
"""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from ottla.broker.coordinator.transactions import records
from ottla.broker.coordinator.transactions.records import decode, encode
from ottla.broker.coordinator.transactions.state import TransactionalIdState, TransactionalIdStatus
from ottla.errors import DecodeError

RECORDED = [
    json.loads(line) for line in Path(__file__).with_name("kafka_records.jsonl").read_text().splitlines()
]
ENDED = TransactionalIdState(
    producer_id=7,
    epoch=32767,
    previous_producer_id=6,
    next_producer_id=8,
    timeout_ms=60_000,
    status=TransactionalIdStatus.PREPARE_COMMIT,
    partitions=(("orders", 1), ("orders", 0), ("payments", 3)),
    started_ms=1_000,
    updated_ms=2_000,
    client_version=2,
)


def test_what_kafka_wrote_is_read_and_written_again_byte_for_byte() -> None:
    statuses = set()
    for line in RECORDED:
        key, value = bytes.fromhex(line["key"]), bytes.fromhex(line["value"])
        decoded = decode(key, value)
        assert decoded is not None
        transactional_id, state = decoded
        assert state is not None
        statuses.add(state.status)
        again = encode(transactional_id, state, transaction_version=2)
        assert (again.key, again.value) == (key, value), transactional_id
    assert len(statuses) == 6


@pytest.mark.parametrize("version", [1, 2])
def test_a_state_is_read_as_it_was_written(version: int) -> None:
    written = encode("me", ENDED, transaction_version=version)
    assert written.value is not None
    assert written.value[:2] == b"\0\1"
    assert decode(written.key, written.value) == ("me", ENDED)


def test_the_old_version_has_no_other_producer_ids() -> None:
    written = encode("me", ENDED, transaction_version=0)
    assert written.value is not None
    assert written.value[:2] == b"\0\0"
    less = replace(ENDED, previous_producer_id=-1, next_producer_id=-1, client_version=0)
    assert decode(written.key, written.value) == ("me", less)


def test_the_last_epoch_is_not_written() -> None:
    written = encode("me", replace(ENDED, last_epoch=9), transaction_version=2)
    assert decode(written.key, written.value) == ("me", ENDED)


def test_an_empty_id_has_no_partitions_and_a_complete_one_has_none() -> None:
    empty = encode("me", replace(ENDED, status=TransactionalIdStatus.EMPTY), transaction_version=0)
    complete = replace(ENDED, status=TransactionalIdStatus.COMPLETE_COMMIT, partitions=())
    assert b"\xff\xff\xff\xff" + (2_000).to_bytes(8, "big") in (empty.value or b"")
    assert b"\0\0\0\0" + (2_000).to_bytes(8, "big") in (
        encode("me", complete, transaction_version=0).value or b""
    )


def test_a_tombstone() -> None:
    written = encode("me", None, transaction_version=2)
    assert written.value is None
    assert decode(written.key, None) == ("me", None)


def test_a_key_of_another_type_is_skipped() -> None:
    assert decode(b"\0\1\0\2me", b"anything") is None


@pytest.mark.parametrize("status", [6, 7, 8, -1])
def test_a_status_that_is_never_written_is_an_error(status: int) -> None:
    written = encode("me", ENDED, transaction_version=2)
    assert written.value is not None
    at = 2 + 8 + 2 + 4
    damaged = written.value[:at] + status.to_bytes(1, "big", signed=True) + written.value[at + 1 :]
    with pytest.raises(DecodeError, match=f"unknown status {status}"):
        decode(written.key, damaged)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (b"\0", b"", "a key of 1 bytes"),
        (b"\0\0\0\2me", b"\0", "a value of 1"),
        (b"\0\0\0\2me", b"\0\2", "version 2"),
    ],
)
def test_what_cannot_be_read_is_an_error(key: bytes, value: bytes, text: str) -> None:
    with pytest.raises(DecodeError, match=text):
        decode(key, value)


def test_the_classes_have_the_fields_of_the_schema() -> None:
    for name in ("TransactionLogKey", "TransactionLogValue"):
        schema = records._schema(name)
        for struct in (schema.body, *schema.structs.values()):
            declared = {each.name for each in fields(records._CLASSES[struct.name])}
            assert declared == {each.attribute for each in struct.fields} | {"unknown_tagged_fields"}
