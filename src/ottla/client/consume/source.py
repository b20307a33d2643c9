"""Source: fetches from one broker, for all cursors that it serves; one request at a time.

`run` is the loop of the broker: it looks its cursors over, sends a fetch for those that are ready, hands each what
the response says of it, and puts the records into the queue. What a cursor cannot go on with, the session solves.

Double buffering: while the reader works on one response the next is fetched, and waits in the queue; a third is not
requested before the second is begun.

Invariant: every cursor that a request has put in flight is released, buffered or failed when its response, or the
lack of it, is known; also when the fetch is cancelled.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.client.connections.purposes import Purpose
from ottla.client.consume.cursor import Cursor, State, readiness
from ottla.client.consume.fetch_queue import Failure
from ottla.client.consume.fetch_session import FetchSessionHandler, fetch_request
from ottla.client.consume.partition_records import PartitionRecords, walk_headers
from ottla.client.metadata import BrokerView
from ottla.errors import ClientClosedError, KafkaError, UnsupportedApiError, from_code
from ottla.wire import ZERO_UUID, Message, Uuid
from ottla.wire.messages import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from ottla.client.backoff import Backoff
    from ottla.client.connections.connection import BrokerConnection
    from ottla.client.consume.context import ConsumerContext, CursorOwner
    from ottla.client.consume.fetch_queue import FetchQueue
    from ottla.client.topic_partition import TopicPartition

_TOPIC_IDS_SINCE: Final = 13
_LAST_FETCHED_EPOCH_SINCE: Final = 12

Flights = dict[tuple[str | Uuid, int], tuple[Cursor, int]]
"""By topic, as the response will name it, and partition: the cursor, and the number of its flight."""


class Source:
    """One broker's."""

    def __init__(
        self,
        node_id: int,
        context: ConsumerContext,
        queue: FetchQueue,
        backoff: Backoff,
        owner: CursorOwner,
    ) -> None:
        self.node_id = node_id
        self.cursors: dict[TopicPartition, Cursor] = {}
        self._context = context
        self._config = context.config
        self._clock = context.runtime.clock
        self._hooks = context.hooks
        self._queue = queue
        self._backoff = backoff
        self._owner = owner
        self._isolation_level = context.isolation_level
        self._is_committed = context.is_committed
        self._fetch_session = FetchSessionHandler()
        self._awake = asyncio.Event()
        self.wake = self._awake.set
        """Has `run` look again; it misses nothing that happens while it does not wait."""
        self._has_unread = False
        """A response is in the queue that the reader has not begun."""
        self._has_failure = False
        """An error is in the queue that the reader has not raised: the next one would say the same."""
        self._failing_since: float | None = None
        self._failures = 0
        self._rotation = 0
        self._connection: BrokerConnection | None = None
        self._versions: dict[bool, int] = {}
        """Of the connection's Fetch: with topic ids, and without."""

    def reset(self) -> None:
        """A session has stopped: the broker's is not to be relied on, and what was buffered is discarded."""
        self._fetch_session.reset()
        self._has_unread = False

    def end(self) -> None:
        """Ends the fetch session at the broker, if that costs no waiting: its cache of them is small."""
        connection = self._connection
        plan = self._fetch_session.end()
        if plan is None or connection is None or connection.is_closed:
            return
        request = fetch_request(plan, self._config, self._isolation_level, waits=False)
        response = connection.send(request, connection.version(FetchRequest))
        response.add_done_callback(_ignore)

    async def run(self) -> None:
        """One session's worth of fetches; cancelled at its end."""
        while True:
            if self._has_unread:
                await self._awake.wait()
                self._awake.clear()
                continue
            now = self._clock.monotonic()
            ready, elsewhere, next_at = readiness(self.cursors.values(), self.node_id, now)
            for cursor in elsewhere:
                self._owner.route(cursor)
            if not ready:
                await self._wait(None if next_at is None else next_at - now)
                continue
            connection = self._connection
            if connection is None or connection.is_closed or connection.paused_until > now:
                # And look again: while it connects, cursors may come and go.
                await self._connect()
            else:
                await self._fetch(connection, ready)

    async def _wait(self, seconds: float | None) -> None:
        timer = None if seconds is None else self._clock.call_later(seconds, self.wake)
        try:
            await self._awake.wait()
        finally:
            if timer is not None:
                timer.cancel()
        self._awake.clear()

    async def _connect(self) -> None:
        """Waits for a connection, and until the broker throttles it no more."""
        try:
            broker = self._context.brokers.get(self.node_id)
            connection = await broker.connection(Purpose.FETCH, self._context.lane)
        except ClientClosedError:
            raise
        except KafkaError as error:
            await self._unreachable(error)
            return
        if connection is not self._connection:
            self._connection = connection
            self._versions.clear()

    # One fetch

    async def _fetch(self, connection: BrokerConnection, cursors: list[Cursor]) -> None:
        has_ids = True
        for cursor in cursors:
            if cursor.topic_id == ZERO_UUID:
                has_ids = False
        version = self._versions.get(has_ids)
        if version is None:
            try:
                version = connection.version(FetchRequest, None if has_ids else _TOPIC_IDS_SINCE - 1)
            except KafkaError as error:
                await self._unreachable(error)
                return
            self._versions[has_ids] = version
        flights: Flights = {}
        try:
            response = await connection.send(self._request(cursors, version, flights), version)
        except KafkaError as error:
            self._fetch_session.reset()
            self._release(flights)
            await self._unreachable(error)
        except BaseException:
            self._fetch_session.reset()
            self._release(flights)
            raise
        else:
            assert isinstance(response, FetchResponse)
            if response.error_code:
                await self._refused(response.error_code, flights)
            else:
                self._receive(response, flights)

    def _request(self, cursors: list[Cursor], version: int, flights: Flights) -> FetchRequest:
        """Puts the cursors in flight: another one first each time, so that each has its turn in a small response."""
        self._rotation += 1
        start = self._rotation % len(cursors)
        uses_ids, has_epochs = version >= _TOPIC_IDS_SINCE, version >= _LAST_FETCHED_EPOCH_SINCE
        most = self._config.max_partition_fetch_bytes
        positions = []
        for cursor in cursors[start:] + cursors[:start]:
            positions.append(cursor.fetch(self.node_id, has_epochs=has_epochs, most=most))
            topic = cursor.topic_id if uses_ids else cursor.topic
            flights[topic, cursor.partition] = cursor, cursor.flight
        plan = self._fetch_session.plan(positions, uses_ids=uses_ids)
        return fetch_request(plan, self._config, self._isolation_level)

    def _release(self, flights: Flights) -> None:
        for cursor, flight in flights.values():
            if cursor.awaits(flight):
                cursor.release()

    # Its response

    def _receive(self, response: FetchResponse, flights: Flights) -> None:
        now = self._clock.monotonic()
        self._failing_since, self._failures = None, 0
        self._fetch_session.succeeded(response.session_id)
        parts: list[PartitionRecords] = []
        buffered: list[tuple[Cursor, int]] = []
        for topic in response.responses:
            name = topic.topic_id if topic.topic_id != ZERO_UUID else topic.topic
            for data in topic.partitions:
                cursor, flight = flights.pop((name, data.partition_index), (None, 0))
                if cursor is None:
                    continue
                headers = walk_headers(data.records, cursor.stop) if data.records else None
                if not cursor.awaits(flight):
                    continue
                result = cursor.receive(data, headers, self.node_id, now, committed=self._is_committed)
                if isinstance(result, PartitionRecords):
                    parts.append(result)
                    buffered.append((cursor, flight))
                elif result is not None:
                    self._take_hint(cursor, data, response)
                    self._owner.solve(cursor, self.node_id, result)
        if parts and (notify := self._hooks.on_fetch_read) is not None:
            for part in parts:
                notify(part.for_hooks())
        if flights:
            self._release(flights)
        if parts:
            self._has_unread = True
            parts[0].on_taken = partial(self._begun, buffered)
            self._queue.put(*parts)

    def _begun(self, buffered: list[tuple[Cursor, int]]) -> None:
        """The reader has begun the response: its cursors can be fetched again, wherever they are by now."""
        self._has_unread = False
        for cursor, flight in buffered:
            if cursor.state is State.BUFFERED and cursor.flight == flight:
                cursor.begun()
                if self.cursors.get(cursor.tp) is not cursor:
                    self._owner.route(cursor)
        if self._owner.is_bounded:
            self._owner.check_complete()
        self.wake()

    def _take_hint(self, cursor: Cursor, data: FetchResponse.PartitionData, response: FetchResponse) -> None:
        """KIP-951: a broker that refuses a partition often knows its leader."""
        leader = data.current_leader
        if not data.error_code or leader is None or leader.leader_id < 0 or leader.leader_epoch < 0:
            return
        brokers = [
            BrokerView(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints
        ]
        self._context.metadata.hint(
            cursor.topic, cursor.partition, leader.leader_id, leader.leader_epoch, brokers
        )

    # No response, or none that can be used

    async def _refused(self, error_code: int, flights: Flights) -> None:
        self._fetch_session.failed(error_code)
        self._release(flights)
        error = from_code(error_code, broker=self.node_id)
        assert error is not None
        await self._unreachable(error)

    async def _unreachable(self, error: KafkaError) -> None:
        """Other brokers may lead by now, and the source comes back to this one a little later."""
        now = self._clock.monotonic()
        self._context.metadata.refresh_now(f"broker {self.node_id} cannot be fetched from: {error}")
        for cursor in [each for each in self.cursors.values() if each.back_to_leader()]:
            self._owner.route(cursor)
        if self._failing_since is None:
            self._failing_since = now
        is_long = now - self._failing_since >= self._config.default_api_timeout_ms / 1000
        is_due = is_long or isinstance(error, UnsupportedApiError)
        if self.cursors and is_due and not self._has_failure:
            self._failing_since = now
            self._has_failure = True
            self._queue.put(Failure(error, on_taken=self._raised))
        delay = self._backoff.delay(self._failures)
        self._failures += 1
        await self._clock.sleep(delay)

    def _raised(self) -> None:
        self._has_failure = False


def _ignore(response: asyncio.Future[Message]) -> None:
    """The source waits for it no more; asyncio complains about an exception that is never looked at."""
    if not response.cancelled():
        response.exception()
