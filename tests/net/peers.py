"""Both ends of a connection for tests: a Receiver that remembers, and a peer that sends any bytes it likes."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import cast

from ottla.net.connection import Connection
from ottla.runtime import Listener, Runtime
from ottla.wire.frames import DEFAULT_MAX_FRAME_SIZE


def framed(*frames: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


class Waits:
    """Lets a test wait until something holds, without looking again and again."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def changed(self) -> None:
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()


class Recorder(Waits):
    """A Receiver that keeps what it is told, and does what `on_frame` says."""

    def __init__(self, on_frame: Callable[[Connection, memoryview], object] | None = None) -> None:
        super().__init__()
        self.frames: list[bytes] = []
        self.drains = 0
        self.losses: list[Exception | None] = []
        self.connections: list[Connection] = []
        self._on_frame = on_frame

    @property
    def connection(self) -> Connection:
        return self.connections[-1]

    def connected(self, connection: Connection) -> None:
        self.connections.append(connection)
        self.changed()

    def received(self, connection: Connection, frame: memoryview) -> None:
        assert not frame.readonly
        self.frames.append(bytes(frame))
        if self._on_frame is not None:
            self._on_frame(connection, frame)
        self.changed()

    def drained(self, connection: Connection) -> None:
        self.drains += 1
        self.changed()

    def lost(self, connection: Connection, error: Exception | None) -> None:
        self.losses.append(error)
        self.changed()

    async def until_frames(self, count: int) -> None:
        await self.until(lambda: len(self.frames) >= count)

    async def until_lost(self) -> None:
        await self.until(lambda: bool(self.losses))


class RawPeer(asyncio.Protocol, Waits):
    """A peer that knows nothing of frames."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        Waits.__init__(self)
        self.data = bytearray()
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.changed()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self.changed()

    async def until_lost(self) -> None:
        await self.until(lambda: self.lost)


async def listen(
    runtime: Runtime, receiver: Recorder, max_frame_size: int = DEFAULT_MAX_FRAME_SIZE
) -> Listener:
    return await runtime.listen("127.0.0.1", 0, lambda: Connection(receiver, max_frame_size))


async def connect(runtime: Runtime, listener: Listener, receiver: Recorder) -> Connection:
    connection = await runtime.connect(listener.host, listener.port, lambda: Connection(receiver))
    return cast(Connection, connection)


async def connect_raw(runtime: Runtime, listener: Listener) -> RawPeer:
    return cast(RawPeer, await runtime.connect(listener.host, listener.port, RawPeer))
