"""Fetch sessions (KIP-227): what a client fetches is remembered, and only what changed is said, both ways.

A cache belongs to a node. A request becomes a context, which knows the partitions to read and, given what was
read, which of it the response has to mention. No I/O and no clock: the time comes with each call.

    session id   epoch   meaning
    0            -1      no session
    n            -1      close session n, serve this request without one
    any          0       a new session, instead of n
    n            > 0     the next request of session n
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ottla.broker.replication.partition import FetchTimes, Partition
from ottla.errors import (
    BrokerError,
    FetchSessionIdNotFoundError,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpochError,
)
from ottla.runtime import Random
from ottla.wire import ZERO_UUID, Uuid
from ottla.wire.messages import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from ottla.broker.server.faults import TopicName

FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
_LARGEST: Final = 0x7FFFFFFF
TOPIC_IDS_SINCE: Final = 13

SessionKey = tuple[str, Uuid, int]
"""A partition as the request named it: by topic name before version 13, by topic id from there on."""


@dataclass(slots=True)
class SessionPartition:
    """A requested partition and, where there is a session, what the last response said of it."""

    topic: str | None
    topic_id: Uuid
    request: FetchRequest.FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1
    quiet: Partition | None = None
    """The replica, if there was nothing to say of it when it had `seen` so many changes."""
    seen: int = -1

    def note_quiet(self, partition: Partition, result: FetchResponse.PartitionData) -> None:
        """Remembers whether there is anything to say of a partition, which was just read."""
        has_news = (
            result.records
            or result.high_watermark != self.high_watermark
            or result.log_start_offset != self.log_start_offset
            # The response says what was so before this fetch moved the watermark.
            or result.high_watermark != partition.high_watermark
        )
        self.quiet, self.seen = (None, -1) if has_news else (partition, partition.changes)

    @property
    def partition(self) -> int:
        return self.request.partition

    def update(self, result: FetchResponse.PartitionData) -> bool:
        """Remembers what the response says; whether any of it is new."""
        mention = bool(result.records)
        if result.high_watermark != self.high_watermark:
            self.high_watermark = result.high_watermark
            mention = True
        if result.log_start_offset != self.log_start_offset:
            self.log_start_offset = result.log_start_offset
            mention = True
        if result.preferred_read_replica != -1 or result.diverging_epoch is not None:
            mention = True
        if result.error_code != 0:
            # Said again with the next response, and so is the end of the error.
            self.high_watermark = -1
            mention = True
        return mention


class CachedFetchSession:
    """One client's session."""

    def __init__(self, session_id: int, uses_topic_ids: bool, now: float) -> None:
        self.id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        self.used_at = now
        self.partitions: dict[SessionKey, SessionPartition] = {}
        self.times = FetchTimes()

    def advance(self, now: float) -> None:
        self.epoch = 1 if self.epoch == _LARGEST else self.epoch + 1
        self.used_at = now


@dataclass(slots=True)
class FetchContext:
    """One request: the partitions to read, and what to respond."""

    partitions: list[SessionPartition]
    """The requested partitions, those of the session included."""
    session: CachedFetchSession | None = None
    is_incremental: bool = False
    error: BrokerError | None = None

    def times(self, now: float) -> FetchTimes:
        """When this fetch came: of a session for all of its partitions, those included of which it says nothing."""
        times = FetchTimes() if self.session is None else self.session.times
        times.fetched(now)
        return times

    def fails_over(
        self, results: list[tuple[SessionPartition, FetchResponse.PartitionData]], version: int
    ) -> bool:
        """Whether Kafka fails inside: it compares each topic with the one before by its name, if that has no id.

        The zero id has neither, which shows as soon as another partition follows.
        """
        if version < TOPIC_IDS_SINCE:
            return False
        return any(partition.topic_id == ZERO_UUID for partition, _ in results[:-1])

    def respond(self, results: list[tuple[SessionPartition, FetchResponse.PartitionData]]) -> FetchResponse:
        """The response, without what a session's client already knows."""
        response = FetchResponse(session_id=self.session.id if self.session else 0)
        if self.error is not None:
            response.error_code = self.error.code
            response.session_id = 0
            return response
        last: tuple[str | None, Uuid] | None = None
        for partition, result in results:
            mention = partition.update(result) if self.session is not None else True
            if self.is_incremental and not mention:
                continue
            if self.is_incremental and result.records and self.session is not None:
                # Those with data go to the end of the queue, so that with too little room for all of them every
                # partition has its turn.
                _move_to_end(self.session, partition)
            key = (partition.topic, partition.topic_id)
            if key != last:
                # The order of the partitions is kept, even if a topic is named twice for it.
                response.responses.append(
                    FetchResponse.FetchableTopicResponse(
                        topic=partition.topic or "", topic_id=partition.topic_id
                    )
                )
                last = key
            response.responses[-1].partitions.append(result)
        return response


