"""Random requests that make, change, move and delete topics."""

from __future__ import annotations

from typing import Final

from ottla.wire import ZERO_UUID, Message, Uuid
from ottla.wire.messages import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from tests.interop.comparison.requests import creatable
from tests.interop.comparison.world import World
from tests.interop.fuzz.configs import topic_configs
from tests.interop.fuzz.drawing import (
    MADE,
    ODD,
    PLAIN,
    PREFIX,
    UNKNOWN,
    Draw,
    FuzzStep,
    plain_step,
    step,
    topic_id,
)

_NAMES = (MADE, MADE, f"{PREFIX}.n", f"{PREFIX}_n", f"{PREFIX}-o")
_BAD_NAMES = ("", ".", "..", f"{PREFIX} blank", f"{PREFIX}/x", f"{PREFIX}\u00e4", PREFIX * 32)

_ASSIGNMENTS: Final[tuple[dict[int, list[int]], ...]] = (
    {0: [1]},
    {0: [1], 1: [1]},
    {0: []},
    {1: [1]},
    {0: [1, 1]},
    {0: [9]},
    {0: [1], 2: [1]},
)
_ADDED: Final[tuple[list[list[int]], ...]] = ([[1]], [[1], [1]], [[]], [[9]], [[1, 1]], [])


def create(draw: Draw) -> FuzzStep:
    topics = []
    for _ in range(draw.mostly(1, 2, 0, 3)):
        name = draw.mostly(draw.one(*_NAMES), PLAIN, draw.one(*_BAD_NAMES))
        assignments = draw.mostly({}, *_ASSIGNMENTS, chance=0.75)
        counted = not assignments or draw.often(0.15)
        topics.append(
            creatable(
                name,
                draw.mostly(1, 2, -1, 0, -2) if counted else -1,
                draw.mostly(1, -1, 0, 2, -2, 32767) if counted else -1,
                topic_configs(draw) if draw.often(0.4) else {},
                assignments,
            )
        )
    request = CreateTopicsRequest(
        topics=topics, timeout_ms=draw.mostly(10_000, 20_000), validate_only=draw.often(0.3)
    )
    named = "; ".join(
        f"{t.name} {t.num_partitions} partitions, {t.replication_factor} replicas,"
        f" {[(a.partition_index, a.broker_ids) for a in t.assignments]}, {[(c.name, c.value) for c in t.configs]}"
        for t in topics
    )
    only = " validate only" if request.validate_only else ""
    return plain_step(draw, request, f"{named or 'nothing'}{only}", settles=not request.validate_only)


def delete(draw: Draw) -> FuzzStep:
    """Of what `create` may have made; the script's first topics stay."""
    version = draw.version("DeleteTopics")
    names = [draw.mostly(draw.one(*_NAMES), UNKNOWN, "", "..") for _ in range(draw.mostly(1, 2, 3, 0))]
    by_id = version >= 6 and draw.often(0.5)
    both = draw.often(0.1)
    other = draw.mostly(None, ZERO_UUID, chance=0.9)

    def build(world: World) -> Message:
        def state(name: str) -> DeleteTopicsRequest.DeleteTopicState:
            if not by_id:
                return DeleteTopicsRequest.DeleteTopicState(name=name)
            found: Uuid = topic_id(world, name) if other is None else other
            return DeleteTopicsRequest.DeleteTopicState(name=name if both else None, topic_id=found)

        if version < 6:
            return DeleteTopicsRequest(topic_names=names, timeout_ms=10_000)
        return DeleteTopicsRequest(topics=[state(name) for name in names], timeout_ms=10_000)

    how = " by id" if by_id else ""
    return step(f"DeleteTopics {names}{how}", version, build, waits=by_id, settles=True)


def grow(draw: Draw) -> FuzzStep:
    topics = []
    for _ in range(draw.mostly(1, 2, 0)):
        count = draw.mostly(draw.one(2, 3), 1, 0, -1, 4)
        assignments = draw.mostly(None, *_ADDED, chance=0.8)
        topics.append(
            CreatePartitionsRequest.CreatePartitionsTopic(
                name=draw.mostly(draw.one(*_NAMES), UNKNOWN, ""),
                count=count,
                assignments=None
                if assignments is None
                else [
                    CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=ids) for ids in assignments
                ],
            )
        )
    request = CreatePartitionsRequest(topics=topics, timeout_ms=10_000, validate_only=draw.often(0.3))
    named = [
        (t.name, t.count, None if t.assignments is None else [a.broker_ids for a in t.assignments])
        for t in topics
    ]
    only = " validate only" if request.validate_only else ""
    return plain_step(draw, request, f"{named}{only}", settles=not request.validate_only)


