"""Files in memory: what is appended is read back without a copy, and never changes under a reader."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.log.fs import KEPT_AS_IT_IS, LARGEST_CHUNK, MemoryFile, MemoryFileSystem


def content(file: MemoryFile) -> bytes:
    return b"".join(file.read(0, file.size))


def test_directories_are_those_that_have_files() -> None:
    volume = MemoryFileSystem()
    for path in ("checkpoint", "b/orders-1/0.log", "a/orders-0/0.log", "a/orders-0/0.index"):
        volume.open(path)
    assert volume.directories() == ["a/orders-0", "b/orders-1"]
    volume.remove_directory("a/orders-0")
    assert volume.directories() == ["b/orders-1"]


def test_an_append_says_where_the_data_begins() -> None:
    file = MemoryFile()
    assert [file.append(b"abc"), file.append(b""), file.append(b"de")] == [0, 3, 3]
    assert file.size == 5
    assert content(file) == b"abcde"


def test_a_read_ends_with_the_file() -> None:
    file = MemoryFile()
    file.append(b"abcdef")
    assert b"".join(file.read(4, 100)) == b"ef"
    assert file.read(6, 1) == []
    assert file.read(100, 1) == []
    assert file.read(2, 0) == []


@pytest.mark.parametrize(("position", "length"), [(-1, 5), (0, -5)])
def test_a_read_before_the_file_is_refused(position: int, length: int) -> None:
    with pytest.raises(ValueError, match="in no file"):
        MemoryFile().read(position, length)


def test_what_was_appended_at_once_is_read_in_one_part() -> None:
    file = MemoryFile()
    sizes = [1, 500, 13, 4000, 100_000, 127 * 1024, 7, 900_000, 3]
    positions = [file.append(bytes([number]) * size) for number, size in enumerate(sizes)]
    for number, (position, size) in enumerate(zip(positions, sizes, strict=True)):
        (part,) = file.read(position, size)
        assert part == bytes([number]) * size


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


def test_readers_cannot_write() -> None:
    file = MemoryFile()
    file.append(b"abc")
    file.append(bytearray(KEPT_AS_IT_IS))
    assert all(part.readonly for part in file.read(0, file.size))


def test_a_busy_file_has_few_chunks_and_an_idle_one_little_memory() -> None:
    file = MemoryFile()
    file.append(b"x")
    assert sum(len(chunk) for chunk in file._chunks) <= 512
    for _ in range(100):
        file.append(bytes(100_000))
    assert len(file._chunks) < 30
    assert max(len(chunk) for chunk in file._chunks) <= LARGEST_CHUNK


def test_what_a_reader_holds_survives_a_cut_and_new_data() -> None:
    file = MemoryFile()
    file.append(b"abcdef")
    (held,) = file.read(0, 6)
    file.truncate(2)
    file.append(b"XYZW")
    assert bytes(held) == b"abcdef"
    assert content(file) == b"abXYZW"


def test_a_cut_between_chunks_keeps_the_first() -> None:
    file = MemoryFile()
    file.append(b"a" * 400)
    file.append(b"b" * 400)
    file.truncate(400)
    file.append(b"c")
    assert content(file) == b"a" * 400 + b"c"


@pytest.mark.parametrize("size", [-1, 4])
def test_a_file_cannot_be_cut_to_what_it_does_not_have(size: int) -> None:
    file = MemoryFile()
    file.append(b"abc")
    with pytest.raises(ValueError, match="cannot be cut"):
        file.truncate(size)


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


def test_a_volume_keeps_its_files_when_they_are_closed() -> None:
    fs = MemoryFileSystem()
    file = fs.open("orders-0/a.log")
    file.append(b"abc")
    file.close()
    assert content(fs.open("orders-0/a.log")) == b"abc"


def test_a_directory_lists_its_own_files_in_order() -> None:
    fs = MemoryFileSystem()
    for path in ("a/2", "a/10", "a/b/3", "c", "a/1"):
        fs.open(path)
    assert fs.list("a") == ["1", "10", "2"]
    assert fs.list("a/b") == ["3"]
    assert fs.list("") == ["c"]
    assert fs.list("nothing") == []


def test_a_file_that_is_removed_is_gone() -> None:
    fs = MemoryFileSystem()
    fs.open("a/1").append(b"x")
    assert fs.exists("a/1")
    fs.remove("a/1")
    assert not fs.exists("a/1")
    assert fs.open("a/1").size == 0
    with pytest.raises(FileNotFoundError):
        fs.remove("a/2")


def test_renaming_replaces_what_was_there() -> None:
    fs = MemoryFileSystem()
    fs.open("a/1").append(b"new")
    fs.open("b/2").append(b"old")
    fs.rename("a/1", "b/2")
    assert content(fs.open("b/2")) == b"new"
    assert fs.list("a") == []
    fs.rename("b/2", "b/2")
    assert fs.list("b") == ["2"]
    with pytest.raises(FileNotFoundError):
        fs.rename("a/1", "b/3")


def test_a_directory_goes_with_everything_in_it() -> None:
    fs = MemoryFileSystem()
    for path in ("a/1", "a/b/2", "ab/3"):
        fs.open(path)
    fs.remove_directory("a")
    fs.remove_directory("never there")
    assert fs.list("a") == fs.list("a/b") == []
    assert fs.list("ab") == ["3"]


def test_a_path_has_a_name() -> None:
    with pytest.raises(ValueError, match="no path of a file"):
        MemoryFileSystem().open("a/")