class FetchSessions:
    """The sessions of one node; at most `slots`, of which the least used gives way after `eviction` seconds."""

    def __init__(self, random: Random, slots: int = 1000, eviction: float = 120.0) -> None:
        self._random = random
        self._slots = slots
        self._eviction = eviction
        self._sessions: dict[int, CachedFetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def peek(self, session_id: int) -> list[SessionPartition]:
        """The partitions of a session, without using it."""
        session = self._sessions.get(session_id)
        return list(session.partitions.values()) if session else []

    def open(self, request: FetchRequest, version: int, topic_name: TopicName, now: float) -> FetchContext:
        """The partitions that a request is about, by itself or through its session."""
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            requested = _requested(request, version, topic_name)
            session = None
            if request.session_epoch == INITIAL_EPOCH:
                session = self._create(version, now)
            if session is not None:
                session.partitions = requested
            return FetchContext(list(requested.values()), session)
        return self._continue(request, version, topic_name, now)

    def _continue(
        self, request: FetchRequest, version: int, topic_name: TopicName, now: float
    ) -> FetchContext:
        session = self._sessions.get(request.session_id)
        if session is None:
            return FetchContext([], error=FetchSessionIdNotFoundError())
        if session.epoch != request.session_epoch:
            return FetchContext([], error=InvalidFetchSessionEpochError())
        if session.uses_topic_ids != (version >= TOPIC_IDS_SINCE):
            return FetchContext([], error=FetchSessionTopicIdError())
        for key, new in _requested(request, version, topic_name).items():
            if key in session.partitions:
                session.partitions[key].request = new.request
                session.partitions[key].quiet = None
            else:
                session.partitions[key] = new
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                session.partitions.pop(_key(topic.topic, topic.topic_id, partition, version), None)
        if not session.partitions:
            del self._sessions[session.id]
            return FetchContext(list(_requested(request, version, topic_name).values()))
        session.advance(now)
        for known in session.partitions.values():
            if known.topic is None:
                # A topic that was unknown when the session began may have come since.
                known.topic = topic_name(known.topic_id)
        return FetchContext(list(session.partitions.values()), session, is_incremental=True)

    def _create(self, version: int, now: float) -> CachedFetchSession | None:
        if len(self._sessions) >= self._slots and not self._evict(now):
            return None
        session_id = 0
        while session_id == 0 or session_id in self._sessions:
            session_id = self._random.randrange(1, _LARGEST)
        session = CachedFetchSession(session_id, version >= TOPIC_IDS_SINCE, now)
        self._sessions[session_id] = session
        return session

    def _evict(self, now: float) -> bool:
        if not self._sessions:
            return False
        stalest = min(self._sessions.values(), key=lambda session: session.used_at)
        if now - stalest.used_at < self._eviction:
            return False
        del self._sessions[stalest.id]
        return True


def _requested(
    request: FetchRequest, version: int, topic_name: TopicName
) -> dict[SessionKey, SessionPartition]:
    requested: dict[SessionKey, SessionPartition] = {}
    for topic in request.topics:
        name = topic_name(topic.topic_id) if version >= TOPIC_IDS_SINCE else topic.topic
        for partition in topic.partitions:
            key = _key(topic.topic, topic.topic_id, partition.partition, version)
            requested[key] = SessionPartition(name, key[1], partition)
    return requested


def _key(topic: str, topic_id: Uuid, partition: int, version: int) -> SessionKey:
    return ("", topic_id, partition) if version >= TOPIC_IDS_SINCE else (topic, ZERO_UUID, partition)


def _move_to_end(session: CachedFetchSession, partition: SessionPartition) -> None:
    by_id = session.uses_topic_ids
    key = ("" if by_id else partition.topic or "", partition.topic_id, partition.partition)
    if key in session.partitions:
        session.partitions[key] = session.partitions.pop(key)
