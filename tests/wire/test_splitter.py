"""The splitter that tests read their sockets with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import DecodeError
from tests.wire.splitter import FrameSplitter


@given(st.lists(st.binary(max_size=50), max_size=8), st.lists(st.integers(1, 60), min_size=1, max_size=9))
def test_a_stream_is_cut_into_its_frames_however_it_arrives(frames: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(len(f).to_bytes(4) + f for f in frames)
    splitter, found, pos = FrameSplitter(), [], 0
    while pos < len(stream):
        size = cuts[pos % len(cuts)]
        found += splitter.feed(stream[pos : pos + size])
        pos += size
    assert (found, splitter.pending) == (frames, 0)


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 1001])
def test_a_frame_above_the_bound_is_refused_before_it_is_waited_for(size: int) -> None:
    splitter = FrameSplitter(max_frame_size=1000)
    assert splitter.feed((3).to_bytes(4) + b"abc" + size.to_bytes(4, signed=True)) == [b"abc"]
    for _ in range(2):  # and the stream stays unusable
        with pytest.raises(DecodeError, match=f"a frame claims {size} bytes, 1000 are allowed"):
            splitter.feed(b"")
    assert splitter.pending == 0


def test_waiting_for_a_frame_holds_no_more_than_arrived() -> None:
    splitter = FrameSplitter()
    assert splitter.feed((50_000_000).to_bytes(4) + b"x") == []
    assert splitter.pending == 5
