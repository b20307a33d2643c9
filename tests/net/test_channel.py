"""Asking over a connection: every pending ends, and with its own answer."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any, cast

import pytest

from ottla.errors import ConnectionLostError, DecodeError, EncodeError, KafkaError, ProtocolError
from ottla.net.channel import Channel, PendingRequest
from ottla.net.connection import Connection
from ottla.runtime import Listener, MovableClock, Runtime, SystemRuntime
from ottla.wire import Message, decode_request, encode_response
from ottla.wire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    ProduceRequest,
)
from tests.net.peers import Recorder
from tests.net.worlds import World, both_worlds, sockets


def answer(frame: bytes) -> bytes:
    """A heartbeat is answered with its generation as error code, anything else with what ApiVersions says."""
    header, request = decode_request(frame)
    response: HeartbeatResponse | ApiVersionsResponse = ApiVersionsResponse()
    if isinstance(request, HeartbeatRequest):
        response = HeartbeatResponse(error_code=request.generation_id)
    return b"".join(encode_response(response, header.request_api_version, header.correlation_id))


class Answering(Recorder):
    """A server that answers at once."""

    def __init__(self) -> None:
        super().__init__(on_frame=lambda connection, frame: connection.send([answer(bytes(frame))]))


async def serve(
    runtime: Runtime, server: Recorder, max_frame_size: int | None = None
) -> tuple[Listener, Channel]:
    listener = await runtime.listen("127.0.0.1", 0, lambda: Connection(server))
    options: dict[str, Any] = {} if max_frame_size is None else {"max_frame_size": max_frame_size}
    return listener, await Channel.open(runtime, listener.host, listener.port, client_id="tester", **options)


async def finish(listener: Listener, channel: Channel, server: Recorder) -> None:
    channel.close()
    await channel.wait_closed()
    await server.until_lost()
    await listener.close()


def heartbeat(number: int) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=number, member_id="m")


@both_worlds
def test_an_answer_is_decoded_at_the_version_of_its_question(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        server = Answering()
        listener, channel = await serve(runtime, server)
        for version in (0, 4):
            assert await channel.request(heartbeat(7), version) == HeartbeatResponse(error_code=7)
        assert await channel.request(ApiVersionsRequest(), 3, timeout=60) == ApiVersionsResponse()
        assert decode_request(server.frames[0])[0].client_id == "tester"
        await finish(listener, channel, server)

    world(main)


@both_worlds
def test_many_questions_may_be_under_way(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        server = Answering()
        listener, channel = await serve(runtime, server)
        answers = await asyncio.gather(*[channel.request(heartbeat(number), 4) for number in range(300)])
        assert answers == [HeartbeatResponse(error_code=number) for number in range(300)]
        await finish(listener, channel, server)

    world(main)


@both_worlds
def test_answers_find_their_questions_in_any_order(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        server = Recorder()
        listener, channel = await serve(runtime, server)
        asking = asyncio.gather(*[channel.request(heartbeat(number), 4) for number in range(10)])
        await server.until_frames(10)
        for frame in reversed(server.frames):
            server.connection.send([answer(frame)])
        assert await asking == [HeartbeatResponse(error_code=number) for number in range(10)]
        await finish(listener, channel, server)

    world(main)


@both_worlds
def test_a_question_times_out_and_its_late_answer_is_dropped(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        server = Recorder()
        listener, channel = await serve(runtime, server)
        with pytest.raises(TimeoutError, match=r"did not answer within 0\.05 seconds"):
            await channel.request(heartbeat(1), 4, timeout=0.05)
        await server.until_frames(1)
        second = asyncio.ensure_future(channel.request(heartbeat(2), 4))
        await server.until_frames(2)
        for frame in server.frames:
            server.connection.send([answer(frame)])
        assert await second == HeartbeatResponse(error_code=2)
        assert not channel.is_closed
        await finish(listener, channel, server)

    world(main)


def test_timeouts_are_of_the_runtimes_clock() -> None:
    async def main(_: Runtime) -> None:
        clock = MovableClock()
        server = Recorder()
        listener, channel = await serve(SystemRuntime(clock), server)
        asking = asyncio.ensure_future(channel.request(heartbeat(1), 4, timeout=3600))
        await server.until_frames(1)
        clock.advance(3600)
        with pytest.raises(TimeoutError):
            await asking
        await finish(listener, channel, server)

    sockets(main)


@both_worlds
def test_a_question_that_is_given_up_leaves_the_others_alone(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        server = Recorder()
        listener, channel = await serve(runtime, server)
        first, second = (
            asyncio.ensure_future(channel.request(heartbeat(number), 4, timeout=60)) for number in (1, 2)
        )
        await server.until_frames(2)
        first.cancel()
        for frame in server.frames:
            server.connection.send([answer(frame)])
        assert await second == HeartbeatResponse(error_code=2)
        with pytest.raises(asyncio.CancelledError):
            await first
        await finish(listener, channel, server)

    world(main)


def end_within_a_frame(server: Recorder, channel: Channel) -> None:
    server.connection.send([b"\0\0\1\0"])
    server.connection.close()


ENDINGS: dict[str, Callable[[Recorder, Channel], None]] = {
    "the server closes": lambda server, channel: server.connection.close(),
    "the server aborts": lambda server, channel: server.connection.abort(),
    "the client closes": lambda server, channel: channel.close(),
    "the server ends within a frame": end_within_a_frame,
}


@both_worlds
@pytest.mark.parametrize("ending", ENDINGS)
def test_everyone_who_waits_learns_of_the_end(world: World[None], ending: str) -> None:
    async def main(runtime: Runtime) -> None:
        server = Recorder()
        listener, channel = await serve(runtime, server)
        asking = asyncio.gather(*[channel.request(heartbeat(n), 4) for n in range(3)], return_exceptions=True)
        await server.until_frames(3)
        ENDINGS[ending](server, channel)
        errors = await asking
        assert [type(error) for error in errors] == [ConnectionLostError] * 3
        assert all(channel.peer in str(error) for error in errors)
        await channel.wait_closed()
        assert channel.is_closed
        with pytest.raises(ConnectionLostError):
            await channel.request(heartbeat(1), 4)
        with pytest.raises(ConnectionLostError):
            channel.send_oneway(ProduceRequest(acks=0), 9)
        await server.until_lost()
        await listener.close()

    world(main)


def test_the_end_is_a_connection_error_that_says_why() -> None:
    async def main(runtime: Runtime) -> None:
        server = Recorder()
        listener, channel = await serve(runtime, server, max_frame_size=100)
        asking = asyncio.ensure_future(channel.request(heartbeat(1), 4))
        await server.until_frames(1)
        server.connection.send([struct.pack(">i", 101)])
        with pytest.raises(ConnectionError, match="a frame claims 101 bytes, 100 are allowed") as caught:
            await asking
        assert isinstance(caught.value.__cause__, DecodeError)
        await finish(listener, channel, server)

    sockets(main)


@both_worlds
@pytest.mark.parametrize("frame", [b"\0\0\0\4\0\0\0\x63", b"\0\0\0\1x"])
def test_an_answer_that_nobody_asked_for_ends_the_connection(world: World[None], frame: bytes) -> None:
    async def main(runtime: Runtime) -> None:
        server = Recorder()
        listener, channel = await serve(runtime, server)
        asking = asyncio.ensure_future(channel.request(heartbeat(1), 4))
        await server.until_frames(1)
        server.connection.send([frame])
        with pytest.raises(ConnectionLostError, match="responds to no pending request") as caught:
            await asking
        assert isinstance(caught.value.__cause__, ProtocolError)
        await server.until_lost()
        await listener.close()

    world(main)


@both_worlds
def test_an_answer_that_cannot_be_read_costs_its_question_only(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        server = Recorder()
        listener, channel = await serve(runtime, server)
        asking = asyncio.ensure_future(channel.request(heartbeat(1), 4))
        await server.until_frames(1)
        correlation_id = decode_request(server.frames[0])[0].correlation_id
        server.connection.send([struct.pack(">ii", 4, correlation_id)])
        with pytest.raises(DecodeError):
            await asking
        assert not channel.is_closed
        await finish(listener, channel, server)

    world(main)


@both_worlds
def test_what_has_no_answer_is_told_and_not_asked(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        server = Recorder()
        listener, channel = await serve(runtime, server)
        channel.send_oneway(ProduceRequest(acks=0), 9)
        asking = asyncio.ensure_future(channel.request(heartbeat(5), 4))
        await server.until_frames(2)
        assert decode_request(server.frames[0])[1] == ProduceRequest(acks=0)
        server.connection.send([answer(server.frames[1])])
        assert await asking == HeartbeatResponse(error_code=5)
        await finish(listener, channel, server)

    world(main)


@both_worlds
def test_what_is_submitted_is_sent_before_the_call_returns(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        server = Answering()
        listener, channel = await serve(runtime, server)
        pending_requests = [channel.send(heartbeat(number), 4) for number in range(3)]
        assert list(channel.pending) == pending_requests
        for number, pending in enumerate(pending_requests):
            assert await pending.future == HeartbeatResponse(error_code=number)
        sent = [cast(HeartbeatRequest, decode_request(frame)[1]).generation_id for frame in server.frames]
        assert sent == [0, 1, 2]
        assert [pending.size for pending in pending_requests] == [len(frame) + 4 for frame in server.frames]
        assert not list(channel.pending)
        await finish(listener, channel, server)

    world(main)


@both_worlds
def test_a_request_beyond_the_bound_is_not_sent(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        server = Answering()
        listener, channel = await serve(runtime, server)
        with pytest.raises(EncodeError, match=r"a HeartbeatRequest of \d+ bytes is not sent.*more than 10"):
            channel.send(heartbeat(1), 4, max_size=10)
        with pytest.raises(EncodeError):
            channel.send_oneway(heartbeat(1), 4, max_size=10)
        assert await channel.request(heartbeat(2), 4) == HeartbeatResponse(error_code=2)
        assert len(server.frames) == 1
        await finish(listener, channel, server)

    world(main)


def records(size: int) -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(index=0, records=bytes(size))
    return ProduceRequest(topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=[data])])


class Watching:
    """An Observer that keeps what it is told."""

    def __init__(self) -> None:
        self.ends_of_requests: list[tuple[int, type[object]]] = []
        self.ends: list[Exception | None] = []
        self.closes = 0
        self.has_drained = asyncio.Event()

    def drained(self) -> None:
        self.has_drained.set()

    def closed(self) -> None:
        self.closes += 1

    def request_done(
        self, pending: PendingRequest, size: int, response: Message | None, error: KafkaError | None
    ) -> None:
        self.ends_of_requests.append((size, type(error)))

    def ended(self, error: Exception | None) -> None:
        self.ends.append(error)


@both_worlds
def test_an_observer_hears_when_everything_has_gone_to_the_system(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        server, watching = Recorder(), Watching()
        listener = await runtime.listen("127.0.0.1", 0, lambda: Connection(server))
        channel = await Channel.open(runtime, listener.host, listener.port, observer=watching)
        await server.until(lambda: bool(server.connections))
        server.connection.pause()
        while channel.pending_bytes < 1 << 20:
            channel.send_oneway(records(1 << 20), 9)
        assert not watching.has_drained.is_set()
        server.connection.resume()
        await watching.has_drained.wait()
        assert channel.pending_bytes == 0
        await finish(listener, channel, server)

    world(main)


@both_worlds
def test_an_observer_hears_of_every_request_once_and_of_the_end(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        server, watching = Recorder(), Watching()
        listener = await runtime.listen("127.0.0.1", 0, lambda: Connection(server))
        channel = await Channel.open(runtime, listener.host, listener.port, observer=watching)
        answered, given_up, lost = (channel.send(heartbeat(number), 4) for number in range(3))
        await server.until_frames(3)
        given_up.future.cancel()
        for frame in server.frames[:2]:
            server.connection.send([answer(frame)])
        await answered.future
        reason = TimeoutError("too late")
        assert watching.closes == 0
        channel.abort(reason)
        assert watching.closes == 1
        with pytest.raises(ConnectionLostError, match="too late"):
            await lost.future
        await channel.wait_closed()
        sizes = [len(answer(frame)) - 4 for frame in server.frames]
        # Where the second answer was still on its way, the end settles its pending.
        settled = [(sizes[0], type(None)), (0, ConnectionLostError)]
        assert watching.ends_of_requests in (
            [settled[0], (sizes[1], type(None)), settled[1]],
            [settled[0], settled[1], settled[1]],
        )
        assert watching.ends == [reason]
        assert watching.closes == 1
        await server.until_lost()
        await listener.close()

    world(main)


def test_correlation_ids_start_again_at_zero_and_skip_those_under_way() -> None:
    async def main(runtime: Runtime) -> None:
        server = Recorder()
        listener, channel = await serve(runtime, server)
        zero = asyncio.ensure_future(channel.request(heartbeat(0), 4))
        await server.until_frames(1)
        channel._last_correlation_id = 0x7FFFFFFE
        rest = [asyncio.ensure_future(channel.request(heartbeat(number), 4)) for number in (1, 2)]
        await server.until_frames(3)
        ids = [decode_request(frame)[0].correlation_id for frame in server.frames]
        assert ids == [0, 0x7FFFFFFF, 1]
        for frame in server.frames:
            server.connection.send([answer(frame)])
        assert [cast(HeartbeatResponse, await task).error_code for task in (zero, *rest)] == [0, 1, 2]
        await finish(listener, channel, server)

    sockets(main)


@both_worlds
def test_where_nobody_listens_the_systems_error_is_raised(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        listener = await runtime.listen("127.0.0.1", 0, lambda: Connection(Recorder()))
        await listener.close()
        with pytest.raises(ConnectionRefusedError):
            await Channel.open(runtime, listener.host, listener.port)

    world(main)


@both_worlds
def test_a_request_with_a_callback_has_it_called_once_with_the_response_or_the_loss(
    world: World[None],
) -> None:
    async def main(runtime: Runtime) -> None:
        server = Recorder()
        listener = await runtime.listen("127.0.0.1", 0, lambda: Connection(server))
        channel = await Channel.open(runtime, listener.host, listener.port)
        done: list[PendingRequest] = []
        is_called = asyncio.Event()

        def on_done(pending: PendingRequest) -> None:
            done.append(pending)
            is_called.set()

        first, lost = (channel.send(heartbeat(number), 4, on_done=on_done) for number in range(2))
        await server.until_frames(2)
        server.connection.send([answer(server.frames[0])])
        await is_called.wait()
        assert done == [first]
        assert first.is_done
        assert first.response == HeartbeatResponse(error_code=0)
        channel.close()
        # The caller of `close` is not called back while it closes.
        assert done == [first]
        await channel.wait_closed()
        await asyncio.sleep(0)
        assert done == [first, lost]
        assert isinstance(lost.error, ConnectionLostError)
        await server.until_lost()
        await listener.close()

    world(main)
