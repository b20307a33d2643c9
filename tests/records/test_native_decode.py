"""The compiled decoder against everyone else: Kafka's answers, the oracle on random logs, other clients' batches."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from ottla.errors import DecodeError
from tests.native.decoding import as_oracle, decode
from tests.oracle.message_sets import OracleError
from tests.oracle.records import decode_records, next_fetch_offset, resealed
from tests.records.peers import PEERS, Peer
from tests.records.random_records import RandomBatches
from tests.records.vectors import (
    KafkaVector,
    captures,
    invalid_vectors,
    kafka_vectors,
    third_party_batches,
)
from tests.wire.fuzz import MUTATIONS


@pytest.mark.parametrize("vector", kafka_vectors(), ids=lambda vector: str(vector.name))
def test_what_kafka_wrote_is_read_as_it_was_meant(vector: KafkaVector) -> None:
    records = decode(vector.data)
    assert as_oracle(records) == list(vector.records)
    assert records.bytes_read == len(vector.data)


def test_what_other_projects_wrote_is_read_as_it_was_meant() -> None:
    for vector in third_party_batches():
        if vector.crc_ok:
            assert as_oracle(decode(vector.data)) == list(vector.records), vector.name
        else:
            with pytest.raises(DecodeError, match="checksum"):
                decode(vector.data)
            assert as_oracle(decode(vector.data, check_crc=False)) == list(vector.records), vector.name


def test_whole_fetches_that_other_projects_captured_are_read() -> None:
    for capture in captures():
        assert [(r.key, r.value) for r in decode(capture.data)] == list(capture.pairs), capture.name


def test_invalid_batches_of_kafkas_own_tests_are_refused_as_there() -> None:
    for vector in invalid_vectors():
        if vector.corrupt:
            with pytest.raises(DecodeError):
                decode(vector.data)
        else:
            assert len(decode(vector.data)) == 0, vector.name


@pytest.mark.parametrize("seed", range(40))
def test_random_logs_are_read_as_the_oracle_reads_them(seed: int) -> None:
    random = Random(seed)
    log = RandomBatches(random, largest=20_000).log()
    for _ in range(3):
        offset = random.randrange(log.next_offset + 1)
        for aborted in (None, log.aborted):
            records = decode(log.data, offset=offset, aborted=aborted)
            committed = aborted is not None
            assert as_oracle(records) == log.records(fetch_offset=offset, read_committed=committed)
            assert records.next_offset == max(offset, next_fetch_offset(log.data, offset))


@pytest.mark.parametrize("seed", range(8))
def test_damaged_batches_are_refused_where_the_oracle_refuses_them(seed: int) -> None:
    """Both ways: nothing is read from bytes that Kafka would refuse, and nothing refused that it would read."""
    random = Random(seed)
    batches = RandomBatches(random, magics=(2,), codecs=("none",), largest=300)
    agreed = {"read": 0, "refused": 0}
    for _ in range(250):
        data = bytearray(batches.log(1).data)
        random.choice(MUTATIONS)(random, data)
        # Control batches are passed over unread here, and a negative offset is refused at once.
        if len(data) <= 61 or data[16] != 2 or data[22] & 0x20 or data[0] & 0x80:
            continue
        damaged = resealed(bytes(data))
        try:
            expected = decode_records(damaged)
        except OracleError:
            with pytest.raises(DecodeError):
                decode(damaged)
            agreed["refused"] += 1
            continue
        assert as_oracle(decode(damaged)) == expected, damaged.hex()
        agreed["read"] += 1
    assert min(agreed.values()) > 10


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: str(peer.name))
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_other_clients_write_is_read(peer: Peer, codec: str) -> None:
    if not peer.supports(codec):
        pytest.skip(f"{peer.name} has no {codec} here: a library that it wants is not installed")
    random_records = RandomBatches(Random(codec)).records(50)
    written = [replace(record, offset=number).plain for number, record in enumerate(random_records)]
    records = decode(peer.encode(written, codec=codec))
    assert [record.plain for record in as_oracle(records)] == written
