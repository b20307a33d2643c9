"""Structs of numbers in a row: what is usual is decoded, and the first that is not is left where it is."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from ottla._native.struct_runs import StructRun
from ottla.wire.primitives import Uuid


class Numbers:
    __slots__ = ("absent", "byte", "flag", "id", "items", "large", "real", "small", "unsigned", "wides")

    absent: str
    flag: bool
    id: Uuid
    items: list[int]
    wides: list[int]


NAMES = ("small", "unsigned", "large", "byte", "flag", "real", "id")
RUN = StructRun(
    Numbers,
    [
        ("small", "h", False),
        ("unsigned", "H", False),
        ("large", "q", False),
        ("byte", "b", False),
        ("flag", "?", False),
        ("real", "d", False),
        ("id", "16s", False),
        ("items", "i", True),
        ("wides", "q", True),
    ],
    [("absent", "nothing")],
    Uuid,
)


def element(*, items: list[int], wides: list[int], tags: int = 0, **values: Any) -> bytes:
    usual = dict.fromkeys(NAMES, 0) | {"id": bytes(16)} | values
    return (
        struct.pack(">hHqb?d16s", *(usual[name] for name in NAMES))
        + struct.pack(f">B{len(items)}i", len(items) + 1, *items)
        + struct.pack(f">B{len(wides)}q", len(wides) + 1, *wides)
        + bytes([tags])
    )


def decoded(data: bytes, left: int = 1000, pos: int = 0, end: int | None = None) -> tuple[list[Numbers], int]:
    items: list[Numbers] = []
    done, stop = RUN.decode(data, pos, len(data) if end is None else end, items, left)
    assert done == len(items)
    return items, stop


def test_every_kind_of_number_comes_out_at_both_ends_of_its_range() -> None:
    low: dict[str, Any] = {
        "small": -(2**15),
        "unsigned": 0,
        "large": -(2**63),
        "byte": -128,
        "flag": False,
        "real": -1.5e300,
    }
    high: dict[str, Any] = {
        "small": 2**15 - 1,
        "unsigned": 2**16 - 1,
        "large": 2**63 - 1,
        "byte": 127,
        "flag": True,
        "real": 2.25,
    }
    data = element(items=[-(2**31), 2**31 - 1], wides=[], **low)
    data += element(items=[], wides=[-(2**63), 2**63 - 1, 0], id=b"0123456789abcdef", **high)
    (first, second), stop = decoded(data)
    assert stop == len(data)
    assert {name: getattr(first, name) for name in low} == low
    assert {name: getattr(second, name) for name in high} == high
    assert isinstance(second.flag, bool)
    assert (first.items, first.wides) == ([-(2**31), 2**31 - 1], [])
    assert (second.items, second.wides) == ([], [-(2**63), 2**63 - 1, 0])
    assert second.id == Uuid(b"0123456789abcdef")
    assert isinstance(second.id, Uuid)
    assert second.absent == "nothing"


def test_no_more_are_taken_than_asked_for() -> None:
    data = element(items=[1], wides=[]) * 5
    items, stop = decoded(data, left=3)
    assert len(items) == 3
    assert stop == 3 * len(data) // 5
    assert decoded(data, left=0) == ([], 0)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(element(items=[1], wides=[], tags=1), id="tagged fields"),
        pytest.param(element(items=[1] * 127, wides=[]), id="a length of two bytes"),
        pytest.param(element(items=[], wides=[])[:-3] + b"\0\1\0", id="a null array"),
    ],
)
def test_the_first_that_is_not_usual_ends_the_run_in_front_of_it(other: bytes) -> None:
    usual = element(items=[1, 2], wides=[3])
    items, stop = decoded(usual * 2 + other + usual)
    assert len(items) == 2
    assert stop == 2 * len(usual)


def test_the_longest_list_behind_one_byte_is_usual() -> None:
    (item,), _ = decoded(element(items=list(range(126)), wides=[]))
    assert item.items == list(range(126))


def test_an_element_that_is_not_all_there_is_left_wherever_it_ends() -> None:
    usual = element(items=[1, 2, 3], wides=[4, 5])
    for missing in range(1, len(usual)):
        data = usual * 2
        assert decoded(data[:-missing])[1] == len(usual)
        assert decoded(data, end=len(data) - missing)[1] == len(usual)
    # Nor does an end beyond the bytes make more of them.
    assert decoded(usual[:-1], end=1000) == ([], 0)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_read_from_where_it_is_told(kind: Any) -> None:
    data = b"xyz" + element(items=[7], wides=[])
    (item,), stop = decoded(kind(data), pos=3)
    assert item.items == [7]
    assert stop == len(data)
    with pytest.raises(ValueError, match="pos"):
        decoded(kind(data), pos=-1)


def test_what_was_decoded_goes_when_it_is_dropped() -> None:
    dropped: list[int] = []

    class Watched:
        __slots__ = ("numbers",)

        numbers: list[int]

        def __del__(self) -> None:
            dropped.append(len(self.numbers))

    items: list[Any] = []
    StructRun(Watched, [("numbers", "i", True)], [], Uuid).decode(b"\2\0\0\3\1\0" * 9, 0, 54, items, 9)
    kept = items[0].numbers
    items.clear()
    assert dropped == [1] * 9
    # A list like any other.
    kept.append("more")
    assert kept == [0x301, "more"]


def test_a_run_is_made_of_slots_and_known_codes() -> None:
    class WithDict:
        pass

    with pytest.raises(AttributeError):
        StructRun(WithDict, [("x", "i", False)], [], Uuid)
    with pytest.raises(TypeError, match="no slot"):
        StructRun(Uuid, [("parse", "i", False)], [], Uuid)
    with pytest.raises(KeyError):
        StructRun(Numbers, [("small", "Z", False)], [], Uuid)
    with pytest.raises(ValueError, match="ids"):
        StructRun(Numbers, [("id", "16s", True)], [], Uuid)
