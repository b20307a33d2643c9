"""ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments, as far as one broker can be asked."""

from __future__ import annotations

from ottla.wire.messages import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from tests.interop.comparison.requests import given, just
from tests.interop.comparison.script import Build, ask, section

TOPIC, OTHER = "moves-a", "moves-b"
PREFERRED, UNCLEAN = 0, 1

Wanted = tuple[str, list[int]]
Move = tuple[str, dict[int, list[int] | None]]


def elect(*topics: Wanted, kind: int = PREFERRED, timeout_ms: int = 5_000) -> Build:
    wanted = [ElectLeadersRequest.TopicPartitions(topic=topic, partitions=parts) for topic, parts in topics]
    return just(ElectLeadersRequest(election_type=kind, topic_partitions=wanted, timeout_ms=timeout_ms))


def elect_all(kind: int = PREFERRED) -> Build:
    return just(ElectLeadersRequest(election_type=kind, topic_partitions=None, timeout_ms=5_000))


ELECTIONS = section(
    "elect leaders",
    given(TOPIC, OTHER, partitions=2),
    ask("of one partition", elect((TOPIC, [0])), 0, 1, 2),
    ask("unclean of one partition", elect((TOPIC, [0]), kind=UNCLEAN), 1, 2),
    ask("of two topics", elect((TOPIC, [0, 1]), (OTHER, [1])), 1, 2),
    ask("of all", elect_all(), 0, 1, 2),
    ask("unclean of all", elect_all(UNCLEAN), 1, 2),
    *(
        step
        for kind in (2, 5, -1, 127)
        for step in (
            ask(f"of type {kind}", elect((TOPIC, [0]), kind=kind), 1, 2),
            ask(f"of type {kind} of two topics", elect((TOPIC, [0, 1]), (OTHER, [0]), kind=kind), 1, 2),
            ask(f"of type {kind} of all", elect_all(kind), 1, 2),
            ask(f"of type {kind} of none", elect(kind=kind), 1, 2),
            ask(f"of type {kind} of an unknown topic", elect(("moves-none", [0]), kind=kind), 2),
        )
    ),
    ask("of none", elect(), 0, 1, 2),
    ask("of a topic without partitions", elect((TOPIC, [])), 0, 1, 2),
    ask("of a partition twice", elect((TOPIC, [0, 0])), 1, 2),
    ask("of a topic twice", elect((TOPIC, [0]), (TOPIC, [0])), 1, 2),
    ask("of a topic twice, other partitions", elect((TOPIC, [0]), (TOPIC, [1])), 2),
    ask("of an unknown partition", elect((TOPIC, [9])), 0, 1, 2),
    ask("of a partition below zero", elect((TOPIC, [-1])), 2),
    ask("of an unknown topic", elect(("moves-none", [0])), 0, 1, 2),
    ask("of an unknown topic without partitions", elect(("moves-none", [])), 2),
    ask("of an empty name", elect(("", [0])), 2),
    ask("of a wrong name", elect(("a b", [0])), 2),
    ask("unclean of an unknown topic", elect(("moves-none", [0]), kind=UNCLEAN), 2),
    ask("of known and unknown ones", elect((TOPIC, [0, 9]), ("moves-none", [0, 1])), 2),
    ask("without time", elect((TOPIC, [0]), timeout_ms=0), 2),
    ask("with less than no time", elect((TOPIC, [0]), timeout_ms=-1), 2),
)


def move(*topics: Move, resize: bool = True, timeout_ms: int = 5_000) -> Build:
    request = AlterPartitionReassignmentsRequest
    wanted = [
        request.ReassignableTopic(
            name=topic,
            partitions=[
                request.ReassignablePartition(partition_index=index, replicas=replicas)
                for index, replicas in moves.items()
            ],
        )
        for topic, moves in topics
    ]
    return just(request(topics=wanted, timeout_ms=timeout_ms, allow_replication_factor_change=resize))


def twice(first: list[int] | None, second: list[int] | None) -> Build:
    request = AlterPartitionReassignmentsRequest
    parts = [
        request.ReassignablePartition(partition_index=0, replicas=replicas) for replicas in (first, second)
    ]
    return just(request(topics=[request.ReassignableTopic(name=TOPIC, partitions=parts)], timeout_ms=5_000))


def moving(*topics: Wanted, timeout_ms: int = 5_000) -> Build:
    request = ListPartitionReassignmentsRequest
    wanted = [
        request.ListPartitionReassignmentsTopics(name=topic, partition_indexes=parts)
        for topic, parts in topics
    ]
    return just(request(topics=wanted, timeout_ms=timeout_ms))


