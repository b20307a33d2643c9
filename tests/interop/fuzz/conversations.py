"""Steps that tell something in their order only: a topic goes while a session reads it, records are deleted."""

from __future__ import annotations

from ottla.wire import Message
from ottla.wire.batches import encode_batch
from ottla.wire.messages import (
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    ListOffsetsRequest,
    ProduceRequest,
)
from tests.interop.comparison.requests import creatable
from tests.interop.comparison.world import World
from tests.interop.fuzz import fetching
from tests.interop.fuzz.drawing import FUTURE, MADE, PLAIN, TIME, Draw, FuzzStep, step, topic_id


def topic_goes(draw: Draw) -> list[FuzzStep]:
    """A session reads a topic that is deleted, and perhaps made again with another id."""
    name = "session over a deletion"
    version = draw.one(12, 13, 17, 18)
    steps = [
        _create_made(),
        fetching.begin(name, [PLAIN, MADE], version),
        _delete_made(),
        fetching.go_on(name, 1, version),
    ]
    if draw.often(0.5):
        steps += [_create_made(), fetching.go_on(name, 2, version), fetching.go_on(name, 3, version)]
    return steps


def records_go(draw: Draw) -> list[FuzzStep]:
    """Records of several times, and so of several segments; then some are deleted, and times are looked for."""
    partition = draw.one(0, 1)
    times = [draw.one(TIME, TIME + 100, FUTURE, FUTURE + 100) for _ in range(draw.randint(2, 5))]
    steps = [_write(partition, time) for time in times]
    offset = draw.mostly(draw.randint(1, len(times)), -1)
    deleted = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsRequest.DeleteRecordsTopic(name=PLAIN, partitions=[deleted])], timeout_ms=1000
    )
    steps.append(step(f"DeleteRecords of {PLAIN}/{partition} before {offset}", 2, lambda _world: request))
    steps += [_look_for(partition, time) for time in (TIME, TIME + 50, FUTURE, FUTURE + 50, -3)]
    return [*steps, fetching.whole(PLAIN, 2, draw.randint(0, len(times)))]


def _write(partition: int, time: int) -> FuzzStep:
    data = ProduceRequest.PartitionProduceData(
        index=partition, records=encode_batch([(0, time, b"k", b"v", []), (1, time + 1, b"k", b"w", [])])
    )

    def build(world: World) -> Message:
        topic = ProduceRequest.TopicProduceData(
            name=PLAIN, topic_id=topic_id(world, PLAIN), partition_data=[data]
        )
        return ProduceRequest(transactional_id=None, acks=-1, timeout_ms=5_000, topic_data=[topic])

    return step(f"Produce two records at {time} to {PLAIN}/{partition}", 12, build)


def _look_for(partition: int, time: int) -> FuzzStep:
    wanted = ListOffsetsRequest.ListOffsetsPartition(partition_index=partition, timestamp=time)
    request = ListOffsetsRequest(
        topics=[ListOffsetsRequest.ListOffsetsTopic(name=PLAIN, partitions=[wanted])]
    )
    return step(f"ListOffsets of {PLAIN}/{partition} at {time}", 8, lambda _world: request)


def _create_made() -> FuzzStep:
    request = CreateTopicsRequest(topics=[creatable(MADE)], timeout_ms=10_000)
    return step(f"CreateTopics {MADE}", 7, lambda _world: request, settles=True)


def _delete_made() -> FuzzStep:
    request = DeleteTopicsRequest(topic_names=[MADE], timeout_ms=10_000)
    return step(f"DeleteTopics {MADE}", 5, lambda _world: request, settles=True)
