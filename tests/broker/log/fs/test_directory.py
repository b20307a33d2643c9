"""Files in a directory of a disk: descriptors, torn writes, flushes of other threads, and what is synced when."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from ottla.broker.log.fs.directory import OPEN_FILES, TAIL_BYTES, DirectoryFileSystem
from tests.broker.log.fs.volumes import content

WAIT_S = 30


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[DirectoryFileSystem]:
    fs = DirectoryFileSystem(tmp_path / "data")
    yield fs
    fs.close()


def descriptors_below(root: Path) -> list[str]:
    """The paths that this process has open there."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue  # the one of the listing itself
        if target.startswith(str(root)):
            found.append(target)
    return sorted(found)


linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


def fails_with(number: int) -> Callable[..., None]:
    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


# What is on the disk


def test_what_was_written_is_there_when_the_directory_is_opened_again(volume: DirectoryFileSystem) -> None:
    volume.open("orders-0/a.log").append(b"abc")
    assert content(DirectoryFileSystem(volume.root).open("orders-0/a.log")) == b"abc"
    assert (volume.root / "orders-0" / "a.log").read_bytes() == b"abc"


def test_a_process_that_is_killed_has_written_all_that_it_appended(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from ottla.broker.log.fs.directory import DirectoryFileSystem\n"
        "file = DirectoryFileSystem(Path(sys.argv[1])).open('orders-0/a.log')\n"
        "for number in range(1000):\n"
        "    file.append(number.to_bytes(4, 'big'))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    file = DirectoryFileSystem(tmp_path).open("orders-0/a.log")
    assert content(file) == b"".join(number.to_bytes(4, "big") for number in range(1000))


def test_a_volume_that_was_removed_is_not_made_again(volume: DirectoryFileSystem) -> None:
    volume.open("orders-0/log").append(b"data")
    shutil.rmtree(volume.root)
    with pytest.raises(FileNotFoundError):
        volume.open("orders-0/next")
    with pytest.raises(FileNotFoundError):
        volume.open("checkpoint")
    assert not volume.root.exists()


def test_a_volume_knows_when_a_file_was_written_and_how_large_its_disk_is(
    volume: DirectoryFileSystem,
) -> None:
    volume.open("a/1").append(b"abc")
    os.utime(volume.root / "a" / "1", ns=(0, 1_700_000_000_123_456_789))
    assert volume.modified_ms("a/1") == 1_700_000_000_123
    with pytest.raises(FileNotFoundError):
        volume.modified_ms("a/2")
    space = volume.space()
    assert space is not None
    assert 0 <= space.usable <= space.total
    assert space.total > 0


def test_a_file_on_a_broken_disk_is_not_one_that_is_not_there(
    volume: DirectoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume.open("a/1")
    monkeypatch.setattr(os, "stat", fails_with(errno.EIO))
    monkeypatch.setattr(os, "scandir", fails_with(errno.EIO))
    for look in (lambda: volume.exists("a/1"), lambda: volume.list("a"), volume.directories):
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            look()


def test_a_file_that_was_cut_behind_our_back_is_an_error_and_not_a_short_read(
    volume: DirectoryFileSystem,
) -> None:
    file = volume.open("a/1")
    file.append(b"abcdef")
    file.close()
    os.truncate(volume.root / "a" / "1", 4)
    with pytest.raises(OSError, match="of 6 bytes only 4 are there"):
        file.read(0, 6)


# Memory


def test_a_read_reaches_from_the_disk_into_what_is_kept_in_memory(volume: DirectoryFileSystem) -> None:
    file = volume.open("a.log")
    pieces = [bytes([number]) * 1000 for number in range(200)] * 10
    for piece in pieces:
        file.append(piece)
    (volume.root / "a.log").write_bytes(b"\xff" * file.size)
    seen = content(file)
    from_memory = seen.removeprefix(b"\xff" * (len(seen) - len(seen.lstrip(b"\xff"))))
    assert TAIL_BYTES // 2 < len(from_memory) <= TAIL_BYTES
    assert b"".join(pieces).endswith(from_memory)


def test_what_is_larger_than_the_memory_of_a_file_is_read_from_the_disk(volume: DirectoryFileSystem) -> None:
    file = volume.open("a.log")
    file.append(bytes(TAIL_BYTES + 1))
    (volume.root / "a.log").write_bytes(b"\xff" * file.size)
    assert content(file) == b"\xff" * file.size


def test_a_file_that_shares_what_another_read_has_it_in_the_same_memory(volume: DirectoryFileSystem) -> None:
    leader, follower = volume.open("leader"), volume.open("follower")
    leader.append(b"abc")
    (part,) = leader.read(0, 3)
    follower.append(part, shared=True)
    (shared,) = follower.read(0, 3)
    assert shared.obj is part.obj


# Descriptors


@linux
def test_a_volume_has_no_more_descriptors_than_it_may(tmp_path: Path) -> None:
    fs = DirectoryFileSystem(tmp_path, open_files=5)
    files = [fs.open(f"orders-{number}/a.log") for number in range(50)]
    for turn in range(3):
        for number, file in enumerate(files):
            file.append(bytes([number, turn]))
            assert len(descriptors_below(tmp_path)) <= 5
    for number, file in enumerate(files):
        assert content(file) == bytes([number, 0, number, 1, number, 2])
        file.flush()
        assert len(descriptors_below(tmp_path)) <= 5
    fs.close()
    assert descriptors_below(tmp_path) == []


@linux
def test_the_file_that_was_used_longest_ago_makes_room(tmp_path: Path) -> None:
    fs = DirectoryFileSystem(tmp_path, open_files=2)
    first, second = fs.open("1"), fs.open("2")
    first.append(b"x")
    fs.open("3")
    assert descriptors_below(tmp_path) == [f"{tmp_path}/1", f"{tmp_path}/3"]
    assert second.size == 0


def test_a_process_without_descriptors_goes_on_with_those_that_its_files_have(tmp_path: Path) -> None:
    """As with ulimit -n and more connections than were thought of."""
    script = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from ottla.broker.log.fs.directory import DirectoryFileSystem\n"
        "fs = DirectoryFileSystem(Path(sys.argv[1]))\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))\n"
        "files = [fs.open(f'orders-{number}/a.log') for number in range(300)]\n"
        "for number, file in enumerate(files):\n"
        "    file.append(b'%d' % number)\n"
        "assert [bytes(file.read(0, 9)[0]) for file in files] == [b'%d' % number for number in range(300)]\n"
    )
    assert OPEN_FILES > 40
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)


