"""What a log may expect of any volume: the protocol, claim by claim, and any history against a model."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.broker.log.fs import File, FileSystem
from ottla.broker.log.fs.directory import DirectoryFileSystem
from ottla.broker.log.fs.faulty import FaultyFileSystem
from ottla.broker.log.fs.memory import KEPT_AS_IT_IS, MemoryFileSystem
from tests.broker.log.fs.volumes import content

# Files


def test_an_append_says_where_the_data_begins(fs: FileSystem) -> None:
    file = fs.open("a.log")
    assert [file.append(b"abc"), file.append(b""), file.append(bytearray(b"de"))] == [0, 3, 3]
    assert file.append(memoryview(b"xfx")[1:2]) == 5
    assert file.size == 6
    assert content(file) == b"abcdef"


def test_a_read_ends_with_the_file(fs: FileSystem) -> None:
    file = fs.open("a.log")
    file.append(b"abcdef")
    assert b"".join(file.read(4, 100)) == b"ef"
    assert file.read(6, 1) == []
    assert file.read(100, 1) == []
    assert file.read(2, 0) == []
    file.close()
    assert b"".join(file.read(4, 100)) == b"ef"
    assert file.read(6, 1) == []
    assert file.read(2, 0) == []


@pytest.mark.parametrize(("position", "length"), [(-1, 5), (0, -5)])
def test_a_read_before_the_file_is_refused(fs: FileSystem, position: int, length: int) -> None:
    file = fs.open("a.log")
    for _ in range(2):
        with pytest.raises(ValueError, match="in no file"):
            file.read(position, length)
        file.append(b"abc")
        file.close()


def test_what_was_appended_at_once_is_read_in_one_part(fs: FileSystem) -> None:
    file = fs.open("a.log")
    sizes = [1, 500, 13, 4000, 100_000, 127 * 1024, 7, 900_000, 3, 2_000_000, 5] * 2
    positions = [file.append(bytes([number]) * size) for number, size in enumerate(sizes)]
    for number, (position, size) in enumerate(zip(positions, sizes, strict=True)):
        (part,) = file.read(position, size)
        assert part == bytes([number]) * size


def test_readers_cannot_write(fs: FileSystem) -> None:
    file = fs.open("a.log")
    file.append(b"abc")
    file.append(bytearray(KEPT_AS_IT_IS))
    assert all(part.readonly for part in file.read(0, file.size))
    file.close()
    assert all(part.readonly for part in file.read(0, file.size))


@pytest.mark.parametrize("size", [6, KEPT_AS_IT_IS])
@pytest.mark.parametrize("shared", [False, True])
def test_what_a_reader_holds_survives_a_cut_and_new_data(fs: FileSystem, size: int, shared: bool) -> None:
    file = fs.open("a.log")
    file.append(b"a" * size, shared=shared)
    held = file.read(0, size)
    file.close()
    held_too = file.read(0, size)
    file.truncate(2)
    file.append(b"Z" * size)
    assert b"".join(held) == b"".join(held_too) == b"a" * size
    assert content(file) == b"aa" + b"Z" * size


@pytest.mark.parametrize("cut", [0, 3, 400, 700, 2100])
def test_what_is_cut_off_is_not_read_again_and_the_next_append_begins_there(fs: FileSystem, cut: int) -> None:
    file = fs.open("a.log")
    for letter in b"abc":
        file.append(bytes([letter]) * 700)
    kept = content(file)[:cut]
    file.truncate(cut)
    assert file.size == cut
    assert content(file) == kept
    assert file.read(cut, 1) == []
    assert file.append(b"new") == cut
    assert content(file) == kept + b"new"
    file.close()
    assert content(file) == kept + b"new"


@pytest.mark.parametrize("cut", [450_000, 2_099_999, 2_100_000, 2_100_001, 2_999_999])
def test_a_large_file_may_be_cut_anywhere_and_grow_again(fs: FileSystem, cut: int) -> None:
    file = fs.open("a.log")
    for letter in b"abcdefghij":
        file.append(bytes([letter]) * 300_000)
    kept = content(file)[:cut]
    file.truncate(cut)
    assert content(file) == kept
    pieces = [bytes([number]) * 1000 for number in range(120)]
    for piece in pieces:
        file.append(piece)
    assert content(file) == kept + b"".join(pieces)


@pytest.mark.parametrize("size", [-1, 4])
def test_a_file_cannot_be_cut_to_what_it_does_not_have(fs: FileSystem, size: int) -> None:
    file = fs.open("a.log")
    file.append(b"abc")
    with pytest.raises(ValueError, match="cannot be cut"):
        file.truncate(size)
    assert content(file) == b"abc"


def test_a_file_that_is_opened_twice_is_one_file(fs: FileSystem) -> None:
    first, second = fs.open("a/1"), fs.open("a/1")
    first.append(b"abc")
    assert second.append(b"de") == 3
    assert content(first) == content(second) == b"abcde"


def test_a_closed_file_opens_by_itself(fs: FileSystem) -> None:
    file = fs.open("a/1")
    file.append(b"abc")
    file.close()
    file.close()
    assert content(file) == b"abc"
    file.append(b"de")
    file.flush()
    assert content(fs.open("a/1")) == b"abcde"


# Names


def test_a_directory_lists_its_own_files_in_order(fs: FileSystem) -> None:
    for path in ("a/2", "a/10", "a/b/3", "c", "a/1"):
        fs.open(path)
    assert fs.list("a") == ["1", "10", "2"]
    assert fs.list("a/b") == ["3"]
    assert fs.list("") == ["c"]
    assert fs.list("nothing") == fs.list("c") == []


def test_directories_are_those_that_have_files(fs: FileSystem) -> None:
    for path in ("checkpoint", "b/orders-1/0.log", "a/orders-0/0.log", "a/orders-0/0.index"):
        fs.open(path)
    assert fs.directories() == ["a/orders-0", "b/orders-1"]
    fs.remove("b/orders-1/0.log")
    assert fs.directories() == ["a/orders-0"]
    fs.remove_directory("a/orders-0")
    assert fs.directories() == []


def test_a_file_that_is_removed_is_gone(fs: FileSystem) -> None:
    fs.open("a/1").append(b"x")
    assert fs.exists("a/1")
    assert not fs.exists("a")
    assert not fs.exists("a/1/2")
    fs.remove("a/1")
    assert not fs.exists("a/1")
    assert fs.open("a/1").size == 0
    with pytest.raises(FileNotFoundError):
        fs.remove("a/2")


def test_renaming_replaces_what_was_there(fs: FileSystem) -> None:
    fs.open("a/1").append(b"new")
    fs.open("b/2").append(b"old")
    fs.rename("a/1", "b/2")
    assert content(fs.open("b/2")) == b"new"
    assert fs.list("a") == []
    fs.rename("b/2", "b/2")
    assert fs.list("b") == ["2"]
    with pytest.raises(FileNotFoundError):
        fs.rename("a/1", "b/3")
    with pytest.raises(FileNotFoundError):
        fs.rename("a/1", "a/1")


def test_a_file_that_is_open_keeps_its_content_when_it_is_renamed(fs: FileSystem) -> None:
    file = fs.open("a/1")
    file.append(b"abc")
    fs.rename("a/1", "b/1.deleted")
    again = fs.open("b/1.deleted")
    file.close()
    file.append(b"de")
    file.flush()
    assert again.append(b"f") == 5
    assert content(file) == content(again) == b"abcdef"
    assert not fs.exists("a/1")


def test_a_directory_goes_with_everything_in_it(fs: FileSystem) -> None:
    for path in ("a/1", "a/b/2", "ab/3"):
        fs.open(path)
    fs.remove_directory("a")
    fs.remove_directory("never/there")
    assert fs.list("a") == fs.list("a/b") == []
    assert fs.open("a/1").size == 0
    assert fs.list("ab") == ["3"]


def test_a_directory_is_renamed_with_everything_in_it(fs: FileSystem) -> None:
    file = fs.open("a/1")
    file.append(b"abc")
    fs.open("ab/2").append(b"other")
    file.close()
    fs.rename_directory("a", "a.deleted")
    assert fs.directories() == ["a.deleted", "ab"]
    assert content(fs.open("a.deleted/1")) == b"abc"
    assert fs.open("a/1").size == 0
    with pytest.raises(FileExistsError):
        fs.rename_directory("a", "ab")
    with pytest.raises(FileNotFoundError):
        fs.rename_directory("never", "there")
    assert content(fs.open("ab/2")) == b"other"


def test_a_file_that_was_removed_can_be_flushed_and_closed(fs: FileSystem) -> None:
    """A flush in another thread may come when retention has deleted the segment."""
    for is_closed in (False, True):
        file = fs.open("a/1")
        file.append(b"abc")
        if is_closed:
            file.close()
        fs.remove("a/1")
        file.flush()
        file.close()


CALLS: list[Callable[[FileSystem, str], object]] = [
    lambda fs, path: fs.open(path),
    lambda fs, path: fs.exists(path),
    lambda fs, path: fs.remove(path),
    lambda fs, path: fs.rename(path, "a"),
    lambda fs, path: fs.rename("a", path),
    lambda fs, path: fs.list(f"a/{path}"),
    lambda fs, path: fs.rename_directory(path, "a"),
    lambda fs, path: fs.rename_directory("a", path),
    lambda fs, path: fs.remove_directory(path),
    lambda fs, path: fs.sync_directory(f"a/{path}"),
    lambda fs, path: fs.modified_ms(path),
]


@pytest.mark.parametrize("call", range(len(CALLS)))
@pytest.mark.parametrize("path", ["", "/etc/passwd", "../a", "a/../../b", "a/", "a\0b", "."])
def test_no_call_leads_out_of_the_volume(fs: FileSystem, call: int, path: str) -> None:
    fs.open("a")
    with pytest.raises(ValueError, match="is no path"):
        CALLS[call](fs, path)


# Any history

SIZES = st.one_of(st.integers(0, 900), st.integers(0, 700_000))
PATHS = st.sampled_from(["a/1", "a/b/1", "2", "b/1"])


class VolumeMachine(RuleBasedStateMachine):
    """A volume is the bytes of each path, and memory that was handed out never changes."""

    fs: FileSystem

    def __init__(self) -> None:
        super().__init__()
        self.expected: dict[str, bytes] = {}
        self.files: dict[str, File] = {}
        self.held: list[tuple[list[memoryview], bytes]] = []
        self.appends = 0

    def restart(self) -> None:
        """A new node takes the volume over."""

    def file(self, path: str) -> File:
        if path not in self.files:
            self.files[path] = self.fs.open(path)
            self.expected.setdefault(path, b"")
        return self.files[path]

    @rule(path=PATHS, size=SIZES, shared=st.booleans())
    def append(self, path: str, size: int, shared: bool) -> None:
        file = self.file(path)
        self.appends += 1
        data = bytes([self.appends % 256]) * size
        assert file.append(bytearray(data), shared=shared) == len(self.expected[path])
        if size:
            (part,) = file.read(len(self.expected[path]), size)
            assert part == data
        self.expected[path] += data

    @rule(path=PATHS, share=st.floats(0, 1))
    def truncate(self, path: str, share: float) -> None:
        file = self.file(path)
        size = int(share * len(self.expected[path]))
        file.truncate(size)
        self.expected[path] = self.expected[path][:size]
        around = max(0, size - 500)
        assert b"".join(file.read(around, 1000)) == self.expected[path][around:]

    @rule(path=PATHS, start=st.floats(0, 1), length=SIZES)
    def read(self, path: str, start: float, length: int) -> None:
        position = int(start * len(self.expected.get(path, b"")))
        parts = self.file(path).read(position, length)
        self.held.append((parts, self.expected[path][position : position + length]))

    @rule(path=PATHS)
    def flush(self, path: str) -> None:
        self.file(path).flush()

    @rule(path=PATHS)
    def close(self, path: str) -> None:
        self.file(path).close()

    @rule(path=PATHS)
    def close_and_open(self, path: str) -> None:
        self.file(path).close()
        del self.files[path]

    @rule()
    def stop_and_start(self) -> None:
        self.files.clear()
        self.restart()

    @precondition(lambda self: self.expected)
    @rule(data=st.data(), new=PATHS)
    def rename(self, data: st.DataObject, new: str) -> None:
        old = data.draw(st.sampled_from(sorted(self.expected)))
        self.fs.rename(old, new)
        self.expected[new] = self.expected.pop(old)
        moved = self.files.pop(old, None)
        self.files.pop(new, None)
        if moved is not None:
            self.files[new] = moved

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(self.expected)))
        self.fs.remove(path)
        del self.expected[path]
        self.files.pop(path, None)

    @rule(directory=st.sampled_from(["a", "a/b", "b"]))
    def remove_directory(self, directory: str) -> None:
        self.fs.remove_directory(directory)
        for path in [path for path in self.expected if path.startswith(f"{directory}/")]:
            del self.expected[path]
            self.files.pop(path, None)

    @precondition(lambda self: self.fs.directories())
    @rule(data=st.data())
    def sync_directory(self, data: st.DataObject) -> None:
        self.fs.sync_directory(data.draw(st.sampled_from(["", *self.fs.directories()])))

    @invariant()
    def the_names_are_those_of_the_files(self) -> None:
        listed = [
            f"{directory}/{name}" for directory in self.fs.directories() for name in self.fs.list(directory)
        ]
        assert sorted([*listed, *self.fs.list("")]) == sorted(self.expected)

    def teardown(self) -> None:
        for path, expected in self.expected.items():
            file = self.fs.open(path)
            assert file.size == len(expected)
            assert content(file) == expected
        for parts, expected in self.held:
            assert b"".join(parts) == expected


class MemoryMachine(VolumeMachine):
    @initialize()
    def make(self) -> None:
        self.fs = MemoryFileSystem()


class DirectoryMachine(VolumeMachine):
    """With two descriptors for four files."""

    @initialize()
    def make(self) -> None:
        self.root = tempfile.TemporaryDirectory()
        self.restart()

    def restart(self) -> None:
        self.fs = DirectoryFileSystem(Path(self.root.name), open_files=2)

    def teardown(self) -> None:
        super().teardown()
        self.root.cleanup()


class FaultyMachine(VolumeMachine):
    @initialize()
    def make(self) -> None:
        self.fs = FaultyFileSystem(Random(1))

    def restart(self) -> None:
        assert isinstance(self.fs, FaultyFileSystem)
        self.fs.crash()


MODEL = settings(max_examples=50, stateful_step_count=30, deadline=None)
MemoryMachine.TestCase.settings = MODEL
DirectoryMachine.TestCase.settings = MODEL
FaultyMachine.TestCase.settings = MODEL
TestMemory = MemoryMachine.TestCase
TestDirectory = DirectoryMachine.TestCase
TestFaulty = FaultyMachine.TestCase
