"""Bytes become the frames that they were, wherever the stream is cut."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla._native.memory import Memory
from ottla.errors import DecodeError
from ottla.net.connection import SCRATCH_SIZE, FrameReader
from tests.net.peers import framed


class Wire:
    """What a transport does: receives into the memory it is given, as much as there is."""

    def __init__(self, reader: FrameReader, scratch: memoryview) -> None:
        self.reader = reader
        self.scratch = scratch

    def feed(self, data: bytes) -> list[memoryview]:
        frames: list[memoryview] = []
        while data:
            room = self.reader.free()
            count = min(len(room), len(data))
            room[:count] = data[:count]
            data = data[count:]
            self.reader.written(count)
            while (frame := self.reader.next()) is not None:
                frames.append(frame)
            self.reader.keep()
            self.scratch[:] = b"\xaa" * len(self.scratch)  # another connection receives
        return frames


def wire(scratch_size: int = SCRATCH_SIZE, max_frame_size: int = 1 << 30) -> Wire:
    scratch = memoryview(bytearray(scratch_size))
    return Wire(FrameReader(scratch, max_frame_size), scratch)


def sliced(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    marks = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:stop] for start, stop in pairwise(marks)]


@given(st.lists(st.binary(max_size=300)), st.lists(st.integers(min_value=0, max_value=10_000)))
def test_any_cutting_of_a_stream_gives_the_same_frames(frames: list[bytes], cuts: list[int]) -> None:
    receiving = wire(scratch_size=64)
    received = [frame for data in sliced(framed(*frames), cuts) for frame in receiving.feed(data)]
    assert received == frames
    assert receiving.reader.is_empty
    assert receiving.reader.unfinished is None


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.sampled_from([0, 1, 65_535, 65_536, 65_537, 262_140, 262_144, 1 << 20, 3_000_000]), max_size=4
    ),
    st.lists(st.integers(min_value=0, max_value=20_000_000), max_size=8),
)
def test_large_frames_are_cut_as_well(sizes: list[int], cuts: list[int]) -> None:
    frames = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    receiving = wire()
    received = [bytes(frame) for data in sliced(framed(*frames), cuts) for frame in receiving.feed(data)]
    assert received == frames


def test_every_frame_has_memory_of_its_own() -> None:
    large = bytes(100_000)
    receiving = wire()
    frames = receiving.feed(framed(b"one", b"two", large))
    for frame in frames:
        assert not frame.readonly
    frames[0][:] = b"ONE"
    frames[2][:] = b"x" * len(large)
    assert frames == [b"ONE", b"two", b"x" * len(large)]
    assert receiving.feed(framed(b"one")) == [b"one"]


def test_the_rest_of_a_large_frame_is_received_in_its_place() -> None:
    receiving = wire()
    receiving.feed(framed(bytes(500_000))[:1000])
    room = receiving.reader.free()
    assert isinstance(room.obj, Memory)
    assert len(room) == 500_000 - 996


def test_what_is_missing_of_a_small_frame_comes_with_those_behind_it() -> None:
    receiving = wire()
    assert receiving.feed(framed(b"abcdef")[:5]) == []
    assert len(receiving.reader.free()) == SCRATCH_SIZE
    assert receiving.feed(b"bcdef" + framed(b"next")) == [b"abcdef", b"next"]


def test_memory_grows_with_what_has_arrived_and_not_with_what_is_claimed() -> None:
    receiving = wire()
    frame = bytes(range(256)) * (40 << 12)  # 40 MiB
    data = framed(frame)
    received: list[memoryview] = []
    for start in range(0, len(data), 1 << 20):
        received += receiving.feed(data[start : start + (1 << 20)])
        room = receiving.reader.free()
        assert len(room) <= max(start, 1 << 20) + (1 << 20)
    assert received == [frame]


def test_a_claim_alone_costs_a_megabyte() -> None:
    receiving = wire()
    receiving.feed(struct.pack(">i", 100 << 20) + b"x")
    assert len(receiving.reader.free()) == (1 << 20) - 1


@pytest.mark.parametrize("size", [-1, -(1 << 31), 1001, 0x7FFFFFFF])
def test_a_size_out_of_bounds_is_refused_as_soon_as_it_is_known(size: int) -> None:
    receiving = wire(max_frame_size=1000)
    with pytest.raises(DecodeError, match=f"claims {size} bytes, 1000 are allowed"):
        receiving.feed(struct.pack(">i", size))


def test_a_frame_of_the_very_limit_is_accepted() -> None:
    assert wire(max_frame_size=1000).feed(framed(bytes(1000))) == [bytes(1000)]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", None),
        (framed(b"whole"), None),
        (b"\0\0\0", "3 of the 4 bytes of a frame's size"),
        (framed(b"whole", b"half")[:-1], "3 of the 4 bytes of a frame"),
        (framed(bytes(90_000))[:-1], "89999 of the 90000 bytes of a frame"),
    ],
)
def test_what_is_unfinished_can_be_told(data: bytes, told: str | None) -> None:
    receiving = wire()
    receiving.feed(data)
    assert receiving.reader.unfinished == told
    assert receiving.reader.is_empty is (told is None)


def test_a_frame_that_was_not_taken_is_kept_while_others_receive() -> None:
    receiving = wire()
    data = framed(b"first", b"second", b"third")
    receiving.reader.free()[: len(data)] = data
    receiving.reader.written(len(data))
    assert bytes(receiving.reader.next() or b"") == b"first"
    receiving.reader.keep()
    receiving.scratch[:] = b"\xaa" * len(receiving.scratch)
    assert bytes(receiving.reader.next() or b"") == b"second"
    assert bytes(receiving.reader.next() or b"") == b"third"
    assert receiving.reader.is_empty


def test_nothing_is_left_after_clear() -> None:
    receiving = wire()
    receiving.feed(framed(bytes(500_000))[:100_000])
    receiving.reader.clear()
    assert receiving.reader.is_empty
    assert receiving.reader.next() is None
