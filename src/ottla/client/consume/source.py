"""Source: fetches from one broker, for all cursors that it serves; one request at a time.

A state machine of the loop: `_look` looks the cursors over and sends a fetch for those that are ready; its response
gives each cursor what is said of it, and the records go into the queue. What a cursor cannot go on with, the session
solves. Nothing is awaited but a connection, in a worker of the session.

Double buffering: while the reader works on one response the next is fetched, and waits in the queue; a third is not
requested before the second is begun.

Invariants: every cursor that a request has put in flight is released, buffered or failed when its response, or the
lack of it, is known; also when the source stops. And a source that is active has a request, a connection or a time
that it waits for, or nothing to fetch: then `wake` is called when that changes.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.client.connections.purposes import Purpose
from ottla.client.consume.cursor import Cursor, State, readiness
from ottla.client.consume.fetch_queue import Failure
from ottla.client.consume.fetch_session import TOPIC_IDS_SINCE, FetchSessionHandler, NextFetch, fetch_request
from ottla.client.consume.partition_records import PartitionRecords, walk_headers
from ottla.client.metadata import BrokerView
from ottla.errors import ClientClosedError, KafkaError, UnsupportedApiError, from_code
from ottla.wire import ZERO_UUID, Message, Uuid
from ottla.wire.messages import FetchRequest, FetchResponse
from ottla.wire.templates import Fetched

if TYPE_CHECKING:
    from ottla.client.backoff import Backoff
    from ottla.client.connections.connection import BrokerConnection
    from ottla.client.consume.context import ConsumerContext, CursorOwner
    from ottla.client.consume.fetch_queue import FetchQueue
    from ottla.client.topic_partition import TopicPartition
    from ottla.net import OnDone, PendingRequest
    from ottla.runtime import Timer

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
        self._next_fetch: NextFetch | None = None
        self._is_active = False
        self._looks_soon = False
        self._pending: PendingRequest | None = None
        """The fetch that has no response yet, and what it is for."""
        self._flights: Flights = {}
        self._is_connecting = False
        self._backs_off = False
        self._timer: Timer | None = None
        """When to look again: something is ready then, or the back-off is over."""
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

    # Beginning and end

    def start(self) -> None:
        """A session begins."""
        self._is_active = True
        self.wake()

    def stop(self) -> None:
        """It ends: what is pending does not count. The broker may or may not have seen it."""
        self._is_active = self._backs_off = False
        self._cancel_timer()
        if self._pending is not None:
            self._pending.give_up()
            self._pending = None
        self._release()

    def reset(self) -> None:
        """A session has stopped: the broker's is not to be relied on, and what was buffered is discarded."""
        self._fetch_session.reset()
        # A worker that was cancelled before its first step has never come to its `finally`.
        self._has_unread = self._is_connecting = False

    def end(self) -> None:
        """Ends the fetch session at the broker, if that costs no waiting: its cache of them is small."""
        connection = self._connection
        plan = self._fetch_session.end()
        if plan is None or connection is None or connection.is_closed:
            return
        request = fetch_request(plan, self._config, self._isolation_level, waits=False)
        response = connection.send(request, connection.version(FetchRequest))
        response.add_done_callback(_ignore)

    # What to do next

    def wake(self) -> None:
        """Has it look again, soon: once for all cursors that have come, or have changed, until then."""
        if not self._looks_soon and self._is_active:
            self._looks_soon = True
            asyncio.get_running_loop().call_soon(self._look_now)

    def _look_now(self) -> None:
        self._looks_soon = False
        try:
            self._look()
        except Exception as error:  # noqa: BLE001  a bug of ours: a reader must not wait for what never comes
            self._crashed(error)

    def _crashed(self, error: Exception) -> None:
        self._context.tasks.crashed(f"source {self.node_id}", error)

    def _look(self) -> None:
        if not self._is_active or self._has_unread or self._pending is not None:
            return
        if self._is_connecting or self._backs_off:
            return
        if self._timer is not None:
            self._cancel_timer()
        now = self._clock.monotonic()
        ready, elsewhere, next_at = readiness(self.cursors.values(), self.node_id, now)
        for cursor in elsewhere:
            self._owner.route(cursor)
        connection = self._connection
        if not ready:
            if next_at is not None:
                self._timer = self._clock.call_later(next_at - now, self._look_now)
        elif connection is None or connection.is_closed or connection.paused_until > now:
            self._is_connecting = True
            self._owner.spawn(self._connect(), f"connect the source of broker {self.node_id}")
        else:
            self._fetch(connection, ready)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _connect(self) -> None:
        """Waits for a connection, and until the broker throttles it no more; then it looks again."""
        try:
            broker = self._context.brokers.get(self.node_id)
            connection = await broker.connection(Purpose.FETCH, self._context.lane)
        except ClientClosedError:
            # There is nobody left to fetch for.
            return
        except KafkaError as error:
            # The session may have gone with the connection: a broker that comes back is not asked about it.
            self._fetch_session.reset()
            self._unreachable(error)
        else:
            if connection is not self._connection:
                self._connection = connection
                self._versions.clear()
        finally:
            self._is_connecting = False
        # Cursors may have come and gone meanwhile.
        self._look()

    # One fetch

    def _fetch(self, connection: BrokerConnection, cursors: list[Cursor]) -> None:
        has_ids = True
        for cursor in cursors:
            if cursor.topic_id == ZERO_UUID:
                has_ids = False
        try:
            version = self._versions.get(has_ids)
            if version is None:
                version = connection.version(FetchRequest, None if has_ids else TOPIC_IDS_SINCE - 1)
                self._versions[has_ids] = version
            self._pending = self._send(connection, cursors, version, self._on_done)
        except KafkaError as error:
            self._failed(error)

    def _send(
        self, connection: BrokerConnection, cursors: list[Cursor], version: int, on_done: OnDone
    ) -> PendingRequest:
        """Puts the cursors in flight: another one first each time, so that each has its turn in a small response."""
        if len(cursors) > 1:
            self._rotation += 1
            start = self._rotation % len(cursors)
            cursors = cursors[start:] + cursors[:start]
        uses_ids, has_epochs = version >= TOPIC_IDS_SINCE, version >= _LAST_FETCHED_EPOCH_SINCE
        most = self._config.max_partition_fetch_bytes
        positions = []
        for cursor in cursors:
            positions.append(cursor.fetch(self.node_id, has_epochs=has_epochs, most=most))
            topic = cursor.topic_id if uses_ids else cursor.topic
            self._flights[topic, cursor.partition] = cursor, cursor.flight
        plan = self._fetch_session.plan(positions, uses_ids=uses_ids)
        fetch = self._next_fetch
        if fetch is None or not fetch.fits(plan, version):
            fetch = self._next_fetch = NextFetch.of(plan, version, self._config, self._isolation_level)
        if fetch is None:
            request = fetch_request(plan, self._config, self._isolation_level)
            return connection.begin(request, version, on_done)
        return connection.begin_encoded(fetch.api, version, fetch.encode_for(plan), on_done, fetch.decode)

    def _on_done(self, pending: PendingRequest) -> None:
        if pending is not self._pending:
            return  # a session has ended since
        self._pending = None
        try:
            response = pending.response
            if isinstance(response, Fetched):
                self._receive_next(response)
            elif pending.error is not None:
                self._failed(pending.error)
            elif (code := response.error_code) != 0:
                self._refused(code)
            else:
                assert isinstance(response, FetchResponse)
                self._receive(response)
                if not self._has_unread:
                    self._look()
        except Exception as error:  # noqa: BLE001  as in `_look_now`
            self._crashed(error)

    def _failed(self, error: KafkaError) -> None:
        """The request, if it was sent at all, has no response."""
        self._fetch_session.reset()
        self._release()
        self._unreachable(error)

    def _release(self) -> None:
        flights, self._flights = self._flights, {}
        for cursor, flight in flights.values():
            if cursor.awaits(flight):
                cursor.release()

    # Its response

    def _receive(self, response: FetchResponse) -> None:
        flights = self._flights
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
            self._release()
        if parts:
            self._has_unread = True
            parts[0].on_taken = partial(self._begun, buffered)
            self._queue.put(*parts)

    def _receive_next(self, fetched: Fetched) -> None:
        """As `_receive`, where there is something of one partition only: for a reader that keeps up."""
        assert self._next_fetch is not None
        now = self._clock.monotonic()
        self._failing_since, self._failures = None, 0
        self._fetch_session.succeeded()
        cursor, flight = self._flights.pop(self._next_fetch.key)
        headers = walk_headers(fetched.records, cursor.stop)
        if self._flights:
            self._release()
        if not cursor.awaits(flight):
            self._look()
            return
        result = cursor.receive(fetched, headers, self.node_id, now, committed=self._is_committed)
        if not isinstance(result, PartitionRecords):
            if result is not None:
                self._owner.solve(cursor, self.node_id, result)
            self._look()
            return
        if (notify := self._hooks.on_fetch_read) is not None:
            notify(result.for_hooks())
        self._has_unread = True
        result.on_taken = partial(self._begun, [(cursor, flight)])
        self._queue.put(result)

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
        self._look_now()

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

    def _refused(self, error_code: int) -> None:
        self._fetch_session.failed(error_code)
        self._release()
        error = from_code(error_code, broker=self.node_id)
        assert error is not None
        self._unreachable(error)

    def _unreachable(self, error: KafkaError) -> None:
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
        if self._is_active:
            self._backs_off = True
            self._cancel_timer()
            self._timer = self._clock.call_later(self._backoff.delay(self._failures), self._back)
            self._failures += 1

    def _back(self) -> None:
        self._backs_off = False
        self._look_now()

    def _raised(self) -> None:
        self._has_failure = False


def _ignore(response: asyncio.Future[Message]) -> None:
    """The source waits for it no more; asyncio complains about an exception that is never looked at."""
    if not response.cancelled():
        response.exception()
