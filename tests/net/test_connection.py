"""Connections: the same behaviour on sockets and in memory."""

from __future__ import annotations

import asyncio
import gc
import logging
import struct
import tracemalloc
import weakref
from typing import Any, cast

import pytest

from ottla.errors import ConnectionLostError, DecodeError
from ottla.net.connection import PIECE, Connection
from ottla.net.memory import ImmediatePath, MemoryTransport
from ottla.runtime import Runtime, SystemRuntime
from tests.net.peers import RawPeer, Recorder, connect, connect_raw, framed, listen
from tests.net.worlds import World, both_worlds, sockets

SIZES = [0, 1, 100, 65_536, 262_140, 262_141, 1 << 20, (1 << 20) + 1, 5 << 20]


@both_worlds
def test_frames_arrive_as_they_were_sent(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        server, client = Recorder(), Recorder()
        listener = await listen(runtime, server)
        connection = await connect(runtime, listener, client)
        frames = [bytes([number]) * size for number, size in enumerate(SIZES)]
        for frame in frames:
            connection.send([framed(frame)[:4], frame])
        await server.until_frames(len(frames))
        assert server.frames == frames
        await end(listener.close(), connection, client, server)

    world(main)


@both_worlds
def test_both_ends_know_each_other_and_learn_of_a_clean_end(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        server, client = Recorder(), Recorder()
        listener = await listen(runtime, server)
        connection = await connect(runtime, listener, client)
        assert client.connections == [connection]
        assert connection.peer == f"127.0.0.1:{listener.port}"
        assert connection.peer_host == "127.0.0.1"
        await server.until(lambda: bool(server.connections))
        assert server.connection.peer.startswith(f"{server.connection.peer_host}:")
        connection.close()
        assert connection.is_closed
        await client.until_lost()
        await server.until_lost()
        assert (client.losses, server.losses) == ([None], [None])
        assert server.connection.is_closed
        await listener.close()

    world(main)


@both_worlds
def test_a_stream_may_be_cut_anywhere(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        server = Recorder()
        listener = await listen(runtime, server)
        peer = await connect_raw(runtime, listener)
        frames = [b"", b"a", b"bc" * 100, bytes(70_000)]
        stream = framed(*frames)
        for start, stop in (
            (0, 1),
            (1, 3),
            (3, 6),
            (6, 9),
            (9, 300),
            (300, len(stream) - 1),
            (len(stream) - 1, None),
        ):
            peer.transport.write(stream[start:stop])
            await asyncio.sleep(0)
        await server.until_frames(4)
        assert server.frames == frames
        await close_raw(peer, server)
        await listener.close()

    world(main)


@both_worlds
def test_nothing_is_delivered_while_paused(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        server = Recorder(on_frame=lambda connection, _: connection.pause())
        listener = await listen(runtime, server)
        peer = await connect_raw(runtime, listener)
        frames = [b"one", b"two", bytes(100_000), b"four"]
        peer.transport.write(framed(*frames))
        for count in range(1, 5):
            await server.until_frames(count)
            for _ in range(10):
                await asyncio.sleep(0)
            assert server.frames == frames[:count]
            server.connection.resume()
        await server.until_frames(4)
        await close_raw(peer, server)
        await listener.close()

    world(main)


@both_worlds
def test_what_was_sent_before_the_end_is_delivered_although_paused(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        server = Recorder(on_frame=lambda connection, _: connection.pause())
        listener = await listen(runtime, server)
        peer = await connect_raw(runtime, listener)
        peer.transport.write(framed(b"one", b"two", bytes(300_000), b"four"))
        peer.transport.close()
        for count in range(1, 5):
            await server.until_frames(count)
            assert server.losses == []
            server.connection.resume()
        await server.until_lost()
        assert [len(frame) for frame in server.frames] == [3, 3, 300_000, 4]
        assert server.losses == [None]
        await listener.close()

    world(main)


@both_worlds
def test_a_paused_connection_still_notices_that_its_peer_is_gone(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        server = Recorder(on_frame=lambda connection, _: connection.pause())
        listener = await listen(runtime, server)
        peer = await connect_raw(runtime, listener)
        peer.transport.write(framed(b"question"))
        await server.until_frames(1)
        peer.transport.close()
        await server.until_lost()
        assert server.losses == [None]
        await listener.close()

    world(main)


@both_worlds
def test_a_receiver_may_pause_and_resume_inside_of_received(world: World[None]) -> None:
    depth, deepest = 0, 0

    def flip(connection: Connection, frame: memoryview) -> None:
        nonlocal depth, deepest
        depth += 1
        deepest = max(deepest, depth)
        connection.pause()
        connection.send([b"\0\0\0\1", bytes(frame[:1])])
        connection.resume()
        depth -= 1

    async def main(runtime: Runtime) -> None:
        server = Recorder(on_frame=flip)
        listener = await listen(runtime, server)
        peer = await connect_raw(runtime, listener)
        peer.transport.write(framed(*[b"x%d" % number for number in range(5000)]))
        await peer.until(lambda: len(peer.data) == 5000 * 5)
        assert server.frames == [b"x%d" % number for number in range(5000)]
        await close_raw(peer, server)
        await listener.close()

    world(main)
    assert deepest == 1


@both_worlds
def test_nothing_is_delivered_after_a_close_inside_of_received(world: World[None]) -> None:
    def answer_and_close(connection: Connection, frame: memoryview) -> None:
        connection.send([bytes(frame)])
        connection.close()

    async def main(runtime: Runtime) -> None:
        server = Recorder(on_frame=answer_and_close)
        listener = await listen(runtime, server)
        peer = await connect_raw(runtime, listener)
        peer.transport.write(framed(b"last", b"too late"))
        await peer.until_lost()
        assert server.frames == [b"last"]
        assert peer.data == b"last"
        await listener.close()

    world(main)


@both_worlds
@pytest.mark.parametrize("size", [-1, 1001])
def test_a_wrong_size_is_logged_and_ends_the_connection(
    world: World[None], size: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(runtime: Runtime) -> None:
        server = Recorder()
        listener = await listen(runtime, server, max_frame_size=1000)
        peer = await connect_raw(runtime, listener)
        peer.transport.write(framed(b"fine") + struct.pack(">i", size) + b"never looked at")
        await server.until_lost()
        await peer.until_lost()
        assert server.frames == [b"fine"]
        (error,) = server.losses
        assert isinstance(error, DecodeError)
        assert str(size) in str(error)
        (record,) = (record for record in caplog.records if record.name == "ottla.net")
        assert record.levelno == logging.WARNING
        assert server.connection.peer in record.getMessage()
        assert str(size) in record.getMessage()
        await listener.close()

    world(main)


@both_worlds
@pytest.mark.parametrize("how", ["close", "abort", "a wrong size", "the peer"])
def test_that_a_connection_is_closed_is_said_once_and_no_later_than_its_loss(
    world: World[None], how: str
) -> None:
    async def main(runtime: Runtime) -> None:
        server = Recorder()
        said: list[tuple[bool, int]] = []
        connection = Connection(
            server, 1000, on_closed=lambda: said.append((connection.is_closed, len(server.losses)))
        )
        listener = await runtime.listen("127.0.0.1", 0, lambda: connection)
        peer = await connect_raw(runtime, listener)
        await server.until(lambda: bool(server.connections))
        assert not said
        match how:
            case "close":
                connection.close()
            case "abort":
                connection.abort()
            case "a wrong size":
                peer.transport.write(struct.pack(">i", -1))
            case _:
                peer.transport.close()
        await server.until_lost()
        assert said == [(True, 0)]
        await peer.until_lost()
        await listener.close()

    world(main)


@both_worlds
@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"\0\0", "2 of the 4 bytes of a frame's size"),
        (framed(b"whole", b"half")[:-2], "2 of the 4 bytes of a frame"),
        (framed(bytes(400_000))[:-1], "399999 of the 400000 bytes of a frame"),
    ],
)
def test_an_end_within_a_frame_is_an_error(world: World[None], sent: bytes, told: str) -> None:
    async def main(runtime: Runtime) -> None:
        server = Recorder()
        listener = await listen(runtime, server)
        peer = await connect_raw(runtime, listener)
        peer.transport.write(sent)
        peer.transport.close()
        await server.until_lost()
        (error,) = server.losses
        assert isinstance(error, ConnectionLostError)
        assert str(error) == f"{server.connection.peer} closed the connection after {told}"
        await listener.close()

    world(main)


@both_worlds
def test_a_slow_reader_is_waited_for_and_told_of(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        server = Recorder()
        listener = await listen(runtime, server)
        peer = await connect_raw(runtime, listener)
        peer.transport.pause_reading()
        await server.until(lambda: bool(server.connections))
        connection = server.connection
        assert takes_all(connection)
        body = bytes(range(256)) * (64 << 10)  # 16 MiB
        connection.send([framed(body)[:4], memoryview(body)])
        connection.send([framed(b"small")])
        assert not takes_all(connection)
        assert 0 < connection.pending_bytes <= len(body) + 13
        assert cast(Any, connection)._transport.get_write_buffer_size() <= PIECE
        peer.transport.resume_reading()
        await server.until(lambda: server.drains == 1)
        assert takes_all(connection)
        await peer.until(lambda: len(peer.data) == len(body) + 13)
        assert peer.data == framed(body, b"small")
        connection.send([framed(b"the socket takes this at once")])
        assert takes_all(connection)
        assert server.drains == 1
        await close_raw(peer, server)
        await listener.close()

    world(main)


@both_worlds
def test_what_was_sent_goes_out_before_a_close(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        server = Recorder()
        listener = await listen(runtime, server)
        peer = await connect_raw(runtime, listener)
        peer.transport.pause_reading()
        await server.until(lambda: bool(server.connections))
        server.connection.send([bytes(16 << 20)])
        server.connection.close()
        server.connection.close()
        server.connection.send([b"too late"])
        peer.transport.resume_reading()
        await peer.until_lost()
        await server.until_lost()
        assert len(peer.data) == 16 << 20
        assert server.losses == [None]
        assert server.drains == 0
        await listener.close()

    world(main)


@both_worlds
def test_an_abort_drops_what_was_sent_and_hands_its_error_to_the_receiver(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        server, client = Recorder(), Recorder()
        listener = await listen(runtime, server)
        connection = await connect(runtime, listener, client)
        connection.send([framed(bytes(32 << 20))])
        why = ConnectionLostError("enough")
        connection.abort(why)
        connection.abort(ConnectionLostError("not this one"))
        assert connection.is_closed
        await client.until_lost()
        await server.until_lost()
        assert client.losses == [why]
        connection.send([b"ignored"])
        connection.pause()
        connection.resume()
        await listener.close()

    world(main)


@both_worlds
def test_a_peer_that_vanishes_ends_a_connection_that_still_sends(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        server = Recorder()
        listener = await listen(runtime, server)
        peer = await connect_raw(runtime, listener)
        await server.until(lambda: bool(server.connections))
        peer.transport.abort()
        server.connection.send([bytes(32 << 20)])
        await server.until_lost()
        assert server.connection.is_closed
        assert server.drains == 0
        await listener.close()

    world(main)


@both_worlds
def test_a_closed_listener_refuses_and_its_connections_stay(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        server, client = Recorder(), Recorder()
        listener = await listen(runtime, server)
        connection = await connect(runtime, listener, client)
        await server.until(lambda: bool(server.connections))
        await listener.close()
        with pytest.raises(ConnectionRefusedError):
            await connect(runtime, listener, client)
        connection.send([framed(b"still here")])
        await server.until_frames(1)
        connection.close()
        await client.until_lost()
        await server.until_lost()

    world(main)


@both_worlds
def test_a_receiver_that_fails_costs_its_own_connection_only(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        failures: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))

        def fail(connection: Connection, frame: memoryview) -> None:
            if bytes(frame) == b"bad":
                raise ZeroDivisionError

        server = Recorder(on_frame=fail)
        listener = await listen(runtime, server)
        bad, good = await connect_raw(runtime, listener), await connect_raw(runtime, listener)
        bad.transport.write(framed(b"bad", b"never"))
        await bad.until_lost()
        await server.until_lost()
        assert isinstance(server.losses[0], ZeroDivisionError)
        good.transport.write(framed(b"good"))
        await server.until_frames(2)
        assert server.frames == [b"bad", b"good"]
        assert [type(failure["exception"]) for failure in failures] == [ZeroDivisionError]
        await close_raw(good, server, losses=2)
        await listener.close()

    world(main)


@both_worlds
def test_a_lost_connection_is_freed_without_the_garbage_collector(world: World[None]) -> None:
    async def main(runtime: Runtime) -> None:
        server, client = Recorder(), Recorder()
        listener = await listen(runtime, server)
        connection = await connect(runtime, listener, client)
        connection.send([framed(b"x")])
        await server.until_frames(1)
        ref = weakref.ref(connection)
        connection.close()
        await client.until_lost()
        await server.until_lost()
        client.connections.clear()
        del connection
        await asyncio.sleep(0)
        assert ref() is None
        await listener.close()

    gc.disable()
    try:
        world(main)
    finally:
        gc.enable()


@both_worlds
@pytest.mark.parametrize("way", ["close", "abort"])
def test_a_receiver_may_refuse_a_connection_as_soon_as_it_is_there(world: World[None], way: str) -> None:
    class Refusing(Recorder):
        def connected(self, connection: Connection) -> None:
            connection.send([b"no"])
            getattr(connection, way)()

    async def main(runtime: Runtime) -> None:
        server = Refusing()
        listener = await listen(runtime, server)
        peer = await connect_raw(runtime, listener)
        peer.transport.write(framed(b"hello"))
        await peer.until_lost()
        await server.until_lost()
        assert server.frames == []
        await listener.close()

    world(main)


def test_connections_of_a_loop_share_their_scratch_buffer() -> None:
    async def main(runtime: Runtime) -> memoryview:
        server = Recorder()
        listener = await listen(runtime, server)
        peers = [await connect_raw(runtime, listener) for _ in range(3)]
        await server.until(lambda: len(server.connections) == 3)
        rooms = [connection.get_buffer(-1) for connection in server.connections]
        assert all(room.obj is rooms[0].obj for room in rooms)
        for peer in peers:
            peer.transport.close()
        await server.until(lambda: len(server.losses) == 3)
        await listener.close()
        return rooms[0]

    assert sockets(main).obj is not sockets(main).obj


def test_a_silent_connection_costs_less_than_a_kilobyte() -> None:
    async def main() -> int:
        receiver = Recorder()
        ends = MemoryTransport.joined((ImmediatePath(), ImmediatePath()), (("a", 1), ("b", 2)))
        Connection(receiver).connection_made(ends[0])
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(1000):
                Connection(receiver).connection_made(ends[0])
            return tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()

    assert asyncio.run(main()) < 1000 * 1024


def test_an_address_of_the_sixth_version_is_shown_in_brackets() -> None:
    async def main(runtime: Runtime) -> None:
        server = Recorder()
        try:
            listener = await runtime.listen("::1", 0, lambda: Connection(server))
        except OSError as error:
            pytest.skip(f"no IPv6 here: {error}")
        peer = cast(RawPeer, await runtime.connect("::1", listener.port, RawPeer))
        await server.until(lambda: bool(server.connections))
        assert server.connection.peer_host == "::1"
        assert server.connection.peer.startswith("[::1]:")
        await close_raw(peer, server)
        await listener.close()

    asyncio.run(main(SystemRuntime()))


def takes_all(connection: Connection) -> bool:
    assert connection.is_writable == (connection.pending_bytes == 0)
    return connection.is_writable


async def close_raw(peer: RawPeer, server: Recorder, losses: int = 1) -> None:
    peer.transport.close()
    await peer.until_lost()
    await server.until(lambda: len(server.losses) == losses)


async def end(closing: Any, connection: Connection, *receivers: Recorder) -> None:
    connection.close()
    for receiver in receivers:
        await receiver.until_lost()
    await closing
