"""Source: one fetch at a time; whatever ends it, no cursor stays in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any, cast

import pytest

from ottla.client.backoff import Backoff
from ottla.client.consume.context import ConsumerContext
from ottla.client.consume.cursor import (
    Cursor,
    FetchProblem,
    FetchRefused,
    NoWholeBatch,
    ReplicaPreferred,
    State,
)
from ottla.client.consume.fetch_queue import Failure, FetchQueue
from ottla.client.consume.partition_records import PartitionRecords
from ottla.client.consume.source import Source
from ottla.client.tasks import Tasks
from ottla.client.topic_partition import TopicPartition
from ottla.config import ClientConfig
from ottla.errors import ClientClosedError, ConnectionLostError, KafkaError, UnsupportedApiError
from ottla.hooks import Hooks
from ottla.net import Decode, OnDone, PendingRequest
from ottla.wire import Message, Uuid, api_named
from ottla.wire.apis import Api
from ottla.wire.batches import PlainRecord, encode_batch
from ottla.wire.frames import decode_request, encode_response
from ottla.wire.messages import FetchRequest, FetchResponse
from ottla.wire.templates import INT32
from tests.client.worlds import World, in_simulation

ID = Uuid(b"0123456789abcdef")
VERSION = 17


class Response:
    """Of a request that is pending, as a future of it would be."""

    def __init__(self, on_done: OnDone, decode: Decode | None = None) -> None:
        self.pending = PendingRequest(api_named("Fetch"), VERSION, on_done, decode)

    def set_result(self, response: Message) -> None:
        if self.pending.is_done:
            return
        found = None
        if self.pending.decode is not None:
            frame = b"".join(encode_response(response, VERSION, 5))[4:]
            found = self.pending.decode(memoryview(bytearray(frame)))
        self.pending.succeed(found or response)

    def set_exception(self, error: KafkaError) -> None:
        self.pending.fail(error)


class Connection:
    """What was sent over it, and the responses to come."""

    def __init__(self) -> None:
        self.is_closed = False
        self.paused_until = 0.0
        self.sent: list[FetchRequest] = []
        self.responses: list[Any] = []
        self.unsupported = False
        self.versions = 0

    def version(self, request: type[Message], most: int | None = None) -> int:
        self.versions += 1
        if self.unsupported:
            raise UnsupportedApiError("no Fetch")
        return VERSION if most is None else most

    def begin(
        self, request: FetchRequest, version: int, on_done: OnDone, decode: Decode | None = None
    ) -> PendingRequest:
        self.sent.append(request)
        self.responses.append(Response(on_done, decode))
        return self.responses[-1].pending  # type: ignore[no-any-return]

    def begin_encoded(
        self, api: Api, version: int, encode: Callable[[int], bytes], on_done: OnDone, decode: Decode
    ) -> PendingRequest:
        request = decode_request(encode(5)[4:])[1]
        assert isinstance(request, FetchRequest)
        return self.begin(request, version, on_done, decode)

    def send(self, request: FetchRequest, version: int) -> asyncio.Future[Message]:
        self.sent.append(request)
        self.responses.append(asyncio.get_running_loop().create_future())
        return self.responses[-1]  # type: ignore[no-any-return]


class Broker:
    """Gives connections, or an error; and the metadata, which writes down why it should be refreshed."""

    def __init__(self) -> None:
        self.connections = [Connection()]
        self.wanted = 0
        self.error: Exception | None = None
        self.pause_ends: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.refreshes: list[str] = []
        self.hints: list[tuple[object, ...]] = []

    def get(self, node_id: int) -> Broker:
        return self

    async def connection(self, purpose: object, lane: int) -> Connection:
        self.wanted += 1
        if self.error is not None:
            raise self.error
        if self.connections[-1].paused_until:
            await self.pause_ends
        return self.connections[-1]

    def refresh_now(self, why: str) -> None:
        self.refreshes.append(why)

    def hint(self, *hint: object) -> None:
        self.hints.append(hint)


class Owner:
    """In place of the session: writes down what it has to do."""

    def __init__(self) -> None:
        self.cursors: dict[TopicPartition, Cursor] = {}
        self.is_bounded = False
        self.routed: list[Cursor] = []
        self.problems: list[tuple[int, FetchProblem]] = []
        self.completed = 0
        self.workers: list[asyncio.Task[None]] = []

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self.workers.append(asyncio.ensure_future(work))

    def route(self, cursor: Cursor) -> None:
        self.routed.append(cursor)

    def check_complete(self) -> None:
        self.completed += 1

    def solve(self, cursor: Cursor, node_id: int, problem: FetchProblem) -> None:
        self.problems.append((node_id, problem))


class Fetching:
    """A source of broker 1 whose loop runs, with two cursors."""

    def __init__(self, world: World) -> None:
        self.broker, self.owner, self.queue = Broker(), Owner(), FetchQueue()
        self.clock = world.runtime.clock
        fake = cast("Any", self.broker)
        config = ClientConfig(bootstrap_servers="localhost:9092", default_api_timeout_ms=5000)
        self.crashes: list[tuple[str, BaseException]] = []
        tasks = Tasks()
        tasks.on_crash = lambda name, error: self.crashes.append((name, error))
        context = ConsumerContext(config, world.runtime, Hooks(), fake, fake, tasks)
        self.source = Source(1, context, self.queue, Backoff(0.1, 1.0, Random(1)), cast("Any", self.owner))
        self.cursors = [self.cursor(0), self.cursor(1)]
        self.source.start()

    def cursor(self, partition: int) -> Cursor:
        cursor = Cursor(TopicPartition("orders", partition), ID)
        cursor.follow(1, 3)
        cursor.load()
        cursor.loaded(0)
        self.source.cursors[cursor.tp] = cursor
        return cursor

    @property
    def connection(self) -> Connection:
        return self.broker.connections[-1]

    @property
    def states(self) -> list[State]:
        return [cursor.state for cursor in self.cursors]

    async def settle(self) -> None:
        """Until the loop waits for a response, a wake or a time."""
        for _ in range(10):
            await asyncio.sleep(0)

    async def respond(self, *partitions: dict[str, Any], error_code: int = 0) -> None:
        topic = FetchResponse.FetchableTopicResponse(
            topic_id=ID, partitions=[FetchResponse.PartitionData(**each) for each in partitions]
        )
        response = FetchResponse(error_code=error_code, session_id=7, responses=[topic])
        self.connection.responses[-1].set_result(response)
        await self.settle()

    async def stop(self) -> None:
        self.source.stop()
        for worker in self.owner.workers:
            worker.cancel()
        await asyncio.gather(*self.owner.workers, return_exceptions=True)
        assert not [worker for worker in self.owner.workers if not worker.cancelled() and worker.exception()]


def data(partition: int, first: int = 0, **options: Any) -> dict[str, Any]:
    records: list[PlainRecord] = [(first, 1_700_000_000_000, None, b"x", [])]
    batch = encode_batch(records, base_offset=first, leader_epoch=3)
    return {"partition_index": partition, "error_code": 0, "high_watermark": 9, "records": batch, **options}


def fetching(body: Callable[[Fetching], Awaitable[None]]) -> None:
    async def main(world: World) -> None:
        it = Fetching(world)
        await it.settle()
        try:
            await body(it)
        finally:
            await it.stop()

    in_simulation(main)


def test_one_response_waits_for_the_reader_and_the_next_is_fetched_when_that_is_begun() -> None:
    async def body(it: Fetching) -> None:
        assert it.states == [State.IN_FLIGHT, State.IN_FLIGHT]
        await it.respond(data(0), data(1))
        assert it.states == [State.BUFFERED, State.BUFFERED]
        assert (len(it.queue), len(it.connection.sent)) == (2, 1)
        it.source.wake()
        await it.settle()
        assert len(it.connection.sent) == 1, "the reader has begun nothing"
        first = it.queue.take_nowait()
        assert isinstance(first, PartitionRecords)
        assert it.states == [State.IN_FLIGHT, State.IN_FLIGHT]
        assert len(it.connection.sent) == 2
        it.queue.take_nowait()
        assert it.states == [State.IN_FLIGHT, State.IN_FLIGHT], "the second part of a response begins nothing"
        offsets = [each.fetch_offset for each in it.connection.sent[1].topics[0].partitions]
        assert offsets == [1, 1]
        assert (it.broker.wanted, it.connection.versions) == (1, 1), "for all fetches of one connection"

    fetching(body)


def test_partitions_that_a_response_leaves_out_are_released() -> None:
    async def body(it: Fetching) -> None:
        await it.respond(data(1))
        assert it.states == [State.USABLE, State.BUFFERED]

    fetching(body)


def test_a_cursor_that_waits_no_more_takes_nothing_from_a_response() -> None:
    async def body(it: Fetching) -> None:
        it.cursors[0].follow(2, 4)
        await it.respond(data(0), data(1))
        assert (it.states[0], it.cursors[0].offset) == (State.USABLE, 0)
        assert len(it.queue) == 1

    fetching(body)


def test_a_cursor_that_has_left_while_it_was_buffered_is_routed_when_the_reader_begins() -> None:
    async def body(it: Fetching) -> None:
        it.owner.is_bounded = True
        await it.respond(data(0), data(1))
        moved = it.cursors[0]
        moved.follow(2, 4)
        del it.source.cursors[moved.tp]
        it.queue.take_nowait()
        assert it.owner.routed == [moved]
        assert moved.state is State.USABLE
        assert it.owner.completed == 1

    fetching(body)


def test_problems_go_to_the_session_and_hints_to_metadata() -> None:
    async def body(it: Fetching) -> None:
        leader = FetchResponse.LeaderIdAndEpoch(leader_id=2, leader_epoch=5)
        await it.respond(
            data(0, error_code=6, records=None, current_leader=leader),
            data(1, records=None, preferred_read_replica=4),
        )
        (first, refused), second = it.owner.problems
        assert (first, isinstance(refused, FetchRefused)) == (1, True)
        assert second == (1, ReplicaPreferred(4))
        assert it.broker.hints == [("orders", 0, 2, 5, [])]
        assert len(it.queue) == 0

    fetching(body)


@pytest.mark.parametrize("how", ["lost", "refused", "cancelled"])
def test_no_cursor_stays_in_flight_whatever_ends_the_fetch(how: str) -> None:
    async def body(it: Fetching) -> None:
        if how == "lost":
            it.connection.responses[-1].set_exception(ConnectionLostError("gone"))
            await it.settle()
        elif how == "refused":
            await it.respond(error_code=70)
        else:
            await it.stop()
        assert it.states == [State.USABLE, State.USABLE]
        if how != "cancelled":
            assert len(it.broker.refreshes) == 1
            await it.clock.sleep(1)
            assert (len(it.connection.sent), it.connection.sent[-1].session_epoch) == (2, 0)

    fetching(body)


def test_another_connection_is_wanted_only_when_the_last_is_closed_or_paused() -> None:
    async def body(it: Fetching) -> None:
        it.connection.is_closed = True
        it.broker.connections.append(Connection())
        it.broker.connections[0].responses[0].set_exception(ConnectionLostError("gone"))
        await it.clock.sleep(1)
        assert (it.broker.wanted, len(it.connection.sent), it.connection.versions) == (2, 1, 1)
        it.connection.paused_until = it.clock.monotonic() + 5
        await it.respond()
        assert (it.broker.wanted, len(it.connection.sent)) == (3, 1), (
            "the broker waits until the pause is over"
        )
        it.connection.paused_until = 0.0
        it.broker.pause_ends.set_result(None)
        await it.settle()
        assert len(it.connection.sent) == 2

    fetching(body)


def test_a_broker_that_stays_unreachable_is_an_error_for_the_reader_one_at_a_time() -> None:
    async def body(it: Fetching) -> None:
        it.broker.error = ConnectionLostError("gone")
        it.connection.is_closed = True
        it.connection.responses[-1].set_exception(ConnectionLostError("gone"))
        await it.clock.sleep(4)
        assert len(it.queue) == 0
        await it.clock.sleep(60)
        assert len(it.queue) == 1
        failure = it.queue.take_nowait()
        assert isinstance(failure, Failure)
        await it.clock.sleep(10)
        assert len(it.queue) == 1

    fetching(body)


def test_a_broker_that_comes_back_is_not_asked_about_a_session_from_before() -> None:
    async def body(it: Fetching) -> None:
        await it.respond(data(0), data(1))
        it.broker.error = ConnectionLostError("gone")
        it.connection.is_closed = True
        it.queue.take_nowait()
        await it.clock.sleep(1)
        it.broker.error = None
        it.broker.connections.append(Connection())
        await it.clock.sleep(2)
        assert it.connection.sent[0].session_epoch == 0

    fetching(body)


def test_a_version_that_the_broker_has_not_is_an_error_at_once() -> None:
    async def body(it: Fetching) -> None:
        it.broker.connections.append(Connection())
        it.connection.unsupported = True
        it.broker.connections[0].is_closed = True
        it.broker.connections[0].responses[0].set_exception(ConnectionLostError("gone"))
        await it.clock.sleep(1)
        failure = it.queue.take_nowait()
        assert isinstance(failure, Failure)
        assert isinstance(failure.take_error(), UnsupportedApiError)
        assert it.states == [State.USABLE, State.USABLE]

    fetching(body)


def test_ends_with_its_client_and_tells_the_broker_that_the_fetch_session_is_over() -> None:
    async def body(it: Fetching) -> None:
        await it.respond(data(0))
        it.source.end()
        assert (it.connection.sent[-1].session_id, it.connection.sent[-1].session_epoch) == (7, -1)
        it.connection.responses[-1].set_exception(ConnectionLostError("gone"))
        it.source.reset()
        it.connection.is_closed = True
        it.broker.error = ClientClosedError()
        it.source.wake()
        await it.settle()
        assert len(it.connection.sent) == 2
        assert all(worker.done() for worker in it.owner.workers)

    fetching(body)


def test_a_response_that_comes_after_the_end_changes_nothing() -> None:
    async def body(it: Fetching) -> None:
        late = it.connection.responses[-1]
        await it.stop()
        assert it.states == [State.USABLE, State.USABLE]
        assert late.pending.is_done, "it will not even be decoded"
        late.pending.succeed(FetchResponse(error_code=70))
        await it.settle()
        assert it.broker.refreshes == []
        it.source.reset()
        it.source.start()
        await it.settle()
        assert len(it.connection.sent) == 2
        assert it.connection.sent[-1].session_epoch == 0

    fetching(body)


def test_a_session_that_ends_before_its_connection_was_begun_leaves_the_next_one_free_to_connect() -> None:
    async def body(it: Fetching) -> None:
        await it.stop()
        it.source.reset()
        it.connection.is_closed = True
        it.broker.connections.append(Connection())
        connecting = len(it.owner.workers)
        it.source.start()
        await asyncio.sleep(0)
        assert len(it.owner.workers) == connecting + 1
        await it.stop()
        assert it.broker.wanted == 1, "the task was cancelled before its first step"
        it.source.reset()
        it.source.start()
        await it.settle()
        assert (it.broker.wanted, len(it.connection.sent)) == (2, 1)
        assert it.states == [State.IN_FLIGHT, State.IN_FLIGHT]

    fetching(body)


def test_what_comes_next_of_one_partition_is_requested_by_its_epoch_and_offset_only() -> None:
    async def body(it: Fetching) -> None:
        it.cursors.pop().finish()
        await it.respond(data(0))
        for number in range(1, 4):
            it.queue.take_nowait()
            request = it.connection.sent[-1]
            ((position,),) = [topic.partitions for topic in request.topics]
            assert (request.session_id, request.session_epoch) == (7, number)
            assert (position.partition, position.fetch_offset, position.last_fetched_epoch) == (0, number, 3)
            if number == 2:
                # Another leader epoch is another request.
                it.cursors[0].leader_epoch = 4
            assert position.current_leader_epoch == (3 if number < 3 else 4)
            await it.respond(data(0, number))

    fetching(body)


def test_a_bug_in_it_is_a_crash_and_no_silence() -> None:
    async def body(it: Fetching) -> None:
        response = FetchResponse(session_id=7, responses=cast("Any", [None]))
        it.connection.responses[-1].set_result(response)
        assert [name for name, _ in it.crashes] == ["source 1"]

    fetching(body)


def test_an_id_with_the_bytes_that_stand_for_a_number_is_fetched_all_the_same() -> None:
    async def body(it: Fetching) -> None:
        it.cursors.pop().finish()
        it.cursors[0].topic_id = Uuid(INT32.to_bytes(4) * 4)
        topic = FetchResponse.FetchableTopicResponse(
            topic_id=ID, partitions=[FetchResponse.PartitionData(**data(0))]
        )
        it.connection.responses[-1].set_result(FetchResponse(session_id=7, responses=[topic]))
        it.queue.take_nowait()
        assert it.connection.sent[-1].topics[0].topic_id == it.cursors[0].topic_id
        assert not it.crashes

    fetching(body)


def test_another_partition_of_the_session_that_is_in_flight_is_released_by_the_next_records_of_one() -> None:
    async def body(it: Fetching) -> None:
        await it.respond(data(0), data(1))
        it.queue.take_nowait()
        await it.respond(data(1, 1))
        it.queue.take_nowait()
        it.queue.take_nowait()
        # Only the second has changed, and both are in flight.
        assert it.states == [State.IN_FLIGHT, State.IN_FLIGHT]
        ((position,),) = [topic.partitions for topic in it.connection.sent[-1].topics]
        assert (position.partition, position.fetch_offset) == (1, 2)
        await it.respond(data(1, 2))
        assert it.states == [State.USABLE, State.BUFFERED]
        assert it.cursors[1].offset == 3

    fetching(body)


def test_the_next_records_are_nothing_to_a_cursor_that_waits_no_more_and_an_error_if_they_cannot_be_read() -> (
    None
):
    async def body(it: Fetching) -> None:
        it.cursors.pop().finish()
        await it.respond(data(0))
        it.queue.take_nowait()
        it.cursors[0].follow(1, 9)
        it.cursors[0].rewind(1, 3)
        await it.respond(data(0, 1))
        assert len(it.queue) == 0
        assert it.cursors[0].offset == 1
        assert it.states == [State.IN_FLIGHT], "it is requested again"
        await it.respond(data(0, 0))
        ((node, problem),) = it.owner.problems
        assert (node, isinstance(problem, NoWholeBatch)) == (1, True)

    fetching(body)
