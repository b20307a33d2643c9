"""What is sent goes out in order, in pieces that suit a transport."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.net.connection import PIECE, WriteQueue
from ottla.wire.primitives import Buffer


def taken(queue: WriteQueue) -> list[Buffer]:
    pieces = []
    while queue.size:
        pieces.append(queue.take())
    return pieces


def test_small_buffers_leave_as_one() -> None:
    queue = WriteQueue()
    queue.add([b"size", b"", bytearray(b"header"), memoryview(b"body")])
    assert queue.size == 14
    assert taken(queue) == [b"sizeheaderbody"]


def test_large_buffers_are_passed_on_uncopied() -> None:
    records = bytearray(PIECE + 1000)
    queue = WriteQueue()
    queue.add([b"before", memoryview(records), b"behind", b"that"])
    pieces = taken(queue)
    assert [len(piece) for piece in pieces] == [6, PIECE, 1000, 10]
    assert all(isinstance(piece, memoryview) and piece.obj is records for piece in pieces[1:3])


def test_empty_buffers_make_no_pieces() -> None:
    queue = WriteQueue()
    queue.add([])
    queue.add([b"", b""])
    assert queue.size == 0
    assert taken(queue) == []


@given(
    st.lists(st.lists(st.sampled_from([0, 1, 100, 16_383, 16_384, PIECE, PIECE + 1, 3 * PIECE]), max_size=4))
)
def test_nothing_is_lost_or_moved(sends: list[list[int]]) -> None:
    queue = WriteQueue()
    sent = b""
    for number, sizes in enumerate(sends):
        parts = [bytes([number % 256]) * size for size in sizes]
        queue.add(parts)
        sent += b"".join(parts)
        assert queue.size == len(sent)
    pieces = taken(queue)
    assert b"".join(pieces) == sent
    assert all(0 < len(piece) <= PIECE for piece in pieces)


def test_nothing_is_left_after_clear() -> None:
    queue = WriteQueue()
    queue.add([bytes(3 * PIECE)])
    queue.take()
    queue.clear()
    assert taken(queue) == []


def test_what_was_taken_is_not_kept_alive() -> None:
    queue = WriteQueue()
    queue.add([b"never the last"])
    for number in range(20_000):
        queue.add([b"%d" % number])
        assert queue.take() == (b"%d" % (number - 1) if number else b"never the last")
    assert len(queue._queue) <= 1001
    assert sum(map(len, queue._queue)) == queue.size == 5
