"""Random requests about offsets: ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from __future__ import annotations

from ottla.wire.messages import DeleteRecordsRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
from tests.interop.comparison.requests import just
from tests.interop.fuzz.drawing import FUTURE, ODD, TIME, Draw, FuzzStep, plain_step, step

_LARGEST = -3
_EPOCHS = (-1, 0, 1, 5, -2, -5, 2**31 - 1)


def list_offsets(draw: Draw) -> FuzzStep:
    topics: list[ListOffsetsRequest.ListOffsetsTopic] = []
    words: list[str] = []
    for _ in range(draw.mostly(1, 2)):
        topic = draw.topic()
        wanted = [
            ListOffsetsRequest.ListOffsetsPartition(
                partition_index=draw.partition(),
                timestamp=_timestamp(draw, topic),
                current_leader_epoch=draw.mostly(-1, *_EPOCHS, chance=0.8),
            )
            for _ in range(draw.mostly(1, 0, 2, 3))
        ]
        topics.append(ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=wanted))
        words += [
            f"{topic}/{w.partition_index} at {w.timestamp} epoch {w.current_leader_epoch}" for w in wanted
        ]
    request = ListOffsetsRequest(
        replica_id=draw.mostly(-1, -2, 0, 5, -3, chance=0.9),
        isolation_level=draw.mostly(draw.one(0, 1), 2, -1, chance=0.97),
        topics=topics,
        timeout_ms=1000,
    )
    by = f"replica {request.replica_id} isolation {request.isolation_level}"
    return plain_step(draw, request, f"{'; '.join(words)} by {by}")


def _timestamp(draw: Draw, topic: str) -> int:
    if draw.often(0.5):
        special = draw.one(-1, -2, _LARGEST, -4, -5, -6, -7, -100)
        depends_on_the_clock = draw.has_append_time and topic == ODD
        return -1 if special == _LARGEST and depends_on_the_clock else special
    return draw.one(
        *(0, TIME, TIME + 1, TIME + 2, TIME + draw.randint(-1, 12) * 100, TIME - 5000, TIME - 4999),
        *(FUTURE, FUTURE + 1, FUTURE + 5, 2**63 - 1),
    )


def end_of_epoch(draw: Draw) -> FuzzStep:
    topics = []
    words = []
    for _ in range(draw.mostly(1, 2)):
        topic = draw.topic()
        wanted = [
            OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                partition=draw.partition(),
                current_leader_epoch=draw.mostly(-1, *_EPOCHS, chance=0.7),
                leader_epoch=draw.one(*_EPOCHS),
            )
            for _ in range(draw.mostly(1, 0, 2))
        ]
        topics.append(OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=topic, partitions=wanted))
        words += [f"{topic}/{w.partition} epoch {w.leader_epoch} in {w.current_leader_epoch}" for w in wanted]
    request = OffsetForLeaderEpochRequest(replica_id=draw.mostly(-1, -2, 0, 5), topics=topics)
    return plain_step(draw, request, "; ".join(words))


def delete_records(draw: Draw) -> FuzzStep:
    topics = []
    words = []
    for _ in range(draw.mostly(1, 2, 0)):
        topic = draw.topic()
        wanted = [
            DeleteRecordsRequest.DeleteRecordsPartition(
                partition_index=draw.partition(),
                offset=draw.mostly(draw.randint(0, 6), -1, -2, 1000, 2**62, chance=0.75),
            )
            for _ in range(draw.mostly(1, 0, 2))
        ]
        topics.append(DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=wanted))
        words.append(f"{topic}: {[(w.partition_index, w.offset) for w in wanted]}")
    request = DeleteRecordsRequest(topics=topics, timeout_ms=1000)
    return plain_step(draw, request, "; ".join(words) or "nothing")


def ends(draw: Draw, topic: str, partitions: int) -> list[FuzzStep]:
    """Where a log begins and ends, and its latest time: what is left of a script."""
    steps = []
    for timestamp in (-1, -2, _LARGEST, TIME, FUTURE):
        if timestamp == _LARGEST and draw.has_append_time and topic == ODD:
            continue
        wanted = [
            ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=timestamp)
            for index in range(partitions)
        ]
        request = ListOffsetsRequest(
            topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=wanted)]
        )
        steps.append(step(f"ListOffsets of {topic} at {timestamp}", 8, just(request)))
    return steps