def elect(draw: Draw) -> FuzzStep:
    wanted = draw.mostly(
        [
            ElectLeadersRequest.TopicPartitions(
                topic=draw.topic(), partitions=[draw.partition() for _ in range(draw.mostly(1, 0, 2))]
            )
            for _ in range(draw.mostly(1, 2, 0))
        ],
        [],
    )
    request = ElectLeadersRequest(
        election_type=draw.mostly(0, 1, 5, -1, 2, chance=0.5), topic_partitions=wanted, timeout_ms=10_000
    )
    words = f"type {request.election_type} {[(w.topic, w.partitions) for w in wanted]}"
    return plain_step(draw, request, words, settles=True)


def reassign(draw: Draw) -> FuzzStep:
    topics = []
    for _ in range(draw.mostly(1, 2, 0)):
        partitions = [
            AlterPartitionReassignmentsRequest.ReassignablePartition(
                partition_index=draw.partition(),
                replicas=draw.one(None, None, [1], [], [1, 1], [9], [1, 9], [-1]),
            )
            for _ in range(draw.mostly(1, 0, 2))
        ]
        topics.append(
            AlterPartitionReassignmentsRequest.ReassignableTopic(name=draw.topic(), partitions=partitions)
        )
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=10_000, topics=topics, allow_replication_factor_change=draw.mostly(True, False)
    )
    named = [(t.name, [(p.partition_index, p.replicas) for p in t.partitions]) for t in topics]
    words = f"{named} factor may change: {request.allow_replication_factor_change}"
    return plain_step(draw, request, words, settles=True)


def list_reassignments(draw: Draw) -> FuzzStep:
    topics = draw.mostly(
        [
            ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics(
                name=draw.topic(), partition_indexes=[draw.partition() for _ in range(draw.mostly(1, 0, 2))]
            )
        ],
        None,
    )
    request = ListPartitionReassignmentsRequest(timeout_ms=10_000, topics=topics)
    named = None if topics is None else [(t.name, t.partition_indexes) for t in topics]
    return plain_step(draw, request, f"{named}")


def first_topics(draw: Draw) -> FuzzStep:
    """The topics of a script: a plain one, and one with configs."""
    config = good_configs(draw)
    draw.has_append_time = config.get("message.timestamp.type") == "LogAppendTime"
    request = CreateTopicsRequest(
        topics=[creatable(PLAIN, 2), creatable(ODD, 1, config=config)], timeout_ms=10_000
    )
    words = f"CreateTopics {[(c.name, c.value) for c in request.topics[1].configs]}"
    return step(words, 7, lambda _world: request, settles=True)


def last_deletion() -> FuzzStep:
    names = [PLAIN, ODD, *dict.fromkeys(_NAMES)]
    request = DeleteTopicsRequest(topic_names=names, timeout_ms=10_000)
    return step("DeleteTopics all", 5, lambda _world: request, settles=True)


def good_configs(draw: Draw) -> dict[str, str | None]:
    choices = {
        "cleanup.policy": ("compact", "delete", "compact,delete"),
        "message.timestamp.type": ("LogAppendTime", "CreateTime"),
        "max.message.bytes": ("200", "1000"),
        "compression.type": ("gzip", "zstd", "uncompressed", "producer", "snappy", "lz4"),
        "segment.bytes": ("1048576",),
        "min.insync.replicas": ("1", "2"),
        "message.timestamp.before.max.ms": ("1000", "9223372036854775807"),
        "message.timestamp.after.max.ms": ("1000", "9223372036854775807"),
        "index.interval.bytes": ("0", "100"),
        "segment.ms": ("100000",),
    }
    names = draw.sample(list(choices), draw.mostly(1, 0, 2, 3, chance=0.5))
    if draw.often(0.2):
        # What a leader compresses itself has rules of its own.
        names.append("compression.type")
    return {name: draw.choice(choices[name]) for name in names}
