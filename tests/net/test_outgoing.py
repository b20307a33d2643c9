"""What is sent goes out in order, in pieces that suit a transport."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.net.outgoing import PIECE, Outgoing
from ottla.wire.primitives import Buffer


def taken(outgoing: Outgoing) -> list[Buffer]:
    pieces = []
    while outgoing.size:
        pieces.append(outgoing.take())
    return pieces


def test_small_buffers_leave_as_one() -> None:
    outgoing = Outgoing()
    outgoing.add([b"size", b"", bytearray(b"header"), memoryview(b"body")])
    assert outgoing.size == 14
    assert taken(outgoing) == [b"sizeheaderbody"]


def test_large_buffers_are_passed_on_uncopied() -> None:
    records = bytearray(PIECE + 1000)
    outgoing = Outgoing()
    outgoing.add([b"before", memoryview(records), b"behind", b"that"])
    pieces = taken(outgoing)
    assert [len(piece) for piece in pieces] == [6, PIECE, 1000, 10]
    assert all(isinstance(piece, memoryview) and piece.obj is records for piece in pieces[1:3])


def test_empty_buffers_make_no_pieces() -> None:
    outgoing = Outgoing()
    outgoing.add([])
    outgoing.add([b"", b""])
    assert outgoing.size == 0
    assert taken(outgoing) == []


@given(
    st.lists(st.lists(st.sampled_from([0, 1, 100, 16_383, 16_384, PIECE, PIECE + 1, 3 * PIECE]), max_size=4))
)
def test_nothing_is_lost_or_moved(sends: list[list[int]]) -> None:
    outgoing = Outgoing()
    sent = b""
    for number, sizes in enumerate(sends):
        parts = [bytes([number % 256]) * size for size in sizes]
        outgoing.add(parts)
        sent += b"".join(parts)
        assert outgoing.size == len(sent)
    pieces = taken(outgoing)
    assert b"".join(pieces) == sent
    assert all(0 < len(piece) <= PIECE for piece in pieces)


def test_nothing_is_left_after_clear() -> None:
    outgoing = Outgoing()
    outgoing.add([bytes(3 * PIECE)])
    outgoing.take()
    outgoing.clear()
    assert taken(outgoing) == []


def test_what_was_taken_is_not_kept_alive() -> None:
    outgoing = Outgoing()
    outgoing.add([b"never the last"])
    for number in range(20_000):
        outgoing.add([b"%d" % number])
        assert outgoing.take() == (b"%d" % (number - 1) if number else b"never the last")
    assert len(outgoing._queue) <= 1001
    assert sum(map(len, outgoing._queue)) == outgoing.size == 5
