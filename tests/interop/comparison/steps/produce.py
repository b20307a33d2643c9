"""Produce: what is appended, what is refused, and what a refused batch is told."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.wire import ZERO_UUID, Message
from ottla.wire.compression import Compression
from ottla.wire.messages import ProduceRequest
from tests.interop.comparison.damage import (
    counted_wrongly,
    cut_short,
    of_magic_0,
    of_magic_1,
    with_a_flipped_bit,
    with_attributes,
    with_magic,
)
from tests.interop.comparison.requests import (
    TIME,
    UNKNOWN_ID,
    batch,
    fetch,
    given,
    produce,
)
from tests.interop.comparison.script import Build, Step, ask, section
from tests.interop.comparison.world import World

TOPIC, OTHER, STRICT = "produce-a", "produce-b", "produce-c"
ONE = batch(b"one")
LARGE = batch(b"x" * 2000)


def several(*parts: tuple[str, Mapping[int, bytes]]) -> Build:
    """Several topics in one request, each with batches for its partitions."""

    def build(world: World) -> Message:
        topics = [
            ProduceRequest.TopicProduceData(
                name=topic,
                topic_id=world.topic_id(topic),
                partition_data=[
                    ProduceRequest.PartitionProduceData(index=index, records=records)
                    for index, records in batches.items()
                ],
            )
            for topic, batches in parts
        ]
        return ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics)

    return build


def refused(label: str, records: bytes | None, *versions: int) -> list[Step]:
    return ask(label, produce(STRICT, records), *(versions or (3, 13)))


APPENDED = section(
    "produce",
    given(TOPIC, OTHER, partitions=2),
    ask("one record", produce(TOPIC, ONE), *range(3, 14)),
    ask("acknowledged by the leader", produce(TOPIC, ONE, acks=1), 3, 13),
    ask("not acknowledged", produce(TOPIC, ONE, acks=0), 3, 9, 13, answered=False),
    ask("acknowledged by two", produce(TOPIC, ONE, acks=2), 3, 13),
    ask("acknowledged by minus two", produce(TOPIC, ONE, acks=-2), 9),
    ask("three records", produce(TOPIC, batch(b"a", None, b"")), 9),
    ask("a batch that says its offset", produce(TOPIC, batch(b"a", base_offset=0, leader_epoch=7)), 9),
    *(
        ask(codec.name.lower(), produce(OTHER, batch(b"c" * 100, codec=codec)), 7, 13)
        for codec in Compression
    ),
    ask("zstd from an old client", produce(OTHER, batch(b"c" * 100, codec=Compression.ZSTD)), 3, 6),
    ask("two partitions", several((TOPIC, {0: ONE, 1: ONE})), 9, 13),
    ask("one topic named twice", several((TOPIC, {0: ONE}), (TOPIC, {1: ONE})), 9, 13),
    ask("two topics", several((TOPIC, {0: ONE}), (OTHER, {0: ONE})), 9, 13),
    ask("a good and a bad one", several((TOPIC, {0: ONE}), (OTHER, {0: with_a_flipped_bit(ONE)})), 9, 13),
    ask("no topics", several(), 3, 13),
    ask("what was appended", fetch(TOPIC), 12),
    ask("what was compressed", fetch(OTHER), 12),
)

REFUSED = section(
    "produce refused",
    given(STRICT),
    ask("unknown topic", produce("produce-none", ONE), 3, 9, 12),
    ask("unknown topic, not acknowledged", produce("produce-none", ONE, acks=0), 9, answered=True),
    ask("unknown partition", produce(STRICT, ONE, partition=7), 3, 9, 13),
    ask("negative partition", produce(STRICT, ONE, partition=-1), 9),
    ask("unknown topic id", produce("", ONE, topic_id=UNKNOWN_ID), 13),
    ask("zero topic id", produce("", ONE, topic_id=ZERO_UUID), 13),
    ask("empty topic name", produce("", ONE), 9),
    ask("no records", produce(STRICT, None), 9, within=1.0),
    refused("empty records", b""),
    refused("a flipped bit", with_a_flipped_bit(ONE), 3, 8, 13),
    refused("cut short", cut_short(ONE)),
    refused("less than a header", ONE[:30]),
    refused("bytes after the batch", ONE + b"\0" * 5),
    refused("two batches", ONE + ONE),
    refused("magic 0", of_magic_0(b"old")),
    refused("magic 1", of_magic_1(b"old")),
    refused("magic 3", with_magic(ONE, 3)),
    refused("no records in the batch", batch(base_offset=0, last_offset=0)),
    refused("a count too high", counted_wrongly(ONE, 2)),
    refused("a count of zero", counted_wrongly(ONE, 0)),
    refused("offsets with gaps", batch(b"a", b"b", last_offset=5)),
    refused("unknown codec", with_attributes(ONE, 5)),
    refused("not what its codec says", with_attributes(ONE, int(Compression.GZIP))),
    refused("a control batch", batch(b"a", control=True)),
    refused("a transactional batch without a producer", batch(b"a", transactional=True)),
    refused("unknown attributes", with_attributes(ONE, 0x80), 9),
    refused("append time from a producer", batch(b"a", append_time=TIME), 9),
    refused("a timestamp of minus one", batch(b"a", time=-1), 9),
    refused("a negative timestamp", batch(b"a", time=-5), 9),
    refused("a timestamp in the far future", batch(b"a", time=9 * TIME), 3, 9, 13),
    ask(
        "a transactional id without a transaction",
        produce(STRICT, batch(b"a"), transactional_id="produce-txn"),
        9,
    ),
    ask("what was appended all the same", fetch(STRICT), 12),
)

CONFIGURED = section(
    "produce configured",
    given("produce-small", config={"max.message.bytes": "1000"}),
    ask("too large", produce("produce-small", LARGE), 3, 8, 13),
    ask("too large until compressed", produce("produce-small", batch(b"x" * 2000, codec=1)), 9),
    given("produce-compact", config={"cleanup.policy": "compact"}),
    ask("compacted without a key", produce("produce-compact", ONE), 3, 8, 13),
    ask("compacted with a key", produce("produce-compact", batch(b"v", key=b"k")), 9),
    given("produce-append-time", config={"message.timestamp.type": "LogAppendTime"}),
    ask("append time", produce("produce-append-time", batch(b"a", b"b")), 3, 9, 13),
    ask("append time compressed", produce("produce-append-time", batch(b"a", b"b", codec=2)), 9),
    ask("append time read", fetch("produce-append-time"), 12),
    given("produce-before", config={"message.timestamp.before.max.ms": "1000"}),
    ask("too old", produce("produce-before", batch(b"a", b"b")), 3, 8, 13),
    given("produce-gzip", config={"compression.type": "gzip"}),
    ask("compressed by the broker", produce("produce-gzip", ONE), 9),
    ask("compressed again by the broker", produce("produce-gzip", batch(b"a", codec=2)), 9),
    given("produce-plain", config={"compression.type": "uncompressed"}),
    ask("uncompressed by the broker", produce("produce-plain", batch(b"a", codec=4)), 9),
    ask("compressed by the broker, read", fetch("produce-gzip"), 12),
    ask("uncompressed by the broker, read", fetch("produce-plain"), 12),
    given("produce-in-sync", config={"min.insync.replicas": "2"}),
    ask("too few in sync", produce("produce-in-sync", ONE), 3, 9, 13),
    ask("too few in sync, acknowledged by the leader", produce("produce-in-sync", ONE, acks=1), 9),
)
