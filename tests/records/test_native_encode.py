"""What the compiled encoder writes, read by everyone else: the oracle and other clients, in every codec."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest

from ottla.wire.batches import ControlType, batch_headers, control_type
from ottla.wire.compression import Compression
from ottla.wire.records import Accumulator, EncodedBatch, decode_fetch, encode_columns, seal
from tests.facts import third_party_vectors
from tests.oracle.message_sets import OracleRecord
from tests.oracle.records import decode_batch
from tests.records.peers import PEERS, Peer
from tests.records.random_records import RandomBatches

CODECS = list(Compression)
BATCH_SIZE = 30_000


def as_text(codec: Compression) -> str:
    return codec.name.lower()


def random_records(seed: str, count: int = 300) -> list[OracleRecord]:
    """As a producer may send them: none is from before 1970."""
    records = RandomBatches(Random(seed), largest=2_000).records(count)
    return [replace(record, timestamp=max(record.timestamp, 0)) for record in records]


def accumulated(records: list[OracleRecord]) -> list[EncodedBatch]:
    accumulator = Accumulator(batch_size=BATCH_SIZE, max_bytes=1 << 26)
    for record in records:
        accumulator.append("orders", 0, record.key, record.value, list(record.headers), record.timestamp)
    return accumulator.drain("orders", 0, force=True)


def from_columns(records: list[OracleRecord]) -> list[EncodedBatch]:
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    columns = {
        "key": pa.array([record.key for record in records], pa.binary()),
        "value": pa.array([record.value for record in records], pa.large_binary()),
        "headers": pa.array([[{"key": k, "value": v} for k, v in r.headers] for r in records], headers),
        "timestamp": pa.array([record.timestamp for record in records], pa.int64()),
        "partition": pa.array([0] * len(records), pa.int32()),
    }
    return encode_columns(columns, partitions=1, batch_size=BATCH_SIZE, now=0)


WAYS = [accumulated, from_columns]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("codec", CODECS, ids=as_text)
def test_the_oracle_reads_what_was_written(way: type, codec: Compression) -> None:
    written = random_records(as_text(codec))
    found: list[OracleRecord] = []
    for number, batch in enumerate(way(written)):
        batch.set_producer(77, 3, number * 1000, transactional=True)
        seal(batch, codec)
        read = decode_batch(bytes(batch))
        assert (read.codec, read.producer_id, read.producer_epoch) == (as_text(codec), 77, 3)
        assert (read.base_sequence, read.transactional, read.count) == (number * 1000, True, batch.count)
        assert batch.raw_size <= BATCH_SIZE or batch.count == 1
        found += read.records
    assert [r.plain[1:] for r in found] == [r.plain[1:] for r in written]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: str(peer.name))
@pytest.mark.parametrize("codec", CODECS, ids=as_text)
def test_other_clients_read_what_was_written(way: type, peer: Peer, codec: Compression) -> None:
    if not peer.supports(as_text(codec)):
        pytest.skip(f"{peer.name} has no {as_text(codec)} here: a library that it wants is not installed")
    written = random_records(peer.name)
    found = [record for batch in way(written) for record in peer.decode(bytes(seal(batch, codec)))]
    assert [record[1:] for record in found] == [record.plain[1:] for record in written]


@pytest.mark.parametrize("codec", CODECS, ids=as_text)
def test_what_was_written_is_read_here(codec: Compression) -> None:
    written = random_records("ourselves")
    field = b"".join(bytes(seal(batch, codec)) for batch in accumulated(written))
    records = decode_fetch(field, "orders", 0)
    assert [(r.key, r.value, tuple(r.headers)) for r in records] == [r.plain[2:] for r in written]


def test_a_batch_can_be_sealed_again_for_a_retry() -> None:
    (batch,) = accumulated(random_records("retry", 20))
    batch.set_producer(1, 0, 0)
    first = bytes(seal(batch, Compression.LZ4))
    batch.set_producer(2, 1, 500)
    second = bytes(seal(batch, Compression.LZ4))
    assert first != second
    (header,) = batch_headers(second)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2, 1, 500)
    assert decode_batch(first).records == decode_batch(second).records


def test_sealing_and_decoding_run_on_an_executor() -> None:
    """Where the work is large it releases the GIL, so that an executor is of use."""
    written = random_records("executor", 2000)
    batches = accumulated(written)
    with ThreadPoolExecutor(4) as executor:
        sealed = executor.map(lambda batch: bytes(seal(batch, Compression.ZSTD)), batches)
        fetched = executor.map(lambda field: decode_fetch(field, "orders", 0), sealed)
        values = [record.value for records in fetched for record in records]
    assert values == [record.value for record in written]


@pytest.mark.parametrize(
    ("codec", "level"), [(Compression.SNAPPY, 1), (Compression.GZIP, 10), (Compression.NONE, 1)]
)
def test_a_level_that_the_codec_lacks_is_named(codec: Compression, level: int) -> None:
    (batch,) = accumulated(random_records("level", 3))
    with pytest.raises(ValueError, match=f"{as_text(codec)} has"):
        seal(batch, codec, level)


def test_levels_change_the_size() -> None:
    written = [OracleRecord(n, 0, None, b"%d" % (n * n)) for n in range(2000)]
    first, second = (seal(accumulated(written)[0], Compression.ZSTD, level) for level in (1, 19))
    assert len(second) < len(first)
    # A batch that is sealed again, for a retry, is not compressed again.
    assert len(seal(first, Compression.ZSTD, 19)) == len(first)


def test_control_records_of_other_projects_are_understood() -> None:
    names = {**{kind.name: int(kind) for kind in ControlType}, "UNKNOWN": 128}
    keys = [v for v in third_party_vectors("control-record") if "keyHex" in v["input"]]
    for vector in keys:
        expected = vector["expected"]["type"]
        assert control_type(bytes.fromhex(vector["input"]["keyHex"])) == names.get(expected, expected), vector
    assert len(keys) > 4
