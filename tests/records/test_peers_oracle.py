"""The oracle and the codecs of two other clients read each other's batches, for every codec that they have here."""

from __future__ import annotations

from random import Random

import pytest

from tests.oracle.message_sets import MAGIC_AT
from tests.oracle.records import (
    CODECS,
    OracleBatch,
    OracleRecord,
    build_batch,
    decode_batch,
    decode_records,
    encode_batch,
)
from tests.records.peers import PEERS, Peer, PeerBatch, ProducerState
from tests.records.random_records import RandomBatches, RandomLog

ROUNDS = 10

peers = pytest.mark.parametrize("peer", PEERS, ids=str)
PRODUCER = ProducerState(producer_id=2**40, producer_epoch=7, base_sequence=99, transactional=True)


def each_codec(*magics: int) -> pytest.MarkDecorator:
    """Every peer with every codec that it has here."""
    triples = [
        (p, codec, magic) for p in PEERS for magic in magics for codec in CODECS if p.supports(codec, magic)
    ]
    return pytest.mark.parametrize(("peer", "codec", "magic"), triples, ids=str)


def test_every_codec_is_covered_by_some_peer() -> None:
    assert {codec for peer in PEERS for codec in peer.codecs} == set(CODECS)


@each_codec(2)
def test_a_peer_reads_what_the_oracle_wrote(peer: Peer, codec: str, magic: int) -> None:
    for seed in range(ROUNDS):
        batch = RandomBatches(Random(seed), codecs=[codec]).batch(
            base_offset=seed * 1000, producer_id=seed, transactional=bool(seed % 2)
        )
        data = encode_batch(batch)
        assert data[MAGIC_AT] == magic
        assert peer.decode_batches(data) == [told(batch)]


@each_codec(2)
def test_the_oracle_reads_what_a_peer_wrote(peer: Peer, codec: str, magic: int) -> None:
    for seed in range(ROUNDS):
        records = [OracleRecord(0, 1, value=bytes(1000)), *RandomBatches(Random(seed)).records(20)[1:]]
        data = peer.encode([r.plain for r in records], codec=codec, magic=magic, producer=PRODUCER)
        batch = decode_batch(data)
        assert [record.plain for record in batch.records] == [record.plain for record in records]
        assert told(batch).producer == PRODUCER
        assert batch.codec == codec


@peers
def test_without_compression_both_write_the_same_bytes(peer: Peer) -> None:
    for seed in range(ROUNDS):
        records = RandomBatches(Random(seed)).records(20)
        data = peer.encode([record.plain for record in records], producer=PRODUCER)
        batch = build_batch(
            records,
            leader_epoch=decode_batch(data).leader_epoch,  # a producer may write anything there
            transactional=PRODUCER.transactional,
            producer_id=PRODUCER.producer_id,
            producer_epoch=PRODUCER.producer_epoch,
            base_sequence=PRODUCER.base_sequence,
        )
        assert encode_batch(batch) == data


@each_codec(0, 1)
def test_messages_of_old_are_read_in_both_directions(peer: Peer, codec: str, magic: int) -> None:
    for seed in range(ROUNDS):
        random = RandomBatches(Random(seed), codecs=[codec])
        log = RandomLog(tuple(random.messages(seed * 1000, magic=magic)))
        assert peer.decode(log.data) == [record.plain for record in log.records()]
        records = [(r.offset, r.timestamp if magic else -1, r.key, r.value, ()) for r in random.records(20)]
        data = peer.encode(records, codec=codec, magic=magic)
        assert [record.plain for record in decode_records(data)] == records


@peers
def test_a_whole_log_is_read_alike(peer: Peer) -> None:
    magics = [0, 1, 2] if peer.mixes_formats else [2]
    for seed in range(ROUNDS):
        log = RandomBatches(Random(seed), magics=magics, codecs=["none", "gzip"], largest=1000).log(30)
        assert peer.decode(log.data) == [record.plain for record in log.records()]


def told(batch: OracleBatch) -> PeerBatch:
    return PeerBatch(
        tuple(record.plain for record in batch.delivered),
        batch.base_offset,
        batch.last_offset + 1,
        batch.control,
        ProducerState(batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.transactional),
    )