# Writes that fail


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """The system writes up to there, and then fails."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def test_a_write_that_is_torn_leaves_the_file_as_it_was(volume: DirectoryFileSystem) -> None:
    file = volume.open("a.log")
    file.append(b"a" * 4000)
    with files_no_larger_than(6000), pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
        file.append(b"b" * 4000)
    assert file.size == 4000
    assert (volume.root / "a.log").read_bytes() == content(file) == b"a" * 4000
    assert file.append(b"c") == 4000
    assert (volume.root / "a.log").read_bytes() == b"a" * 4000 + b"c"


def test_a_torn_write_that_cannot_be_taken_back_ends_the_writing_until_the_file_is_opened_again(
    volume: DirectoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = volume.open("a.log")
    file.append(b"a" * 4000)
    with monkeypatch.context() as broken:
        broken.setattr(os, "ftruncate", fails_with(errno.EIO))
        with files_no_larger_than(6000), pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            file.append(b"b" * 4000)
    for write in (lambda: file.append(b"c"), lambda: file.truncate(0), file.flush):
        with pytest.raises(OSError, match="takes no more writes") as refused:
            write()
        assert refused.value.filename == str(volume.root / "a.log")
    assert content(file) == b"a" * 4000
    again = volume.open("a.log")
    assert content(again) == b"a" * 4000 + b"b" * 2000
    again.truncate(4000)
    again.append(b"c")
    assert (volume.root / "a.log").read_bytes() == b"a" * 4000 + b"c"


def test_a_flush_that_failed_is_not_made_up_for_by_another(
    volume: DirectoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = volume.open("a.log")
    file.append(b"abc")
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fails_with(errno.EIO))
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            file.flush()
    with pytest.raises(OSError, match="takes no more writes"):
        file.flush()
    with pytest.raises(OSError, match="takes no more writes"):
        file.append(b"d")
    assert content(file) == b"abc"


def test_a_flush_for_which_there_is_no_descriptor_can_be_repeated(
    volume: DirectoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = volume.open("a.log")
    file.append(b"abc")
    file.close()
    with monkeypatch.context() as busy:
        busy.setattr(os, "open", fails_with(errno.EMFILE))
        with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
            file.flush()
    file.flush()
    file.append(b"d")


# What is synced


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch, volume: DirectoryFileSystem) -> list[str]:
    """The paths inside the volume that were synced, in order."""
    found: list[str] = []

    def fsync(descriptor: int) -> None:
        found.append(os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), volume.root))

    monkeypatch.setattr(os, "fsync", fsync)
    return found


@linux
def test_a_flush_syncs_the_bytes_and_once_the_names_that_lead_to_them(
    volume: DirectoryFileSystem, synced: list[str]
) -> None:
    file = volume.open("orders/0/a.log")
    file.flush()
    assert synced == ["orders/0/a.log", "orders/0", "orders", "."]
    synced.clear()
    file.flush()
    assert synced == []
    file.append(b"abc")
    file.flush()
    file.truncate(1)
    file.flush()
    assert synced == ["orders/0/a.log"] * 2


@linux
def test_what_a_killed_process_has_written_is_synced_by_the_first_flush(
    volume: DirectoryFileSystem, synced: list[str]
) -> None:
    volume.open("a.log").append(b"abc")
    DirectoryFileSystem(volume.root).open("a.log").flush()
    assert synced == ["a.log"]


@linux
def test_names_are_synced_with_those_of_the_directories_above(
    volume: DirectoryFileSystem, synced: list[str]
) -> None:
    volume.open("orders/0/a.log")
    volume.rename("orders/0/a.log", "orders/0/b.log")
    assert synced == []
    volume.sync_directory("orders/0")
    assert synced == ["orders/0", "orders", "."]


@linux
def test_a_closed_file_is_flushed_and_stays_closed(volume: DirectoryFileSystem, synced: list[str]) -> None:
    file = volume.open("a.log")
    file.append(b"abc")
    file.close()
    file.flush()
    assert synced == ["a.log", "."]
    assert descriptors_below(volume.root) == []


# Flushes of other threads


class SlowSync:
    """Stands in for fsync: each call reports that it has begun, and ends when it may."""

    def __init__(self) -> None:
        self.begun, self.may_end = Event(), Event()
        self.sizes: list[int] = []

    def __call__(self, descriptor: int) -> None:
        self.begun.set()
        assert self.may_end.wait(WAIT_S)
        self.sizes.append(os.fstat(descriptor).st_size)


@pytest.fixture
def slow_sync(monkeypatch: pytest.MonkeyPatch) -> SlowSync:
    sync = SlowSync()
    monkeypatch.setattr(os, "fsync", sync)
    return sync


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def start(thread: ThreadPoolExecutor, flush: Callable[[], None], sync: SlowSync) -> Future[None]:
    flushing = thread.submit(flush)
    assert sync.begun.wait(WAIT_S)
    return flushing


def test_a_file_may_be_written_closed_and_removed_while_another_thread_flushes_it(
    tmp_path: Path, thread: ThreadPoolExecutor, slow_sync: SlowSync
) -> None:
    fs = DirectoryFileSystem(tmp_path, open_files=1)
    fs.open("other")
    (tmp_path / "a.log").write_bytes(b"")
    file = fs.open("a.log")
    file.append(b"abc")
    flushing = start(thread, file.flush, slow_sync)
    file.append(b"de")
    fs.open("other").append(b"takes the only descriptor")
    file.close()
    fs.remove("a.log")
    slow_sync.may_end.set()
    flushing.result(WAIT_S)
    assert slow_sync.sizes == [5]


def test_a_flush_does_not_rely_on_one_that_is_still_under_way(
    volume: DirectoryFileSystem, thread: ThreadPoolExecutor, slow_sync: SlowSync
) -> None:
    (volume.root / "a.log").write_bytes(b"")
    file = volume.open("a.log")
    file.append(b"abc")
    flushing = start(thread, file.flush, slow_sync)
    slow_sync.may_end.set()
    file.flush()
    flushing.result(WAIT_S)
    assert slow_sync.sizes == [3, 3]
    file.flush()
    assert slow_sync.sizes == [3, 3]


def test_what_is_appended_during_a_flush_is_left_to_the_next(
    volume: DirectoryFileSystem, thread: ThreadPoolExecutor, slow_sync: SlowSync
) -> None:
    (volume.root / "a.log").write_bytes(b"")
    file = volume.open("a.log")
    file.append(b"abc")
    flushing = start(thread, file.flush, slow_sync)
    file.append(b"de")
    slow_sync.may_end.set()
    flushing.result(WAIT_S)
    file.flush()
    assert len(slow_sync.sizes) == 2


@pytest.mark.parametrize("change", ["rename", "remove"])
def test_a_closed_file_may_get_another_name_or_none_while_another_thread_opens_it_for_a_flush(
    volume: DirectoryFileSystem, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    file = volume.open("a.log.tmp")
    file.append(b"abc")
    file.close()
    system_open = os.open
    synced: list[int] = []

    def open_late(path: str, flags: int, *args: int) -> int:
        """The other thread is about to open the file, when this happens."""
        monkeypatch.setattr(os, "open", system_open)
        if change == "rename":
            volume.rename("a.log.tmp", "a.log")
            file.close()
        else:
            volume.remove("a.log.tmp")
        volume.open("a.log.tmp").append(b"another file")
        return system_open(path, flags, *args)

    monkeypatch.setattr(os, "open", open_late)
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    file.flush()
    assert synced[:1] == ([3] if change == "rename" else [])


def test_a_closed_file_is_flushed_by_another_thread_while_it_is_renamed(
    volume: DirectoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = volume.open("a.log")
    file.append(b"abc")
    file.close()
    system_rename = os.rename

    def rename(old: str, new: str) -> None:
        """The disk has the new name and the volume still the old one, when the other thread comes."""
        system_rename(old, new)
        file.flush()

    monkeypatch.setattr(os, "rename", rename)
    volume.rename("a.log", "b.log")
    assert content(volume.open("b.log")) == b"abc"


@pytest.mark.parametrize("call", ["pwrite", "ftruncate"])
def test_a_flush_that_comes_before_a_write_has_reached_the_system_does_not_count_for_it(
    volume: DirectoryFileSystem, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    file = volume.open("a.log")
    file.append(b"abc")
    file.flush()
    sizes: list[int] = []
    system_call = getattr(os, call)

    def late(descriptor: int, *args: object) -> object:
        """The other thread flushes, just when the call is about to be made."""
        file.flush()
        return system_call(descriptor, *args)

    monkeypatch.setattr(os, "fsync", lambda descriptor: sizes.append(os.fstat(descriptor).st_size))
    monkeypatch.setattr(os, call, late)
    if call == "pwrite":
        file.append(b"de")
    else:
        file.truncate(1)
    file.flush()
    assert sizes[-1:] == [file.size]


def test_many_flushes_of_another_thread_disturb_nothing(tmp_path: Path, thread: ThreadPoolExecutor) -> None:
    fs = DirectoryFileSystem(tmp_path, open_files=2)
    names = [f"{number}.log" for number in range(4)]
    files = [fs.open(name) for name in names]
    expected = [b""] * 4
    flushes: list[Future[None]] = []
    for turn in range(300):
        index = turn % 4
        data = bytes([turn % 256]) * (turn * 7)
        files[index].append(data)
        expected[index] += data
        flushes.append(thread.submit(files[(turn + 1) % 4].flush))
        if turn % 5 == 0:
            fs.rename(names[index], f"{turn}.moved")
            names[index] = f"{turn}.moved"
    for flush in flushes:
        flush.result(WAIT_S)
    assert [content(file) for file in files] == expected
    assert [(tmp_path / name).read_bytes() for name in names] == expected
    fs.close()
