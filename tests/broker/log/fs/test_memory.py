"""Files in memory: what is appended is read back without a copy, also where files share it.

What a file in memory has in common with all others is in test_contract.py.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.log.fs.memory import KEPT_AS_IT_IS, LARGEST_CHUNK, Chunks, MemoryFile
from tests.broker.log.fs.volumes import content


def test_large_data_is_kept_without_a_copy() -> None:
    file = MemoryFile()
    data = bytearray(KEPT_AS_IT_IS)
    file.append(b"before")
    file.append(data)
    data[0] = 7
    (part,) = file.read(6, KEPT_AS_IT_IS)
    assert part[0] == 7


def test_small_data_is_copied() -> None:
    file = MemoryFile()
    data = bytearray(b"abc")
    file.append(data)
    data[0] = 0
    assert content(file) == b"abc"


def test_a_busy_file_has_few_chunks_and_an_idle_one_little_memory() -> None:
    file = MemoryFile()
    file.append(b"x")
    assert sum(len(chunk) for chunk in file._chunks) <= 512
    for _ in range(100):
        file.append(bytes(100_000))
    assert len(file._chunks) < 30
    assert max(len(chunk) for chunk in file._chunks) <= LARGEST_CHUNK


def test_a_cut_between_chunks_keeps_the_first() -> None:
    file = MemoryFile()
    file.append(b"a" * 400)
    file.append(b"b" * 400)
    file.truncate(400)
    file.append(b"c")
    assert content(file) == b"a" * 400 + b"c"


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=700),
            st.integers(0, 300_000).map(lambda size: b"\xab" * size),
            st.floats(0, 1),
        ),
        max_size=12,
    )
)
def test_a_file_is_the_bytes_that_were_appended_and_not_cut(steps: list[bytes | float]) -> None:
    file, expected = MemoryFile(), b""
    held: list[tuple[list[memoryview], bytes]] = []
    for step in steps:
        if isinstance(step, bytes):
            assert file.append(bytearray(step)) == len(expected)
            expected += step
        else:
            expected = expected[: int(step * len(expected))]
            file.truncate(len(expected))
        middle = len(expected) // 3
        held.append((file.read(middle, 2 * middle), expected[middle : 3 * middle]))
    assert content(file) == expected
    for parts, read in held:
        assert b"".join(parts) == read


def parts_of(file: MemoryFile) -> list[memoryview]:
    return file.read(0, file.size)


def test_a_file_that_shares_what_another_read_has_it_in_the_same_memory() -> None:
    leader, follower = MemoryFile(), MemoryFile()
    leader.append(b"abc")
    (part,) = parts_of(leader)
    follower.append(part, shared=True)
    (shared,) = parts_of(follower)
    assert shared.obj is part.obj
    assert bytes(shared) == b"abc"


def test_what_came_to_one_chunk_piece_by_piece_is_one_chunk_where_it_is_shared() -> None:
    leader, follower = MemoryFile(), MemoryFile()
    for number in range(50):
        position = leader.append(bytes([number]) * 9)
        for part in leader.read(position, 9):
            follower.append(part, shared=True)
    assert content(follower) == content(leader)
    assert len(parts_of(follower)) == len(parts_of(leader)) == 1
    # A piece that is left out is none of the same chunk.
    leader.append(b"not for others")
    follower.append(leader.read(leader.append(b"later"), 5)[0], shared=True)
    assert len(parts_of(follower)) == 2


def test_a_file_appends_nothing_to_memory_that_it_shares() -> None:
    leader, follower = MemoryFile(), MemoryFile()
    leader.append(b"abc")
    follower.append(parts_of(leader)[0], shared=True)
    follower.append(b"of the follower")
    leader.append(b"of the leader")
    assert (content(leader), content(follower)) == (b"abcof the leader", b"abcof the follower")


def test_a_file_that_is_cut_leaves_what_others_share_as_it_is() -> None:
    leader, follower = MemoryFile(), MemoryFile()
    leader.append(b"abcdef")
    follower.append(parts_of(leader)[0], shared=True)
    leader.truncate(2)
    leader.append(b"XY")
    assert content(follower) == b"abcdef"
    follower.truncate(2)
    follower.append(leader.read(2, 2)[0], shared=True)
    assert content(follower) == b"abXY"


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(0, 2), st.integers(1, 900)),
            st.tuples(st.just("follow"), st.integers(0, 2), st.integers(0, 2)),
            st.tuples(st.just("cut"), st.integers(0, 2), st.integers(0, 3000)),
        ),
        max_size=30,
    )
)
def test_files_that_share_memory_are_what_each_of_them_was_given(steps: list[tuple[str, int, int]]) -> None:
    files, expected = [MemoryFile() for _ in range(3)], [b""] * 3
    held: list[tuple[list[memoryview], bytes]] = []
    for number, (step, index, value) in enumerate(steps):
        file = files[index]
        if step == "append":
            data = bytes([number + 1]) * value
            file.append(data)
            expected[index] += data
        elif step == "follow":
            # As a follower: what the other has behind the end of this one, in its memory.
            missing = files[value].read(file.size, 2000)
            if value != index:
                for part in missing:
                    file.append(part, shared=True)
                    expected[index] += bytes(part)
        else:
            expected[index] = expected[index][:value]
            file.truncate(len(expected[index]))
        held.append((parts_of(file), expected[index]))
    for file, whole in zip(files, expected, strict=True):
        assert content(file) == whole
    for parts, whole in held:
        assert b"".join(parts) == whole


@given(st.lists(st.integers(1, 900), max_size=60), st.integers(0, 5000), st.booleans())
def test_the_last_bytes_of_a_file_are_at_most_as_many_as_were_asked_for_and_whole_appends(
    sizes: list[int], most: int, shared: bool
) -> None:
    start = 10_000
    tail, expected, starts = Chunks(start, largest=1024), b"", {start}
    for number, size in enumerate(sizes):
        data = bytes([number + 1]) * size
        assert tail.append(data, shared=shared) == start + len(expected)
        expected += data
        starts.add(tail.size)
        tail.keep_last(most)
        assert tail.size - tail.start <= most
        assert tail.start in starts
        assert b"".join(tail.read(tail.start, most)) == expected[tail.start - start :]
        assert tail.size == start + len(expected)


def test_what_is_forgotten_can_neither_be_read_nor_cut() -> None:
    tail = Chunks(5)
    tail.append(b"abc")
    with pytest.raises(ValueError, match="are in no file"):
        tail.read(4, 1)
    with pytest.raises(ValueError, match="cannot be cut"):
        tail.truncate(4)
    tail.truncate(5)
    tail.append(b"de")
    assert b"".join(tail.read(5, 10)) == b"de"
