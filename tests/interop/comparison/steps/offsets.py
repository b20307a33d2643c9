"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: where a log begins, ends and what lies between."""

from __future__ import annotations

from ottla.wire.messages import DeleteRecordsRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
from tests.interop.comparison.requests import TIME, batch, fetch, given, just, list_offsets, produce
from tests.interop.comparison.script import Build, ask, section

TOPIC = "offsets-a"
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6


def both(*timestamps: int) -> Build:
    """Partition 0 for each of the times."""
    wanted = [
        ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        for timestamp in timestamps
    ]
    return just(
        ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=wanted)])
    )


LISTED = section(
    "list offsets",
    given(TOPIC, partitions=2),
    ask("given three records", produce(TOPIC, batch(b"a", b"b", b"c")), 9),
    ask("given an older one", produce(TOPIC, batch(b"d", time=TIME - 100)), 9),
    ask("given a later one, compressed", produce(TOPIC, batch(b"e", b"f", time=TIME + 100, codec=1)), 9),
    ask("latest", list_offsets(TOPIC, LATEST), *range(1, 12)),
    ask("earliest", list_offsets(TOPIC, EARLIEST), 1, 4, 11),
    ask("of the largest timestamp", list_offsets(TOPIC, MAX_TIMESTAMP), 1, 6, 7, 11),
    ask("earliest on this broker", list_offsets(TOPIC, EARLIEST_LOCAL), 7, 8, 11),
    ask("latest elsewhere", list_offsets(TOPIC, LATEST_TIERED), 8, 9, 11),
    ask("earliest to be sent elsewhere", list_offsets(TOPIC, EARLIEST_PENDING), 10, 11),
    ask("an unknown special timestamp", list_offsets(TOPIC, -7), 1, 11),
    ask("timestamp zero", list_offsets(TOPIC, 0), 1, 11),
    ask("timestamp of the first", list_offsets(TOPIC, TIME), 1, 11),
    ask("timestamp of the second", list_offsets(TOPIC, TIME + 1), 1, 11),
    ask("timestamp between", list_offsets(TOPIC, TIME + 50), 1, 11),
    ask("timestamp of the last", list_offsets(TOPIC, TIME + 101), 1, 11),
    ask("timestamp after the last", list_offsets(TOPIC, TIME + 102), 1, 4, 11),
    ask("latest of an empty partition", list_offsets(TOPIC, LATEST, partition=1), 1, 11),
    ask("earliest of an empty partition", list_offsets(TOPIC, EARLIEST, partition=1), 11),
    ask(
        "of the largest timestamp of an empty partition", list_offsets(TOPIC, MAX_TIMESTAMP, partition=1), 11
    ),
    ask("a timestamp of an empty partition", list_offsets(TOPIC, TIME, partition=1), 1, 11),
    ask("latest committed", list_offsets(TOPIC, LATEST, isolation_level=1), 2, 11),
    ask("latest of an unknown isolation", list_offsets(TOPIC, LATEST, isolation_level=2), 11),
    ask("an unknown topic", list_offsets("offsets-none", LATEST), 1, 6, 11),
    ask("an empty name", list_offsets("", LATEST), 11),
    ask("an unknown partition", list_offsets(TOPIC, LATEST, partition=9), 1, 11),
    ask("a negative partition", list_offsets(TOPIC, LATEST, partition=-1), 11),
    ask("at the leader's epoch", list_offsets(TOPIC, LATEST, leader_epoch=0), 4, 11),
    ask("at a later epoch", list_offsets(TOPIC, LATEST, leader_epoch=3), 4, 11),
    ask("as an unknown follower", list_offsets(TOPIC, LATEST, replica_id=99), 4),
    ask("as a debugging consumer", list_offsets(TOPIC, LATEST, replica_id=-2), 4, 11),
    ask("one partition twice", both(LATEST, EARLIEST), 1, 11),
    ask("of nothing", just(ListOffsetsRequest(topics=[])), 1, 11),
)


def epoch_end(
    topic: str, epoch: int, *, partition: int = 0, current: int = -1, replica_id: int = -1
) -> Build:
    wanted = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
        partition=partition, current_leader_epoch=current, leader_epoch=epoch
    )
    named = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=topic, partitions=[wanted])
    return just(OffsetForLeaderEpochRequest(replica_id=replica_id, topics=[named]))


