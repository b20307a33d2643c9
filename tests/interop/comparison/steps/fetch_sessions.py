"""Fetch sessions (KIP-227): full and incremental requests, what changed, what was forgotten, wrong epochs."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.wire import Message, Uuid
from ottla.wire.messages import FetchRequest
from tests.interop.comparison.requests import UNKNOWN_ID, batch, given, produce
from tests.interop.comparison.script import Build, Step, ask, remembering, section
from tests.interop.comparison.world import World

TOPIC, OTHER = "session-a", "session-b"


def session(
    key: str | int,
    epoch: int,
    wanted: Sequence[tuple[str | Uuid, int, int]] = (),
    forgotten: Sequence[tuple[str | Uuid, int]] = (),
) -> Build:
    """A request in the session remembered as `key`: (topic, partition, offset) to add, (topic, partition) to drop."""

    def identified(topic: str | Uuid, world: World) -> tuple[str, Uuid]:
        return ("", topic) if isinstance(topic, Uuid) else (topic, world.topic_id(topic))

    def build(world: World) -> Message:
        topics = []
        for topic, partition, offset in wanted:
            name, topic_id = identified(topic, world)
            part = FetchRequest.FetchPartition(
                partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20
            )
            topics.append(FetchRequest.FetchTopic(topic=name, topic_id=topic_id, partitions=[part]))
        dropped = []
        for topic, partition in forgotten:
            name, topic_id = identified(topic, world)
            dropped.append(FetchRequest.ForgottenTopic(topic=name, topic_id=topic_id, partitions=[partition]))
        return FetchRequest(
            max_wait_ms=10,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=key if isinstance(key, int) else world.values.get(key, 0),
            session_epoch=epoch,
            topics=topics,
            forgotten_topics_data=dropped,
        )

    return build


def conversation(version: int) -> list[Step]:
    """One session from its first request to its end, with topics of its own."""
    key, first, second = f"session of v{version}", f"session-v{version}-a", f"session-v{version}-b"
    one, start = batch(b"new"), [(first, 0, 0), (second, 0, 0)]

    def within(label: str, build: Build) -> list[Step]:
        return ask(label, build, version)

    return [
        *given(first, second, partitions=2),
        *ask(f"given a record in {first}", produce(first, one), 9),
        *ask(f"given a record in {second}", produce(second, one), 9),
        *ask("begun", session(0, 0, start), version, remember=remembering(key, "session_id")),
        *within("asked again at the same offsets", session(key, 1)),
        *within("the offsets moved on", session(key, 2, [(first, 0, 1), (second, 0, 1)])),
        *within("nothing new", session(key, 3)),
        *ask(f"a second record in {first}", produce(first, one), 9),
        *within("one partition has something new", session(key, 4)),
        *within("one partition still has it", session(key, 5)),
        *within("another partition added", session(key, 6, [(first, 1, 0)])),
        *within("the first partition forgotten", session(key, 7, forgotten=[(first, 0)])),
        *within("nothing after that", session(key, 8)),
        *within("one forgotten that was never there", session(key, 9, forgotten=[(first, 7)])),
        *within("an unknown partition added", session(key, 10, [(first, 9, 0)])),
        *within("the unknown partition again", session(key, 11)),
        *within("an epoch skipped", session(key, 13)),
        *within("an epoch repeated", session(key, 11)),
        *within("the epoch in turn", session(key, 12)),
        *within("an offset out of range", session(key, 13, [(second, 0, 99)])),
        *within("still out of range", session(key, 14)),
        *within("one added and forgotten at once", session(key, 15, [(first, 0, 0)], [(first, 0)])),
        *ask(
            "begun anew", session(key, 0, start), version, remember=remembering(key + " anew", "session_id")
        ),
        *within("used after it was begun anew", session(key, 16)),
        *within("closed", session(key + " anew", -1)),
        *within("used after its end", session(key + " anew", 1)),
    ]


SECTION = section(
    "fetch sessions",
    given(TOPIC, OTHER, partitions=2),
    ask("given a record", produce(TOPIC, batch(b"a")), 9),
    ask("given another record", produce(OTHER, batch(b"b")), 9),
    ask("without one", session(0, -1, [(TOPIC, 0, 0)]), 7, 12, 18),
    ask("an unknown session", session(123_456, 1), 7, 12, 18),
    ask("an unknown session to be closed", session(123_456, -1), 7, 12),
    ask("no session, later epoch", session(0, 5), 7, 12),
    ask("an empty session", session(0, 0), 7, 12),
    ask("an unknown topic", session(0, 0, [("session-none", 0, 0)]), 7, 12),
    ask("an unknown topic id", session(0, 0, [(UNKNOWN_ID, 0, 0)]), 13, 18),
    conversation(7),
    conversation(12),
    conversation(13),
    conversation(18),
)
