"""Random Fetch requests: limits, epochs, offsets, sessions with forgotten topics, topic ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.wire import ZERO_UUID, Message, Uuid
from ottla.wire.messages import FetchRequest
from tests.interop.comparison.world import World
from tests.interop.fuzz.drawing import PLAIN, Draw, FuzzStep, step, topic_id

_EPOCHS = (-1, 0, 1, 5, -2, -5, 2**31 - 1)


@dataclass
class _Wanted:
    """One Fetch in plain values."""

    topics: list[tuple[str, list[FetchRequest.FetchPartition]]]
    forgotten: list[tuple[str, list[int]]] = field(default_factory=list)
    session: str | None = None
    session_epoch: int = -1
    settings: dict[str, Any] = field(default_factory=dict)
    id_instead: Uuid | None = None

    def build(self) -> Callable[[World], Message]:
        def named(world: World, topic: str) -> Uuid:
            return topic_id(world, topic) if self.id_instead is None else self.id_instead

        def build(world: World) -> Message:
            return FetchRequest(
                session_id=0 if self.session is None else world.values.get(self.session, 0),
                session_epoch=self.session_epoch,
                topics=[
                    FetchRequest.FetchTopic(topic=topic, topic_id=named(world, topic), partitions=partitions)
                    for topic, partitions in self.topics
                ],
                forgotten_topics_data=[
                    FetchRequest.ForgottenTopic(
                        topic=topic, topic_id=named(world, topic), partitions=partitions
                    )
                    for topic, partitions in self.forgotten
                ],
                **self.settings,
            )

        return build


def fetch(draw: Draw) -> FuzzStep:
    """One request without a session."""
    wanted = _Wanted(_topics(draw), settings=_settings(draw))
    wanted.id_instead = draw.mostly(None, ZERO_UUID, chance=0.95)
    wanted.session_epoch = draw.mostly(-1, -2, 5, chance=0.97)
    return step(f"Fetch {_words(wanted)}", draw.version("Fetch"), wanted.build())


def diverging(draw: Draw) -> FuzzStep:
    """A reader that has been further on than the log, in an epoch that the log knows."""
    part = _partition(draw)
    part.current_leader_epoch, part.last_fetched_epoch = -1, 0
    part.fetch_offset = draw.one(1000, 2**62)
    wanted = _Wanted([(draw.known_topic(), [part])], settings=_settings(draw))
    wanted.settings["isolation_level"] = draw.one(0, 1)
    return step(f"Fetch diverging: {_words(wanted)}", draw.one(12, 13, 18), wanted.build())


def crowded(draw: Draw) -> FuzzStep:
    """Two partitions, of which one has no room for its first batch."""
    parts = [
        FetchRequest.FetchPartition(
            partition=index, fetch_offset=draw.randint(0, 2), partition_max_bytes=draw.one(1 << 20, 1, 60, 80)
        )
        for index in (0, 1)
    ]
    wanted = _Wanted([(PLAIN, parts)], settings=_settings(draw))
    wanted.settings |= {"isolation_level": draw.one(0, 1), "max_bytes": draw.one(1 << 20, 200)}
    return step(f"Fetch crowded: {_words(wanted)}", draw.version("Fetch"), wanted.build())


def session(draw: Draw) -> FuzzStep:
    """A session begins, goes on, is asked for wrongly, or ends."""
    name = draw.one("session 1", "session 2")
    epoch = draw.sessions.get(name)
    version = draw.mostly(draw.one(12, 17), draw.version("Fetch"), chance=0.9)
    if epoch is None:
        wanted = _Wanted(_topics(draw), session_epoch=0, settings=_settings(draw))
        draw.sessions[name] = 1
        return step(f"Fetch begins {name}: {_words(wanted)}", version, wanted.build(), session=name)
    wanted = _Wanted(
        _topics(draw) if draw.often(0.5) else [],
        [(draw.topic(), draw.some([0, 1, 7], 2)) for _ in range(draw.mostly(0, 1, 2))],
        session=name,
        session_epoch=draw.mostly(epoch, -1, 0, epoch + 1, epoch - 1, -2, chance=0.8),
        settings=_settings(draw),
    )
    if wanted.session_epoch in (0, -1):
        draw.sessions.pop(name)
    elif wanted.session_epoch == epoch:
        draw.sessions[name] = epoch + 1
    return step(f"Fetch in {name}: {_words(wanted)}", version, wanted.build(), waits=True)


def _topics(draw: Draw) -> list[tuple[str, list[FetchRequest.FetchPartition]]]:
    names = dict.fromkeys([draw.topic() for _ in range(draw.mostly(1, 2, 3))])
    return [(name, [_partition(draw) for _ in range(draw.mostly(1, 2, 0, 3))]) for name in names]


def _partition(draw: Draw) -> FetchRequest.FetchPartition:
    limit = draw.mostly(1 << 20, 0, -1, 1, 80, 150, 300, -(2**31), 2**31 - 1, chance=0.6)
    return FetchRequest.FetchPartition(
        partition=draw.partition(),
        current_leader_epoch=draw.mostly(-1, *_EPOCHS, chance=0.85),
        fetch_offset=draw.mostly(draw.randint(0, 12), 0, 1, -1, -2, 1000, 2**62, chance=0.7),
        last_fetched_epoch=draw.mostly(-1, *_EPOCHS, chance=0.85),
        log_start_offset=draw.mostly(-1, 0, 5, -5),
        partition_max_bytes=limit,
    )


def _settings(draw: Draw) -> dict[str, Any]:
    return {
        "max_wait_ms": draw.mostly(0, 1, -1),
        "min_bytes": draw.mostly(1, 0, -1, 100),
        "max_bytes": draw.mostly(1 << 20, 0, -1, 1, 200, 400, -(2**31), 2**31 - 1, chance=0.7),
        "isolation_level": draw.mostly(draw.one(0, 1), 2, -1, chance=0.98),
        "rack_id": draw.mostly("", "rack"),
    }


def _words(wanted: _Wanted) -> str:
    parts = [
        f"{topic or 'an empty name'}/{part.partition} from {part.fetch_offset}"
        f" (epoch {part.current_leader_epoch}, fetched {part.last_fetched_epoch},"
        f" {part.partition_max_bytes} bytes)"
        for topic, partitions in wanted.topics
        for part in partitions
    ]
    by = "" if wanted.id_instead is None else " by the zero id"
    forgets = f" forgets {wanted.forgotten}" if wanted.forgotten else ""
    return (
        f"{'; '.join(parts) or 'nothing'}{by}{forgets} session epoch {wanted.session_epoch} {wanted.settings}"
    )


def whole(topic: str, partitions: int, offset: int) -> FuzzStep:
    """All that a reader from an offset can see; that the offset is gone is an answer, too."""
    parts = [
        FetchRequest.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 24)
        for index in range(partitions)
    ]
    wanted = _Wanted([(topic, parts)], settings={"min_bytes": 0, "max_bytes": 1 << 24})
    return step(f"Fetch all of {topic} from {offset}", 12, wanted.build())


def begin(name: str, topics: Sequence[str], version: int) -> FuzzStep:
    """The first request of a session, for one partition of each topic."""
    wanted = _Wanted(
        [
            (topic, [FetchRequest.FetchPartition(partition=0, partition_max_bytes=1 << 20)])
            for topic in topics
        ],
        session_epoch=0,
        settings={"min_bytes": 0, "max_bytes": 1 << 20},
    )
    return step(f"Fetch begins {name}: {', '.join(topics)}", version, wanted.build(), session=name)


def go_on(name: str, epoch: int, version: int) -> FuzzStep:
    """A further request of a session, which changes nothing about it."""
    wanted = _Wanted([], session=name, session_epoch=epoch, settings={"min_bytes": 0, "max_bytes": 1 << 20})
    return step(f"Fetch in {name}: epoch {epoch}", version, wanted.build(), waits=True)