EPOCHS = section(
    "offset for leader epoch",
    ask("of the current epoch", epoch_end(TOPIC, 0), 3, 4),
    ask("of the current epoch, an old client", epoch_end(TOPIC, 0, replica_id=-2), 2),
    ask("of a later epoch", epoch_end(TOPIC, 7), 3, 4),
    ask("of an epoch below zero", epoch_end(TOPIC, -1), 3, 4),
    ask("of an epoch far below zero", epoch_end(TOPIC, -5), 4),
    ask("of an empty partition", epoch_end(TOPIC, 0, partition=1), 3, 4),
    ask("at the leader's epoch", epoch_end(TOPIC, 0, current=0), 3, 4),
    ask("at a later epoch", epoch_end(TOPIC, 0, current=9), 3, 4),
    ask("of an unknown topic", epoch_end("offsets-none", 0), 3, 4),
    ask("of an unknown partition", epoch_end(TOPIC, 0, partition=9), 3, 4),
    ask("as an unknown follower", epoch_end(TOPIC, 0, replica_id=99), 4),
    ask("of nothing", just(OffsetForLeaderEpochRequest(replica_id=-1, topics=[])), 4),
)


def delete(topic: str, offset: int, partition: int = 0) -> Build:
    return delete_several((topic, {partition: offset}))


def delete_several(*topics: tuple[str, dict[int, int]], timeout_ms: int = 5_000) -> Build:
    """Offsets by partition."""
    request = DeleteRecordsRequest
    wanted = [
        request.DeleteRecordsTopic(
            name=topic,
            partitions=[
                request.DeleteRecordsPartition(partition_index=index, offset=offset)
                for index, offset in offsets.items()
            ],
        )
        for topic, offsets in topics
    ]
    return just(request(topics=wanted, timeout_ms=timeout_ms))


DELETED = section(
    "delete records",
    given("purge-a", partitions=2),
    given("purge-compact", config={"cleanup.policy": "compact"}),
    given("purge-both", config={"cleanup.policy": "compact,delete"}),
    ask("given five records", produce("purge-a", batch(b"a", b"b", b"c", b"d", b"e")), 9),
    ask("given two more", produce("purge-a", batch(b"f", b"g")), 9),
    ask("given a key in the compacted topic", produce("purge-compact", batch(b"v", key=b"k")), 9),
    ask("given a key in the topic with both policies", produce("purge-both", batch(b"v", key=b"k")), 9),
    ask("before the start", delete("purge-a", 0), 0, 2),
    ask("within the first batch", delete("purge-a", 2), 0),
    ask("where it begins then", list_offsets("purge-a", EARLIEST), 7),
    ask("a batch that begins before the log", fetch("purge-a", 2), 12),
    ask("an offset that is gone", fetch("purge-a", 1), 12),
    ask("backwards", delete("purge-a", 1), 1),
    ask("the first batch", delete("purge-a", 5), 1),
    ask("up to a timestamp's offset", list_offsets("purge-a", TIME), 7),
    ask("after the end", delete("purge-a", 8), 0, 2),
    ask("at minus two", delete("purge-a", -2), 2),
    ask("all", delete("purge-a", -1), 2),
    ask("all again", delete("purge-a", -1), 2),
    ask("where it begins in the end", list_offsets("purge-a", EARLIEST), 7),
    ask("where it ends in the end", list_offsets("purge-a", LATEST), 7),
    ask("appended after that", produce("purge-a", batch(b"h")), 9),
    ask("of an empty partition", delete("purge-a", -1, 1), 2),
    ask("of a compacted topic", delete("purge-compact", 1), 0, 2),
    ask("of a topic with both policies", delete("purge-both", 1), 2),
    ask("of an unknown topic", delete("purge-none", 1), 0, 2),
    ask("of an unknown partition", delete("purge-a", 1, 9), 2),
    ask("of an empty name", delete("", 1), 2),
    ask("of nothing", just(DeleteRecordsRequest(topics=[], timeout_ms=1000)), 0, 2),
    ask("of no partitions", delete_several(("purge-a", {})), 0, 1, 2),
    ask("of no partitions of an unknown topic", delete_several(("purge-none", {})), 0, 2),
    ask("of no partitions and some", delete_several(("purge-a", {}), ("purge-both", {0: 0})), 0, 2),
    ask("of no partitions and an unknown topic", delete_several(("purge-a", {}), ("purge-none", {0: 0})), 2),
    ask("of a topic and again without partitions", delete_several(("purge-a", {0: 0}), ("purge-a", {})), 2),
    ask("of a topic twice", delete_several(("purge-a", {0: 0}), ("purge-a", {0: 99})), 2),
    ask("of a topic twice, other partitions", delete_several(("purge-a", {0: 0}), ("purge-a", {1: 0})), 2),
    ask("of good and bad partitions", delete_several(("purge-a", {0: 0, 1: 9, 2: 0, -1: 0})), 0, 2),
    ask("at the lowest offset", delete("purge-a", -(2**63)), 2),
    ask("at the highest offset", delete("purge-a", 2**63 - 1), 2),
    ask("at minus three", delete("purge-a", -3), 2),
    ask("of a partition below zero", delete("purge-a", 0, -1), 2),
    ask("of the metadata log", delete("__cluster_metadata", 0), 2),
    ask("without time", delete_several(("purge-a", {0: 0}), timeout_ms=0), 2),
    ask("with less than no time", delete_several(("purge-a", {0: 0}), timeout_ms=-1), 2),
)
