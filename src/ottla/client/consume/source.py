"""Source: fetches from one broker, for all cursors that it serves; one request at a time.

Double buffering: while the reader works on one answer the next is fetched, and waits in the queue; a third is not
asked for before the second is begun. The answer to a fetch is judged in fetch_answers.py.

Invariant: every cursor that a request has put in flight is released, buffered or failed when its answer, or the
lack of it, is known; also when the fetch is cancelled.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ottla.client.connections.purposes import Purpose
from ottla.client.consume.cursor import Cursor, State
from ottla.client.consume.fetch_answers import judge
from ottla.client.consume.fetch_session import FetchSession, Plan, Wanted
from ottla.client.consume.fetched import FetchedPartition
from ottla.client.topic_partition import TopicPartition
from ottla.errors import ClientClosedError, KafkaError, UnsupportedApiError, from_code
from ottla.wire import ZERO_UUID, Message, Uuid
from ottla.wire.messages import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from ottla.client.connections.connection import BrokerConnection
    from ottla.client.consume.session import Session

_TOPIC_IDS_SINCE: Final = 13
_LAST_FETCHED_EPOCH_SINCE: Final = 12
_CONSUMER: Final = -1

Flights = dict[tuple[str | Uuid, int], tuple[Cursor, int]]
"""By topic, as the answer will name it, and partition: the cursor, and the number of its flight."""


class Source:
    """One broker's."""

    def __init__(self, node_id: int, session: Session) -> None:
        self.node_id = node_id
        self.cursors: dict[TopicPartition, Cursor] = {}
        self._session = session
        self._fetches = FetchSession()
        self._alarm = session.alarm()
        self._has_unread = False
        """An answer is in the queue that the reader has not begun."""
        self._has_untold_failure = False
        """An error is in the queue that the reader has not heard of: the next one would say the same."""
        self._failing_since: float | None = None
        self._failures = 0
        self._turn = 0
        self._last_connection: BrokerConnection | None = None

    def wake(self) -> None:
        self._alarm.ring()

    def reset(self) -> None:
        """A session has stopped: the broker's is not to be relied on, and what was buffered is discarded."""
        self._fetches.reset()
        self._has_unread = False

    def end(self) -> None:
        """Tells the broker that the session is over, if that costs no waiting: its cache of them is small."""
        connection = self._last_connection
        plan = self._fetches.end()
        if plan is None or connection is None or connection.is_closed:
            return
        version = connection.version(FetchRequest)
        answer = connection.send(self._request(plan, waits=False), version)
        answer.add_done_callback(_ignore)

    async def run(self) -> None:
        """One session's worth of fetches; cancelled at its end."""
        while True:
            if self._ready():
                await self._fetch()
            else:
                await self._alarm.wait(self._next_retry())

    def _ready(self) -> list[Cursor]:
        """The cursors for the next request."""
        if self._has_unread:
            return []
        now = self._session.now()
        # Those whose time at a preferred replica is over go to their leader, which may be another source.
        for cursor in [each for each in self.cursors.values() if each.preferred_replica >= 0]:
            if cursor.fetch_node(now) != self.node_id:
                cursor.back_to_leader()
                self._session.place(cursor)
        return [cursor for cursor in self.cursors.values() if cursor.is_fetchable(now)]

    def _next_retry(self) -> float | None:
        if self._has_unread:
            return None
        now = self._session.now()
        times = [cursor.not_before for cursor in self.cursors.values() if cursor.not_before > now]
        times += [cursor.preferred_until for cursor in self.cursors.values() if cursor.preferred_replica >= 0]
        return min(times, default=None)

    # One fetch

    async def _fetch(self) -> None:
        try:
            broker = self._session.brokers.get(self.node_id)
            connection = await broker.connection(Purpose.FETCH, self._session.lane)
            # While it connected, cursors may have come and gone.
            cursors = self._ready()
            if not cursors:
                return
            has_ids = all(cursor.topic_id != ZERO_UUID for cursor in cursors)
            version = connection.version(FetchRequest, None if has_ids else _TOPIC_IDS_SINCE - 1)
        except ClientClosedError:
            raise
        except KafkaError as error:
            await self._unreachable(error)
            return
        self._last_connection = connection
        await self._exchange(connection, version, self._rotated(cursors))

    def _rotated(self, cursors: list[Cursor]) -> list[Cursor]:
        """Another one first each time: where there is room for a few only, each has its turn."""
        self._turn += 1
        start = self._turn % len(cursors)
        return cursors[start:] + cursors[:start]

    async def _exchange(self, connection: BrokerConnection, version: int, cursors: list[Cursor]) -> None:
        uses_ids = version >= _TOPIC_IDS_SINCE
        plan = self._fetches.plan([self._wanted(cursor, version) for cursor in cursors], uses_ids=uses_ids)
        flights: Flights = {
            (cursor.topic_id if uses_ids else cursor.topic, cursor.partition): (cursor, cursor.use())
            for cursor in cursors
        }
        try:
            response = await connection.send(self._request(plan), version)
        except KafkaError as error:
            self._fetches.reset()
            self._release(flights)
            await self._unreachable(error)
        except BaseException:
            self._fetches.reset()
            self._release(flights)
            raise
        else:
            assert isinstance(response, FetchResponse)
            await self._answered(response, flights)

    def _wanted(self, cursor: Cursor, version: int) -> Wanted:
        # A follower may lag behind what its leader has given us, which would look like a truncation; and without the
        # epoch of the leader nobody checks that the one who answers is it.
        is_leader = self.node_id == cursor.leader and cursor.leader_epoch >= 0
        is_checked = is_leader and version >= _LAST_FETCHED_EPOCH_SINCE
        return Wanted(
            cursor.topic,
            cursor.topic_id,
            cursor.partition,
            cursor.offset,
            cursor.leader_epoch,
            cursor.last_consumed_epoch if is_checked else -1,
            cursor.fetch_bytes(self._session.config.max_partition_fetch_bytes),
        )

    def _request(self, plan: Plan, *, waits: bool = True) -> FetchRequest:
        config = self._session.config
        topics: dict[tuple[str, Uuid], FetchRequest.FetchTopic] = {}
        for each in plan.wanted:
            topic = topics.get(each[:2])
            if topic is None:
                topic = FetchRequest.FetchTopic(topic=each.topic, topic_id=each.topic_id, partitions=[])
                topics[each[:2]] = topic
            topic.partitions.append(
                FetchRequest.FetchPartition(
                    partition=each.partition,
                    current_leader_epoch=each.leader_epoch,
                    fetch_offset=each.offset,
                    last_fetched_epoch=each.last_fetched_epoch,
                    partition_max_bytes=each.max_bytes,
                )
            )
        return FetchRequest(
            replica_id=_CONSUMER,
            max_wait_ms=config.fetch_max_wait_ms if waits else 0,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=self._session.isolation_level,
            session_id=plan.session_id,
            session_epoch=plan.epoch,
            topics=list(topics.values()),
            forgotten_topics_data=_forgotten(plan),
            rack_id=config.client_rack,
        )

    def _release(self, flights: Flights) -> None:
        for cursor, flight in flights.values():
            if cursor.awaits(flight):
                cursor.release()

    # Its answer

    async def _answered(self, response: FetchResponse, flights: Flights) -> None:
        error = from_code(response.error_code, broker=self.node_id)
        if error is not None:
            self._fetches.failed(response.error_code)
            self._release(flights)
            await self._unreachable(error)
            return
        self._failing_since, self._failures = None, 0
        self._fetches.answered(response.session_id)
        parts = self._parts(response, flights)
        self._release(flights)
        if parts:
            self._has_unread = True
            buffered = [
                (cursor, flight) for cursor, flight in flights.values() if _is_buffered(cursor, flight)
            ]
            self._session.queue.put_answer(parts, lambda: self._begun(buffered))

    def _parts(self, response: FetchResponse, flights: Flights) -> list[FetchedPartition]:
        parts = []
        for topic in response.responses:
            name = topic.topic_id if topic.topic_id != ZERO_UUID else topic.topic
            for data in topic.partitions:
                cursor, flight = flights.get((name, data.partition_index), (None, 0))
                if cursor is None or not cursor.awaits(flight):
                    continue
                part = judge(self._session, self.node_id, cursor, data, response)
                if part is not None:
                    parts.append(part)
        if (tell := self._session.hooks.on_fetch_read) is not None:
            for part in parts:
                tell(part.seen_by_hooks())
        return parts

    def _begun(self, buffered: list[tuple[Cursor, int]]) -> None:
        """The reader has begun the answer: its cursors can be fetched again, wherever they are by now."""
        self._has_unread = False
        for cursor, flight in buffered:
            if _is_buffered(cursor, flight):
                cursor.begun()
                self._session.place(cursor)
        self._session.check_complete()
        self.wake()

    async def _unreachable(self, error: KafkaError) -> None:
        """No answer, or none that can be used: others may lead by now, and we come back a little later."""
        session = self._session
        now = session.now()
        session.metadata.refresh_now(f"broker {self.node_id} cannot be fetched from: {error}")
        for cursor in [each for each in self.cursors.values() if each.back_to_leader()]:
            session.place(cursor)
        if self._failing_since is None:
            self._failing_since = now
        is_long = now - self._failing_since >= session.config.default_api_timeout_ms / 1000
        is_due = is_long or isinstance(error, UnsupportedApiError)
        if self.cursors and is_due and not self._has_untold_failure:
            self._failing_since = now
            self._has_untold_failure = True
            session.raise_to_reader(error, on_taken=self._told)
        delay = session.backoff.delay(self._failures)
        self._failures += 1
        await session.clock.sleep(delay)

    def _told(self) -> None:
        self._has_untold_failure = False


def _is_buffered(cursor: Cursor, flight: int) -> bool:
    return cursor.state is State.BUFFERED and cursor.flight == flight


def _forgotten(plan: Plan) -> list[FetchRequest.ForgottenTopic]:
    topics: dict[tuple[str, Uuid], FetchRequest.ForgottenTopic] = {}
    for topic, topic_id, partition in plan.forgotten:
        forgotten = topics.get((topic, topic_id))
        if forgotten is None:
            forgotten = FetchRequest.ForgottenTopic(topic=topic, topic_id=topic_id, partitions=[])
            topics[topic, topic_id] = forgotten
        forgotten.partitions.append(partition)
    return list(topics.values())


def _ignore(answer: asyncio.Future[Message]) -> None:
    """Nobody waits for it; asyncio complains about an exception that nobody has seen."""
    if not answer.cancelled():
        answer.exception()
