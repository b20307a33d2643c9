"""Transports in memory keep the promises of asyncio's own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.net.memory import Arrive, ImmediatePath, MemoryTransport, PacketKind
from tests.net.peers import Waits

ADDRESSES = (("here", 1), ("there", 2))


class Plain(asyncio.Protocol, Waits):
    """Writes down every call."""

    def __init__(self, keep_open: bool = False) -> None:
        Waits.__init__(self)
        self.calls: list[Any] = []
        self.data = b""
        self._keep_open = keep_open

    def _note(self, call: Any) -> None:
        self.calls.append(call)
        self.changed()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._note("made")

    def data_received(self, data: bytes) -> None:
        self.data += data
        self._note(len(data))

    def eof_received(self) -> bool:
        self._note("eof")
        return self._keep_open

    def pause_writing(self) -> None:
        self._note("pause")

    def resume_writing(self) -> None:
        self._note("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self._note(("lost", type(exc).__name__ if exc else None))


class Buffered(asyncio.BufferedProtocol, Waits):
    """Receives ten bytes at a time."""

    def __init__(self) -> None:
        Waits.__init__(self)
        self.room = bytearray(10)
        self.data = b""

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.room

    def buffer_updated(self, nbytes: int) -> None:
        self.data += self.room[:nbytes]
        self.changed()


class Held(ImmediatePath):
    """Lets nothing through until told."""

    def __init__(self) -> None:
        self.packets: list[tuple[PacketKind, bytes, Arrive]] = []

    def carry(self, kind: PacketKind, data: bytes, arrive: Arrive) -> None:
        self.packets.append((kind, data, arrive))

    def let_through(self) -> None:
        for _, data, arrive in self.packets:
            arrive(data)
        self.packets.clear()


def pair(
    first: asyncio.BaseProtocol, second: asyncio.BaseProtocol, window: int = 1000
) -> tuple[MemoryTransport, MemoryTransport]:
    ends = MemoryTransport.joined((ImmediatePath(), ImmediatePath()), ADDRESSES, window)
    for end, protocol in zip(ends, (first, second), strict=True):
        end.start(protocol)
    return ends


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


def test_data_crosses_over_to_either_kind_of_protocol() -> None:
    async def main() -> None:
        plain, buffered = Plain(), Buffered()
        here, there = pair(plain, buffered)
        await settle()
        here.write(b"to the buffered one, in pieces")
        there.writelines([b"to ", bytearray(b"the "), memoryview(b"plain one")])
        await settle()
        assert buffered.data == b"to the buffered one, in pieces"
        assert plain.data == b"to the plain one"
        assert plain.calls == ["made", 16]

    asyncio.run(main())


def test_a_protocol_is_not_called_from_inside_of_its_own_calls() -> None:
    async def main() -> None:
        first, second = Plain(), Plain()
        here, there = pair(first, second)
        assert first.calls == []
        await settle()
        here.write(b"x")
        there.pause_reading()
        there.resume_reading()
        assert second.calls == ["made"]
        here.abort()
        assert first.calls == ["made"]
        await settle()
        assert first.calls == ["made", ("lost", None)]

    asyncio.run(main())


def test_the_ends_know_their_addresses() -> None:
    async def main() -> None:
        here, there = pair(Plain(), Plain())
        assert here.get_extra_info("sockname") == there.get_extra_info("peername") == ("here", 1)
        assert there.get_extra_info("sockname") == here.get_extra_info("peername") == ("there", 2)
        assert here.get_extra_info("socket") is None

    asyncio.run(main())


def test_a_reader_that_pauses_stops_the_writer() -> None:
    async def main() -> None:
        writer, reader = Plain(), Plain()
        here, there = pair(writer, reader, window=1000)
        here.set_write_buffer_limits(high=400)
        assert here.get_write_buffer_limits() == (100, 400)
        await settle()
        there.pause_reading()
        assert not there.is_reading()
        here.write(bytes(1400))
        await settle()
        assert here.get_write_buffer_size() == 400
        assert writer.calls == ["made"]
        here.write(b"x")
        assert writer.calls == ["made", "pause"]
        here.write(b"y")
        assert writer.calls == ["made", "pause"]
        there.resume_reading()
        assert there.is_reading()
        await settle()
        assert writer.calls == ["made", "pause", "resume"]
        assert len(reader.data) == 1402
        assert here.get_write_buffer_size() == 0

    asyncio.run(main())


def test_the_limits_have_asyncios_defaults() -> None:
    async def main() -> None:
        here, _ = pair(Plain(), Plain())
        assert here.get_write_buffer_limits() == (16 * 1024, 64 * 1024)
        here.set_write_buffer_limits(low=5)
        assert here.get_write_buffer_limits() == (5, 20)
        here.set_write_buffer_limits()
        assert here.get_write_buffer_limits() == (16 * 1024, 64 * 1024)

    asyncio.run(main())


def test_a_close_comes_behind_the_data_and_ends_both_sides() -> None:
    async def main() -> None:
        first, second = Plain(), Plain()
        here, there = pair(first, second, window=10)
        await settle()
        here.write(bytes(100))
        here.close()
        here.close()
        assert here.is_closing()
        here.write(b"dropped")
        await settle()
        assert len(second.data) == 100
        assert second.calls[-2:] == ["eof", ("lost", None)]
        assert first.calls[-1] == ("lost", None)
        assert there.is_closing()

    asyncio.run(main())


def test_a_side_that_has_ended_its_stream_can_still_receive() -> None:
    async def main() -> None:
        first, second = Plain(), Plain(keep_open=True)
        here, there = pair(first, second)
        await settle()
        assert here.can_write_eof()
        here.write(b"question")
        here.write_eof()
        with pytest.raises(RuntimeError, match="after write_eof"):
            here.write(b"more")
        await settle()
        assert second.calls == ["made", 8, "eof"]
        there.write(b"answer")
        there.close()
        await settle()
        assert first.data == b"answer"
        assert first.calls[-2:] == ["eof", ("lost", None)]
        assert second.calls[-1] == ("lost", None)

    asyncio.run(main())


def test_an_abort_resets_the_other_side() -> None:
    async def main() -> None:
        first, second = Plain(), Plain()
        here, _ = pair(first, second, window=10)
        await settle()
        here.write(bytes(100))
        here.abort()
        here.abort()
        await settle()
        assert first.calls == ["made", ("lost", None)]
        assert second.calls[-1] == ("lost", "ConnectionResetError")
        assert len(second.data) == 10

    asyncio.run(main())


@pytest.mark.parametrize("when", ["before", "after"])
def test_whoever_sends_to_a_closed_end_is_reset(when: str) -> None:
    async def main() -> None:
        first, second = Plain(), Plain(keep_open=True)
        here, there = pair(first, second)
        await settle()
        if when == "before":
            here.pause_reading()
            there.write(b"never read")
            await settle()
        here.close()
        await settle()
        if when == "after":
            assert second.calls == ["made", "eof"]
            there.write(b"nobody is there")
            await settle()
        assert second.calls[-1] == ("lost", "ConnectionResetError")

    asyncio.run(main())


def test_a_protocol_that_fails_loses_its_connection() -> None:
    class Failing(Plain):
        def data_received(self, data: bytes) -> None:
            raise ZeroDivisionError

    async def main() -> None:
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        first, second = Plain(), Failing()
        here, _ = pair(first, second)
        await settle()
        here.write(b"x")
        await settle()
        assert second.calls[-1] == ("lost", "ZeroDivisionError")
        assert first.calls[-1] == ("lost", "ConnectionResetError")
        assert [type(context["exception"]) for context in reported] == [ZeroDivisionError]

    asyncio.run(main())


def test_the_path_decides_what_arrives_when() -> None:
    async def main() -> None:
        path, second = Held(), Plain()
        here, there = MemoryTransport.joined((path, ImmediatePath()), ADDRESSES)
        here.start(Plain())
        there.start(second)
        await settle()
        here.write(b"abc")
        here.close()
        await settle()
        assert [(kind, data) for kind, data, _ in path.packets] == [("data", b"abc"), ("end", b"")]
        assert second.calls == ["made"]
        path.let_through()
        assert second.calls == ["made", 3, "eof"]

    asyncio.run(main())


def test_a_connection_can_break_without_a_word_to_the_other_side() -> None:
    async def main() -> None:
        first, second = Plain(), Plain()
        here, _ = pair(first, second)
        await settle()
        here.break_off()
        await settle()
        assert first.calls == ["made", ("lost", "ConnectionResetError")]
        assert second.calls == ["made"]

    asyncio.run(main())


def test_another_protocol_can_take_over() -> None:
    async def main() -> None:
        first, second, third = Plain(), Plain(), Buffered()
        here, there = pair(first, second)
        await settle()
        there.set_protocol(third)
        assert there.get_protocol() is third
        here.write(b"for the third")
        await settle()
        assert third.data == b"for the third"
        assert second.calls == ["made"]

    asyncio.run(main())