REASSIGNMENTS = section(
    "alter partition reassignments",
    given(TOPIC + "-r", OTHER + "-r", partitions=2),
    ask("to where it is", move((TOPIC + "-r", {0: [1]})), 0, 1),
    ask("to where it is, the same number", move((TOPIC + "-r", {0: [1]}), resize=False), 1),
    ask("to nowhere", move((TOPIC + "-r", {0: []})), 0, 1),
    ask("to nowhere, the same number", move((TOPIC + "-r", {0: []}), resize=False), 1),
    ask("to one broker twice", move((TOPIC + "-r", {0: [1, 1]})), 0, 1),
    ask("to one broker twice, the same number", move((TOPIC + "-r", {0: [1, 1]}), resize=False), 1),
    ask("to a broker below zero", move((TOPIC + "-r", {0: [-1]})), 0, 1),
    ask("to a broker below zero and another", move((TOPIC + "-r", {0: [1, -1]})), 1),
    ask("to a broker below zero twice", move((TOPIC + "-r", {0: [-1, -1]})), 1),
    ask("to an unknown broker", move((TOPIC + "-r", {0: [99]})), 0, 1),
    ask("to an unknown broker twice", move((TOPIC + "-r", {0: [99, 99]})), 1),
    ask("to an unknown broker among others", move((TOPIC + "-r", {0: [1, 99]})), 1),
    ask(
        "to an unknown broker among others, the same number",
        move((TOPIC + "-r", {0: [1, 99]}), resize=False),
        1,
    ),
    ask("to two unknown brokers", move((TOPIC + "-r", {0: [99, 98]})), 1),
    ask("to a known one twice and an unknown one", move((TOPIC + "-r", {0: [1, 1, 99]})), 1),
    ask("to an unknown one, then a known one twice", move((TOPIC + "-r", {0: [0, 1, 1]})), 1),
    ask("back, with nothing in progress", move((TOPIC + "-r", {0: None})), 0, 1),
    ask("back, the same number", move((TOPIC + "-r", {0: None}), resize=False), 1),
    ask("of an unknown partition", move((TOPIC + "-r", {9: [1]})), 0, 1),
    ask("of an unknown partition to nowhere", move((TOPIC + "-r", {9: []})), 1),
    ask("of an unknown partition back", move((TOPIC + "-r", {9: None})), 1),
    ask("of a partition below zero", move((TOPIC + "-r", {-1: [1]})), 1),
    ask("of an unknown topic", move(("moves-none", {0: [1]})), 0, 1),
    ask("of an unknown topic to an unknown broker", move(("moves-none", {0: [99]})), 1),
    ask("of an unknown topic back", move(("moves-none", {0: None})), 1),
    ask("of an unknown topic without partitions", move(("moves-none", {})), 1),
    ask("of an empty name", move(("", {0: [1]})), 1),
    ask("of a wrong name", move(("a b", {0: [1]})), 1),
    ask("of a topic without partitions", move((TOPIC + "-r", {})), 0, 1),
    ask("of nothing", move(), 0, 1),
    ask("of nothing, the same number", move(resize=False), 1),
    ask(
        "of several, good and bad",
        move((TOPIC + "-r", {0: [1], 1: [99], 9: None}), ("moves-none", {0: [1]})),
        1,
    ),
    ask("of one topic twice", move((TOPIC + "-r", {0: [1]}), (TOPIC + "-r", {1: [99]})), 1),
    ask("without time", move((TOPIC + "-r", {0: [1]}), timeout_ms=0), 1),
    ask("with less than no time", move((TOPIC + "-r", {0: [1]}), timeout_ms=-1), 1),
    ask("listed", moving((TOPIC + "-r", [0, 1])), 0),
    ask("listed of all", just(ListPartitionReassignmentsRequest(topics=None, timeout_ms=5_000)), 0),
    ask("listed of none", moving(), 0),
    ask("listed of a topic without partitions", moving((TOPIC + "-r", [])), 0),
    ask("listed of an unknown topic", moving(("moves-none", [0])), 0),
    ask("listed of an unknown partition", moving((TOPIC + "-r", [9, -1])), 0),
    ask("listed of an empty name", moving(("", [0])), 0),
    ask("listed of a partition twice", moving((TOPIC + "-r", [0, 0])), 0),
    ask("listed without time", moving((TOPIC + "-r", [0]), timeout_ms=0), 0),
)
