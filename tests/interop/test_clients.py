"""Other people's clients against both brokers: what they write comes back, byte for byte, to any of them."""

from __future__ import annotations

import pytest

from tests.interop.brokers import Broker
from tests.interop.peers import PEERS, Peer, Sent

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
TIME = 1_700_000_000_000
every_peer = pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)


def varied(peer: Peer, count: int) -> list[Sent]:
    """Records with and without keys, values and headers, a second apart."""
    null: list[tuple[str, bytes | None]] = [("null", None)] if peer.writes_null_headers else []
    shapes = [
        Sent(b"plain"),
        Sent(b"keyed", b"key"),
        Sent(None, b"tombstone"),
        Sent(b"", b""),
        Sent(b"headed", None, (("a", b"1"), ("a", b"2"), ("empty", b""), *null, ("äöü", b"\xff"))),
        Sent(b"\x00\xff" * 500, b"k" * 100),
    ]
    return [shapes[n % len(shapes)]._replace(timestamp=TIME + 1000 * n) for n in range(count)]


@pytest.mark.parametrize("codec", CODECS)
@every_peer
def test_what_a_client_wrote_every_client_reads(broker: Broker, peer: Peer, codec: str) -> None:
    topic = broker.create_topic()
    records = varied(peer, 60)
    assert peer.produce(broker.bootstrap, topic, records, codec=codec) == list(range(60))
    for reader in PEERS:
        assert reader.consume(broker.bootstrap, topic, 60) == records, reader.name


@every_peer
def test_partitions_are_kept_apart(broker: Broker, peer: Peer) -> None:
    topic = broker.create_topic(partitions=3)
    for partition in range(3):
        mine = [Sent(b"%d of %d" % (n, partition)) for n in range(10 + partition)]
        peer.produce(broker.bootstrap, topic, mine, partition=partition)
    for partition in range(3):
        wanted = [b"%d of %d" % (n, partition) for n in range(10 + partition)]
        found = peer.consume(broker.bootstrap, topic, len(wanted), partition=partition)
        assert [record.value for record in found] == wanted
        assert peer.range_of(broker.bootstrap, topic, partition) == (0, 10 + partition)


@every_peer
def test_a_consumer_starts_where_it_is_told_to(broker: Broker, peer: Peer) -> None:
    topic = broker.create_topic()
    records = varied(peer, 50)
    peer.produce(broker.bootstrap, topic, records, codec="gzip")
    assert peer.consume(broker.bootstrap, topic, 13, offset=37) == records[37:]


@every_peer
def test_offsets_are_found_by_time(broker: Broker, peer: Peer) -> None:
    topic = broker.create_topic()
    peer.produce(broker.bootstrap, topic, varied(peer, 30))
    assert peer.offset_at(broker.bootstrap, topic, 0) == 0
    assert peer.offset_at(broker.bootstrap, topic, TIME + 7000) == 7
    assert peer.offset_at(broker.bootstrap, topic, TIME + 7001) == 8
    assert peer.offset_at(broker.bootstrap, topic, TIME + 29_001) is None


@every_peer
def test_large_records_pass_whole(broker: Broker, peer: Peer) -> None:
    topic = broker.create_topic()
    large = [Sent(bytes([n]) * 900_000) for n in range(5)]
    peer.produce(broker.bootstrap, topic, large)
    assert peer.consume(broker.bootstrap, topic, 5) == large


@every_peer
def test_append_time_replaces_the_clients_time(broker: Broker, peer: Peer) -> None:
    topic = broker.create_topic(config={"message.timestamp.type": "LogAppendTime"})
    peer.produce(broker.bootstrap, topic, varied(peer, 3))
    assert all(record.timestamp > TIME + 10_000 for record in peer.consume(broker.bootstrap, topic, 3))


@every_peer
def test_many_records_come_back_in_order(broker: Broker, peer: Peer) -> None:
    topic = broker.create_topic()
    outcome = peer.stream(broker.bootstrap, topic, 1, lambda number: number < 5000)
    assert outcome == (5000, [])
    found = peer.consume(broker.bootstrap, topic, 5000)
    assert [record.value for record in found] == [b"%d" % number for number in range(5000)]
