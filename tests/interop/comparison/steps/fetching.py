"""Fetch without sessions: offsets, limits, isolation, leader epochs, topic ids."""

from __future__ import annotations

from ottla.wire import ZERO_UUID, Message
from ottla.wire.compression import Compression
from ottla.wire.messages import FetchRequest
from tests.interop.comparison.requests import UNKNOWN_ID, batch, fetch, given, produce
from tests.interop.comparison.script import Build, ask, section
from tests.interop.comparison.world import World

TOPIC, OTHER, ZSTD = "fetch-a", "fetch-b", "fetch-zstd"
TEN = [b"%d" % number * 100 for number in range(10)]


def as_replica(replica_id: int, epoch: int = -1) -> Build:
    """What a follower asks."""

    def build(world: World) -> Message:
        wanted = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1 << 20)
        topic = FetchRequest.FetchTopic(topic=TOPIC, topic_id=world.topic_id(TOPIC), partitions=[wanted])
        state = FetchRequest.ReplicaState(replica_id=replica_id, replica_epoch=epoch)
        return FetchRequest(
            replica_id=replica_id if epoch < 0 else -1,
            replica_state=state if epoch >= 0 else FetchRequest.ReplicaState(),
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[topic],
        )

    return build


def of_topics(*topics: str, max_bytes: int = 1 << 20) -> Build:
    """Several topics in one request, one partition each."""

    def build(world: World) -> Message:
        wanted = [
            FetchRequest.FetchTopic(
                topic=topic,
                topic_id=world.topic_id(topic),
                partitions=[FetchRequest.FetchPartition(partition=0, partition_max_bytes=1 << 20)],
            )
            for topic in topics
        ]
        return FetchRequest(
            min_bytes=1, max_wait_ms=100, max_bytes=max_bytes, session_epoch=-1, topics=wanted
        )

    return build


SECTION = section(
    "fetch",
    given(TOPIC, OTHER, ZSTD, partitions=2),
    ask("given three records in partition 0", produce(TOPIC, batch(b"a", b"b", b"c")), 9),
    ask("given ten records in ten batches, the first", produce(OTHER, batch(TEN[0])), 9),
    *(ask(f"given batch {number}", produce(OTHER, batch(TEN[number])), 9) for number in range(1, 10)),
    ask("given a compressed batch", produce(ZSTD, batch(b"a", b"b", codec=Compression.ZSTD)), 9),
    ask("from the start", fetch(TOPIC), *range(4, 19)),
    ask("from within the batch", fetch(TOPIC, 2), 4, 12, 18),
    ask("from the end", fetch(TOPIC, 3, max_wait_ms=10), 4, 12, 18),
    ask("from after the end", fetch(TOPIC, 4), 4, 12, 18),
    ask("from before the start", fetch(TOPIC, -1), 4, 18),
    ask("from far before the start", fetch(TOPIC, -2), 18),
    ask("an empty partition", fetch(TOPIC, partitions=[1], max_wait_ms=10), 4, 12, 18),
    ask("both partitions", fetch(TOPIC, partitions=[0, 1]), 12, 18),
    ask("one partition twice", fetch(TOPIC, partitions=[0, 0]), 12, 18),
    ask("an unknown partition", fetch(TOPIC, partitions=[9]), 4, 12, 18),
    ask("a negative partition", fetch(TOPIC, partitions=[-1]), 12),
    ask("a known and an unknown partition", fetch(TOPIC, partitions=[0, 9]), 12, 18),
    ask("an unknown topic", fetch("fetch-none"), 4, 12),
    ask("an empty topic name", fetch(""), 12),
    ask("an unknown topic id", fetch("", topic_id=UNKNOWN_ID), 13, 18),
    ask("the zero topic id", fetch("", topic_id=ZERO_UUID), 13, 18),
    ask("two topics", of_topics(TOPIC, OTHER), 12, 18),
    ask("no topics", of_topics(), 4, 12, 18),
    ask("one byte of a partition", fetch(OTHER, partition_max_bytes=1), 4, 18),
    ask("no bytes of a partition", fetch(OTHER, partition_max_bytes=0), 12),
    ask("one batch and a half", fetch(OTHER, partition_max_bytes=250), 4, 18),
    ask("one byte in all", fetch(OTHER, max_bytes=1), 4, 18),
    ask("no bytes in all", fetch(OTHER, max_bytes=0), 12),
    ask("two batches and a half in all", fetch(OTHER, max_bytes=420), 12),
    ask("too little in all for a second topic", of_topics(TOPIC, OTHER, max_bytes=90), 12),
    ask("more than there is, after a while", fetch(TOPIC, min_bytes=1 << 16, max_wait_ms=20), 12, 18),
    ask("nothing, at once", fetch(TOPIC, 3, min_bytes=0), 12),
    ask("nothing, without waiting", fetch(TOPIC, 3, max_wait_ms=0), 12),
    ask("committed only", fetch(TOPIC, isolation_level=1), 4, 12, 18),
    ask("of an unknown isolation", fetch(TOPIC, isolation_level=2), 12),
    ask("at the leader's epoch", fetch(TOPIC, leader_epoch=0), 9, 12, 18),
    ask("at a later epoch", fetch(TOPIC, leader_epoch=5), 9, 12, 18),
    ask("at an epoch below zero", fetch(TOPIC, leader_epoch=-2), 12),
    ask("after an epoch that is there", fetch(TOPIC, 3, last_fetched_epoch=0, max_wait_ms=10), 12, 18),
    ask("after an epoch that is not there", fetch(TOPIC, 3, last_fetched_epoch=4, max_wait_ms=10), 12),
    ask("after an epoch, too far on", fetch(TOPIC, 9, last_fetched_epoch=0), 12),
    ask("zstd for an old client", fetch(ZSTD), 4, 9),
    ask("zstd for a new client", fetch(ZSTD), 10, 18),
    ask("as an unknown follower", as_replica(99), 12),
    ask("as an unknown follower with an epoch", as_replica(99, 1), 15),
    ask("as a debugging consumer", as_replica(-2), 12),
)
