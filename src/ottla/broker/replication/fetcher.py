"""A follower's side of replication: one fetcher for each leader, which fetches all that this node follows it in.

The request is a consumer's Fetch with the follower's id and epoch, in a session (KIP-227): it names what has changed
since the last one. What the leader sends is appended as it is; where it says that the logs part (KIP-595), this one
is cut back to where they do not, and fetched on from there.

Between a request and its response the controller may have decided otherwise, so a response counts for a partition
only as long as this fetcher follows it in the epoch, and its log ends at the offset, that the request named.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ottla.broker.log.log import Log
from ottla.broker.replication.partition import NO_EPOCH, Partition, PartitionKey
from ottla.broker.server.background import Fail, unending
from ottla.errors import (
    CorruptMessageError,
    KafkaError,
    KafkaStorageError,
    raise_for_code,
)
from ottla.runtime import Clock
from ottla.wire import Message, Uuid
from ottla.wire.messages import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse

_log = logging.getLogger("ottla.broker.replication.fetcher")

FETCH_VERSION: Final = 17
_LIST_OFFSETS_VERSION: Final = 9
_FIRST_BACKOFF: Final = 0.01
_INITIAL_EPOCH: Final = 0
_LARGEST_EPOCH: Final = 0x7FFFFFFF
_OFFSET_OUT_OF_RANGE: Final = 1
_FENCED_LEADER_EPOCH: Final = 74
_LATEST: Final = -1
_EARLIEST: Final = -2
_Failures = (OSError, TimeoutError, KafkaError)


class LeaderLink(Protocol):
    """The way to a leader."""

    async def request(self, leader: int, request: Message, version: int, timeout: float) -> Message:
        """The response; an OSError, a TimeoutError or a KafkaError where there is none."""

    def hurry(self, leader: int) -> None:
        """Whatever the leader has parked for this node is to be answered now."""


class FetcherConfigs(Protocol):
    """Broker configs by name, typed: replica.fetch.* and replica.socket.timeout.ms."""

    def value(self, name: str) -> Any: ...


@dataclass(slots=True, eq=False)
class Followed:
    """A partition that a fetcher fetches, in one leader epoch."""

    partition: Partition
    leader_epoch: int
    backoff: float = 0.0
    not_before: float = 0.0
    told: tuple[int, int, int] | None = None
    """What the leader knows of it in this session: fetch offset, epoch of the last batch, log start."""

    @property
    def position(self) -> tuple[int, int, int]:
        log = self.partition.log
        latest = log.epochs.latest
        return log.log_end_offset, NO_EPOCH if latest is None else latest, log.log_start_offset


class ReplicaFetcher:
    """Follows one leader, until it is closed."""

    def __init__(
        self,
        node_id: int,
        leader: int,
        link: LeaderLink,
        clock: Clock,
        configs: FetcherConfigs,
        *,
        broker_epoch: Callable[[], int],
        now_ms: Callable[[], int],
        on_fetched: Callable[[Partition, int, int], None],
        running: asyncio.Event,
        fail: Fail,
    ) -> None:
        """`on_fetched` learns how many bytes were appended to a partition and how many committed."""
        self.leader = leader
        self.partitions: dict[PartitionKey, Followed] = {}
        self._node_id = node_id
        self._link = link
        self._clock = clock
        self._configs = configs
        self._broker_epoch = broker_epoch
        self._now_ms = now_ms
        self._on_fetched = on_fetched
        self._running = running
        self._fail = fail
        self._session_id = 0
        self._session_epoch = _INITIAL_EPOCH
        self._in_session: dict[tuple[Uuid, int], Followed] = {}
        self._news = asyncio.Event()
        self._is_pending = False
        self._task: asyncio.Task[None] | None = None

    # Who follows

    def follow(self, partition: Partition) -> None:
        """Fetches a partition in its present leader epoch."""
        self.partitions[partition.key] = Followed(partition, partition.leader_epoch)
        self._tell()
        if self._task is None:
            work = unending(self._run, f"it cannot follow leader {self.leader}", self._fail)
            self._task = asyncio.get_running_loop().create_task(work)

    def leave(self, key: PartitionKey) -> None:
        if self.partitions.pop(key, None) is not None:
            self._tell()

    def _tell(self) -> None:
        """There is something to say to the leader, which may have parked the last request."""
        if not self._news.is_set():
            self._news.set()
            if self._is_pending:
                self._link.hurry(self.leader)

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # The loop

    async def _run(self) -> None:
        backoff = _FIRST_BACKOFF
        while True:
            await self._wait_until_ready()
            try:
                await self._fetch_once()
                backoff = _FIRST_BACKOFF
            except _Failures as error:
                _log.info("node %s cannot fetch from leader %s: %s", self._node_id, self.leader, error)
                self._forget_session()
                await self._clock.sleep(backoff)
                backoff = min(2 * backoff, self._largest_backoff)

    async def _fetch_once(self) -> None:
        response, named = await self._fetch()
        await self._running.wait()
        for followed, offset, result in named:
            await self._take(followed, offset, result)
        if response.session_id == 0:
            self._forget_session()

    async def _wait_until_ready(self) -> None:
        while True:
            await self._running.wait()
            now = self._clock.monotonic()
            self._news.clear()
            if any(followed.not_before <= now for followed in self.partitions.values()) or self._left():
                return
            if not self.partitions:
                await self._news.wait()
                continue
            soonest = min(followed.not_before for followed in self.partitions.values())
            timer = self._clock.call_later(soonest - now, self._news.set)
            try:
                await self._news.wait()
            finally:
                timer.cancel()

    def _left(self) -> list[tuple[Uuid, int]]:
        """What the session still has, and this fetcher follows no more.

        The leader has to hear of it, also where nothing else is to be fetched: until then both keep their replicas.
        """
        return [
            key
            for key, followed in self._in_session.items()
            if self.partitions.get(followed.partition.key) is not followed
        ]

    @property
    def _largest_backoff(self) -> float:
        milliseconds: int = self._configs.value("replica.fetch.backoff.ms")
        return milliseconds / 1000

    def _forget_session(self) -> None:
        self._session_id, self._session_epoch = 0, _INITIAL_EPOCH
        self._in_session = {}

    async def _fetch(
        self,
    ) -> tuple[FetchResponse, list[tuple[Followed, int, FetchResponse.PartitionData]]]:
        """Sends the next request of the session; the response, and what it says of which partition and offset."""
        asked = self._ask()
        request = self._request(asked)
        timeout: int = self._configs.value("replica.socket.timeout.ms")
        self._is_pending = True
        try:
            response = await self._link.request(self.leader, request, FETCH_VERSION, timeout / 1000)
        finally:
            self._is_pending = False
        assert isinstance(response, FetchResponse)
        raise_for_code(response.error_code)
        self._session_id = response.session_id
        self._session_epoch = 1 if self._session_epoch == _LARGEST_EPOCH else self._session_epoch + 1
        return response, [
            (followed, followed.told[0], result)
            for topic in response.responses
            for result in topic.partitions
            if (followed := self._in_session.get((topic.topic_id, result.partition_index))) is not None
            and followed.told is not None
        ]

    def _ask(self) -> dict[tuple[Uuid, int], Followed]:
        """What this request has to name: partitions that are new or elsewhere than the leader thinks."""
        now = self._clock.monotonic()
        asked = {}
        for followed in self.partitions.values():
            key = (followed.partition.topic_id, followed.partition.index)
            if followed.not_before > now:
                continue
            if self._in_session.get(key) is not followed or followed.told != followed.position:
                asked[key] = followed
        return asked

    def _request(self, asked: dict[tuple[Uuid, int], Followed]) -> FetchRequest:
        value = self._configs.value
        now = self._clock.monotonic()
        max_bytes: int = value("replica.fetch.max.bytes")
        forgotten = [
            key
            for key, followed in self._in_session.items()
            if self.partitions.get(followed.partition.key) is not followed or followed.not_before > now
        ]
        forgotten = [key for key in forgotten if key not in asked]
        for key in forgotten:
            del self._in_session[key]
        topics: dict[Uuid, FetchRequest.FetchTopic] = {}
        for key, followed in asked.items():
            followed.told = offset, last_epoch, log_start = followed.position
            self._in_session[key] = followed
            topic = topics.get(key[0])
            if topic is None:
                topic = topics[key[0]] = FetchRequest.FetchTopic(topic_id=key[0])
            topic.partitions.append(
                FetchRequest.FetchPartition(
                    partition=key[1],
                    current_leader_epoch=followed.leader_epoch,
                    fetch_offset=offset,
                    last_fetched_epoch=last_epoch,
                    log_start_offset=log_start,
                    partition_max_bytes=max_bytes,
                )
            )
        return FetchRequest(
            replica_state=FetchRequest.ReplicaState(
                replica_id=self._node_id, replica_epoch=self._broker_epoch()
            ),
            max_wait_ms=value("replica.fetch.wait.max.ms"),
            min_bytes=value("replica.fetch.min.bytes"),
            max_bytes=value("replica.fetch.response.max.bytes"),
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=_forgotten(forgotten),
        )

    # What comes of it

    def _is_current(self, followed: Followed, offset: int) -> bool:
        partition = followed.partition
        return (
            self.partitions.get(partition.key) is followed
            and partition.leader_epoch == followed.leader_epoch
            and partition.log.log_end_offset == offset
        )

    async def _take(self, followed: Followed, offset: int, result: FetchResponse.PartitionData) -> None:
        if not self._is_current(followed, offset):
            return
        partition = followed.partition
        try:
            if result.error_code == _OFFSET_OUT_OF_RANGE:
                await self._begin_elsewhere(followed)
            elif result.error_code == _FENCED_LEADER_EPOCH:
                # There is a newer leader; the metadata log will say which.
                self.leave(partition.key)
                return
            elif result.error_code == KafkaStorageError.code:
                # Of the leader's disk, and not of this one.
                self._back_off(followed, "its leader cannot read it")
                return
            else:
                raise_for_code(result.error_code)
                self._append(followed, result)
            followed.backoff = 0.0
        except KafkaStorageError as error:
            _log.error("node %s gives up following %s-%s: %s", self._node_id, *partition.key, error)
            self.leave(partition.key)
        except (CorruptMessageError, *_Failures) as error:
            self._back_off(followed, error)

    def _back_off(self, followed: Followed, why: object) -> None:
        _log.info("node %s cannot follow %s-%s now: %s", self._node_id, *followed.partition.key, why)
        followed.backoff = min(2 * followed.backoff or _FIRST_BACKOFF, self._largest_backoff)
        followed.not_before = self._clock.monotonic() + followed.backoff

    def _append(self, followed: Followed, result: FetchResponse.PartitionData) -> None:
        partition = followed.partition
        diverging = result.diverging_epoch
        if diverging is not None:
            _log.info("node %s: %s-%s parts from its leader at %s", self._node_id, *partition.key, diverging)
            partition.truncate_to(agreed_end(partition.log, diverging.epoch, diverging.end_offset))
            self._on_fetched(partition, 0, 0)
            return
        appended = 0
        if result.records:
            appended = partition.append_as_follower(result.records, followed.leader_epoch, self._now_ms())
        committed = partition.follow(result.high_watermark, result.log_start_offset)
        if appended or committed:
            self._on_fetched(partition, appended, committed)

    async def _begin_elsewhere(self, followed: Followed) -> None:
        """The leader has nothing at the end of this log: it ends before that, or begins behind."""
        partition = followed.partition
        offset = partition.log.log_end_offset
        latest = await self._offset(followed, _LATEST)
        if not self._is_current(followed, offset):
            return
        if latest < offset:
            _log.warning(
                "node %s: %s-%s ends at %s, its leader's log at %s",
                *(self._node_id, *partition.key, offset, latest),
            )
            partition.truncate_to(latest)
            self._on_fetched(partition, 0, 0)
            return
        earliest = await self._offset(followed, _EARLIEST)
        if self._is_current(followed, offset) and earliest > offset:
            partition.truncate_fully(earliest)
            self._on_fetched(partition, 0, 0)

    async def _offset(self, followed: Followed, timestamp: int) -> int:
        partition = followed.partition
        query = ListOffsetsRequest.ListOffsetsPartition(
            partition_index=partition.index,
            current_leader_epoch=followed.leader_epoch,
            timestamp=timestamp,
        )
        request = ListOffsetsRequest(
            replica_id=self._node_id,
            topics=[ListOffsetsRequest.ListOffsetsTopic(name=partition.topic, partitions=[query])],
        )
        timeout: int = self._configs.value("replica.socket.timeout.ms")
        response = await self._link.request(self.leader, request, _LIST_OFFSETS_VERSION, timeout / 1000)
        assert isinstance(response, ListOffsetsResponse)
        result = response.topics[0].partitions[0]
        raise_for_code(result.error_code)
        return result.offset


def agreed_end(log: Log, epoch: int, end_offset: int) -> int:
    """Where this log may still agree with its leader's, in which `epoch`, the last up to this one's, ends there."""
    own_epoch, own_end = log.epochs.end_offset_for(epoch, log.log_end_offset)
    if own_epoch == epoch:
        return min(own_end, end_offset, log.log_end_offset)
    if own_epoch == NO_EPOCH:
        return min(end_offset, log.log_end_offset)
    # Of that epoch there is nothing here: the one before it is what the next fetch asks about.
    return min(own_end, log.log_end_offset)


def _forgotten(keys: list[tuple[Uuid, int]]) -> list[FetchRequest.ForgottenTopic]:
    topics: dict[Uuid, FetchRequest.ForgottenTopic] = {}
    for topic_id, index in keys:
        if topic_id not in topics:
            topics[topic_id] = FetchRequest.ForgottenTopic(topic_id=topic_id)
        topics[topic_id].partitions.append(index)
    return list(topics.values())
