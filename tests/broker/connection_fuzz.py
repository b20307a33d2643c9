"""The connection fuzzer: whole connections full of damage, against a cluster that must serve everyone else.

    python -m tests.broker.connection_fuzz --connections 10000 [--seed N]

Runs in simulation, so everything follows from the seed, which is printed with a failure. A connection says a few
things: requests as Kafka's own known answers have them, damaged ones, wrong sizes, plain garbage; it stops
in the middle, or reads nothing. After every few of them a good client asks and must be answered, and nothing may be
left behind: no task, no connection, no log line about an error that nobody expected.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import struct
import sys
import time
from collections.abc import Callable
from random import Random

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.net.channel import Channel
from ottla.runtime import Runtime
from ottla.sim import SimRuntime, run
from ottla.wire.apis import api_for_key
from ottla.wire.messages import MetadataRequest, MetadataResponse
from tests.wire.fuzz import MUTATIONS
from tests.wire.vectors import message_vectors

_EVERY = 20
_ENOUGH_VIRTUAL_TIME = 1e9


class _Rogue(asyncio.Protocol):
    """A peer that sends whatever it likes."""

    def __init__(self, reads: bool) -> None:
        self._reads = reads
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if not self._reads:
            transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)


class _Unexpected(logging.Handler):
    """Keeps what the broker logs as an error: it expects no input to cause one."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


class Fuzzer:
    """Makes up what connections say."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._vectors = [
            vector
            for vector in message_vectors()
            if vector.cls.__name__.endswith("Request") and vector.cls.API_KEY >= 0
        ]

    def said(self) -> bytes:
        """All bytes of one connection."""
        pieces = [self._piece() for _ in range(self._random.choice([1, 1, 2, 3, 6]))]
        stream = b"".join(pieces)
        if self._random.random() < 0.2:
            stream = stream[: self._random.randrange(len(stream) + 1)]
        return stream

    def _piece(self) -> bytes:
        kind = self._random.random()
        if kind < 0.05:
            return self._random.randbytes(self._random.choice([1, 3, 4, 100, 5000]))
        if kind < 0.1:
            return struct.pack(
                ">i", self._random.choice([-1, -(2**31), 2**31 - 1, 100 * 1024 * 1024 + 1, 0, 1])
            )
        frame = self._request()
        if kind < 0.75:
            for _ in range(self._random.choice([1, 1, 2, 3])):
                if frame:
                    self._random.choice(MUTATIONS)(self._random, frame)
        size = len(frame) if self._random.random() < 0.95 else self._random.randrange(2 * len(frame) + 2)
        return struct.pack(">i", size) + frame

    def _request(self) -> bytearray:
        vector = self._random.choice(self._vectors)
        api = api_for_key(vector.cls.API_KEY)
        header = struct.pack(">hhi", api.key, vector.version, self._random.randrange(2**31))
        client_id = self._random.choice([b"\xff\xff", b"\0\0", b"\0\4fuzz"])
        tags = b"\0" if api.request_header_version(vector.version) == 2 else b""
        return bytearray(header + client_id + tags + vector.data)


async def _served(cluster: AsyncCluster, runtime: Runtime) -> None:
    """A client that does everything right is answered by every node."""
    for node in cluster.nodes.values():
        channel = await Channel.open(runtime, node.host, node.port, client_id="good")
        answer = await channel.request(MetadataRequest(topics=[]), 12, 60.0)
        assert isinstance(answer, MetadataResponse)
        assert len(answer.brokers) == len(cluster.nodes)
        channel.close()
        await channel.wait_closed()


async def _misbehave(runtime: Runtime, random: Random, host: str, port: int, said: bytes) -> None:
    rogue = await runtime.connect(host, port, lambda: _Rogue(reads=random.random() < 0.8))
    assert isinstance(rogue, _Rogue)
    rogue.transport.write(said)
    timer = runtime.clock.call_later(random.choice([0.001, 0.1, 5.0]), rogue.transport.abort)
    await rogue.lost
    timer.cancel()


def fuzz(connections: int, seed: int, progress: Callable[[int], None] = lambda done: None) -> int:
    """Opens that many connections, some at the same time; how many bytes they said."""
    random = Random(seed)
    fuzzer = Fuzzer(random)
    unexpected = _Unexpected()
    said = 0

    async def main(runtime: SimRuntime) -> None:
        nonlocal said
        async with AsyncCluster(2, topics={"orders": 2}, runtime=runtime) as cluster:
            for done in range(0, connections, _EVERY):
                streams = [fuzzer.said() for _ in range(min(_EVERY, connections - done))]
                said += sum(map(len, streams))
                nodes = [random.choice(list(cluster.nodes.values())) for _ in streams]
                await asyncio.gather(
                    *(
                        _misbehave(runtime, random, node.host, node.port, stream)
                        for node, stream in zip(nodes, streams, strict=True)
                    )
                )
                await _served(cluster, runtime)
                await cluster.wait_for(
                    lambda: not any(node.connections for node in cluster.nodes.values()),
                    "every connection's end",
                )
                if unexpected.records:
                    raise AssertionError(unexpected.records[0].getMessage()) from (
                        unexpected.records[0].exc_info[1] if unexpected.records[0].exc_info else None
                    )
                progress(done + len(streams))

    logger = logging.getLogger("ottla")
    logger.addHandler(unexpected)
    try:
        run(main, seed=seed, limit=_ENOUGH_VIRTUAL_TIME)
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    finally:
        logger.removeHandler(unexpected)
    return said


def main() -> int:
    parser = argparse.ArgumentParser(description="Connections full of damage must harm nobody else.")
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=None, help="default: the time, printed")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else time.time_ns() % 1_000_000_007
    logging.getLogger("ottla").addHandler(logging.NullHandler())
    logging.getLogger("ottla").propagate = False

    def progress(done: int) -> None:
        print(f"\r{done:>9,} of {options.connections:,}", end="", file=sys.stderr, flush=True)

    said = fuzz(options.connections, seed, progress)
    print(f"\nseed {seed}: {options.connections:,} connections said {said:,} bytes; everyone else was served")
    return 0


if __name__ == "__main__":
    sys.exit(main())
