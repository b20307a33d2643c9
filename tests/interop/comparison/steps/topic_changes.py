"""DeleteTopics and CreatePartitions."""

from __future__ import annotations

from typing import Any

from ottla.wire import ZERO_UUID, Message, Uuid
from ottla.wire.messages import CreatePartitionsRequest, DeleteTopicsRequest
from tests.interop.comparison.requests import UNKNOWN_ID, given, just, metadata
from tests.interop.comparison.script import Build, ask, section
from tests.interop.comparison.world import World


def delete(*names: str, timeout_ms: int = 10_000) -> Build:
    """As up to version 5."""
    return just(DeleteTopicsRequest(topic_names=list(names), timeout_ms=timeout_ms))


def delete_states(*states: tuple[str | None, str | Uuid], timeout_ms: int = 10_000) -> Build:
    """As from version 6: each by a name, or by an id, or by the id of a topic known by its name."""

    def build(world: World) -> Message:
        wanted = [
            DeleteTopicsRequest.DeleteTopicState(
                name=name, topic_id=topic if isinstance(topic, Uuid) else world.topic_id(topic)
            )
            for name, topic in states
        ]
        return DeleteTopicsRequest(topics=wanted, timeout_ms=timeout_ms)

    return build


def is_gone(answer: Any) -> bool:
    return all(topic.error_code == 3 for topic in answer.topics)


DELETE = section(
    "delete topics",
    given("delete-1", "delete-2", "delete-3", "delete-4", "delete-5", "delete-6", "delete-7"),
    ask("one", delete("delete-1"), 1),
    ask("one is gone", metadata("delete-1"), 12, until=is_gone),
    ask("the same again", delete("delete-1"), 1, 4, 5),
    ask("one and an unknown one", delete("delete-2", "delete-none"), 4),
    ask("one twice", delete("delete-3", "delete-3"), 5),
    ask("one with an empty name", delete(""), 5),
    ask("none", delete(), 1, 5),
    ask("by name", delete_states(("delete-4", ZERO_UUID)), 6),
    ask("by id", delete_states((None, "delete-5")), 6),
    ask("by id and name", delete_states(("delete-6", "delete-6")), 6),
    ask("by an unknown id", delete_states((None, UNKNOWN_ID)), 6),
    ask("by neither", delete_states((None, ZERO_UUID)), 6),
    ask("by an unknown name", delete_states(("delete-none", ZERO_UUID)), 6),
    ask("by name and by id", delete_states(("delete-7", ZERO_UUID), (None, "delete-7")), 6),
    ask("by name twice", delete_states(("delete-7", ZERO_UUID), ("delete-7", ZERO_UUID)), 6),
    ask("without time", delete("delete-none", timeout_ms=0), 1, 5),
    ask("with less than no time", delete("delete-none", timeout_ms=-1), 5),
    ask("none without time", delete(timeout_ms=0), 5),
    ask("one twice without time", delete("delete-none", "delete-none", timeout_ms=0), 5),
    ask("one twice and another without time", delete("delete-n", "delete-n", "delete-o", timeout_ms=0), 5),
    ask("by neither without time", delete_states((None, ZERO_UUID), timeout_ms=0), 6),
    ask(
        "by neither and by an id without time",
        delete_states((None, ZERO_UUID), (None, UNKNOWN_ID), timeout_ms=0),
        6,
    ),
    ask("those are gone", metadata("delete-2", "delete-4", "delete-5"), 12, until=is_gone),
)


def grow(
    *topics: tuple[str, int, list[list[int]] | None], validate_only: bool = False, timeout_ms: int = 10_000
) -> Build:
    wanted = [
        CreatePartitionsRequest.CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=None
            if assigned is None
            else [CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=ids) for ids in assigned],
        )
        for name, count, assigned in topics
    ]
    return just(CreatePartitionsRequest(topics=wanted, timeout_ms=timeout_ms, validate_only=validate_only))


def has(partitions: int) -> Any:
    return lambda answer: len(answer.topics[0].partitions) == partitions


GROW = section(
    "create partitions",
    given("grow-a", "grow-b"),
    ask("only validated", grow(("grow-a", 9, None), validate_only=True), 0, 3),
    ask("two", grow(("grow-a", 2, None)), 0),
    ask("three", grow(("grow-a", 3, None)), 1),
    ask("four", grow(("grow-a", 4, None)), 2),
    ask("five", grow(("grow-a", 5, None)), 3),
    ask("five are there", metadata("grow-a"), 12, until=has(5)),
    ask("as many as there are", grow(("grow-a", 5, None)), 0, 3),
    ask("fewer than there are", grow(("grow-a", 4, None)), 3),
    ask("none", grow(("grow-a", 0, None)), 3),
    ask("fewer than none", grow(("grow-a", -1, None)), 3),
    ask("of an unknown topic", grow(("grow-none", 2, None)), 0, 3),
    ask("of an empty name", grow(("", 2, None)), 3),
    ask("of one topic twice", grow(("grow-a", 6, None), ("grow-a", 7, None)), 3),
    ask("of two topics, one unknown", grow(("grow-b", 2, None), ("grow-none", 2, None)), 3),
    ask("assigned", grow(("grow-b", 3, [[1]])), 3),
    ask("assigned too few", grow(("grow-b", 5, [[1]])), 3),
    ask("assigned too many", grow(("grow-b", 4, [[1], [1]])), 3),
    ask("assigned none", grow(("grow-b", 4, [])), 3),
    ask("assigned to an unknown broker", grow(("grow-b", 4, [[99]])), 3),
    ask("assigned to a broker twice", grow(("grow-b", 4, [[1, 1]])), 3),
    ask("assigned to too many brokers", grow(("grow-b", 4, [[1, 2]])), 3),
    ask("assigned to nobody", grow(("grow-b", 4, [[]])), 3),
    ask("of no topics", grow(), 3),
    ask("without time", grow(("grow-b", 9, None), timeout_ms=0), 0, 3),
    ask("with less than no time", grow(("grow-b", 9, None), timeout_ms=-1), 3),
    ask("of no topics without time", grow(timeout_ms=0), 3),
    ask("of one topic twice without time", grow(("grow-b", 6, None), ("grow-b", 7, None), timeout_ms=0), 3),
    ask(
        "of one topic twice and another without time",
        grow(("grow-b", 6, None), ("grow-b", 7, None), ("grow-a", 9, None), timeout_ms=0),
        3,
    ),
    ask("by ten thousand", grow(("grow-b", 10_003, None), validate_only=True), 3),
    ask("by more than ten thousand", grow(("grow-b", 10_004, None), validate_only=True), 3),
    ask(
        "by more than ten thousand, and one by one",
        grow(("grow-a", 10_006, None), ("grow-b", 4, None), validate_only=True),
        3,
    ),
    ask("three are there", metadata("grow-b"), 12, until=has(3)),
)
