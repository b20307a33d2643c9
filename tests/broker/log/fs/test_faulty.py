"""A disk that fails: power losses, kills, errors by order, full, slow, broken."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from ottla.broker.log.checkpoints import read_file, replace_file
from ottla.broker.log.fs import Space
from ottla.broker.log.fs.faulty import FaultyFileSystem, Operation
from ottla.broker.log.fs.page_cache import Fate
from tests.broker.log.fs.volumes import content

SEEDS = range(200)
EIO = OSError(errno.EIO, os.strerror(errno.EIO))


def volume(seed: int = 1, capacity: int | None = None) -> FaultyFileSystem:
    return FaultyFileSystem(Random(seed), capacity)


# Power and kills


class Promises:
    """A history on a volume, and what has to be there after a power loss."""

    def __init__(self, seed: int) -> None:
        self.fs = volume(seed)
        self.random = Random(-seed)
        self.written: dict[str, bytes] = {}
        self.synced: dict[str, bytes] = {}

    def step(self) -> None:
        path = f"orders-{self.random.randrange(3)}/{self.random.randrange(3)}.log"
        file = self.fs.open(path)
        now = self.written.get(path, b"")
        action = self.random.random()
        if action < 0.6:
            data = self.random.randbytes(self.random.randrange(2000))
            file.append(data)
            now += data
        elif action < 0.75:
            now = now[: self.random.randrange(len(now) + 1)]
            file.truncate(len(now))
            if path in self.synced:
                # The disk may have either; what both have in common is promised.
                self.synced[path] = self.synced[path][: len(now)]
        else:
            file.flush()
            self.synced[path] = now
        self.written[path] = now


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_synced_survives_a_power_loss(seed: int) -> None:
    history = Promises(seed)
    for _ in range(40):
        history.step()
    history.fs.power_loss()
    assert history.synced
    for path, synced in history.synced.items():
        assert history.fs.exists(path)
        assert content(history.fs.open(path)).startswith(synced)


def test_of_what_is_not_synced_every_kind_of_loss_is_seen() -> None:
    fates: Counter[Fate] = Counter()
    differing = 0
    for seed in SEEDS:
        history = Promises(seed)
        for _ in range(40):
            history.step()
        fates += history.fs.power_loss()
        seen = {
            f"{directory}/{name}": content(history.fs.open(f"{directory}/{name}"))
            for directory in history.fs.directories()
            for name in history.fs.list(directory)
        }
        differing += seen != history.written
    assert set(fates) == set(Fate)
    assert differing > 150


def test_the_same_seed_loses_the_same() -> None:
    def run() -> tuple[Counter[Fate], list[bytes]]:
        history = Promises(7)
        for _ in range(60):
            history.step()
        fates = history.fs.power_loss()
        return fates, [content(history.fs.open(path)) for path in sorted(history.written)]

    assert run() == run()


@pytest.mark.parametrize("end", [FaultyFileSystem.crash, FaultyFileSystem.power_loss])
def test_the_files_of_a_process_that_died_are_opened_anew(end: Callable[[FaultyFileSystem], object]) -> None:
    fs = volume()
    file = fs.open("a/1")
    file.append(b"abc")
    file.flush()
    end(fs)
    for use in (lambda: file.append(b"d"), lambda: file.read(0, 1), lambda: file.truncate(0), file.flush):
        with pytest.raises(OSError, match="the process that has opened it is dead"):
            use()
    again = fs.open("a/1")
    again.append(b"d")
    assert content(again) == b"abcd"


def test_a_killed_process_loses_nothing_but_the_system_may_still_lose_it() -> None:
    found = set()
    for seed in SEEDS:
        fs = volume(seed)
        fs.open("a/1").append(b"abc")
        fs.crash()
        assert content(fs.open("a/1")) == b"abc"
        fs.power_loss()
        found.add(content(fs.open("a/1")) == b"abc")
    assert found == {False, True}


def test_a_file_that_was_replaced_has_one_content_or_the_other_wherever_the_power_goes() -> None:
    """And the new one in any case, once the call has returned."""
    found = set()
    for seed in SEEDS:
        fs = volume(seed)
        replace_file(fs, "a/checkpoint", b"old")
        fs.fail_next(Operation.SYNC_DIRECTORY, "a", EIO)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            replace_file(fs, "a/checkpoint", b"new")
        fs.power_loss()
        found.add(read_file(fs, "a/checkpoint"))
        replace_file(fs, "a/checkpoint", b"newest")
        fs.power_loss()
        assert read_file(fs, "a/checkpoint") == b"newest"
    assert found == {b"old", b"new"}


def test_a_file_that_was_renamed_before_it_was_flushed_may_be_empty_or_damaged() -> None:
    """The mistake that a write to a temporary file without a flush makes: this volume finds it."""
    found = set()
    for seed in SEEDS:
        fs = volume(seed)
        replace_file(fs, "checkpoint", b"old")
        fs.open("checkpoint.tmp").append(b"new")
        fs.rename("checkpoint.tmp", "checkpoint")
        fs.sync_directory("")
        fs.power_loss()
        found.add(content(fs.open("checkpoint")))
    assert {b"", b"new"} < found
    assert b"old" not in found


def test_a_directory_that_was_renamed_is_there_whole_under_one_of_its_names() -> None:
    found = set()
    for seed in SEEDS:
        fs = volume(seed)
        for name in ("1", "2"):
            replace_file(fs, f"orders-0/{name}", b"abc")
        fs.rename_directory("orders-0", "orders-0.deleted")
        fs.power_loss()
        (directory,) = fs.directories()
        assert fs.list(directory) == ["1", "2"]
        assert content(fs.open(f"{directory}/2")) == b"abc"
        found.add(directory)
        if directory == "orders-0":
            fs.rename_directory("orders-0", "orders-0.deleted")
        fs.sync_directory("")
        fs.power_loss()
        assert fs.directories() == ["orders-0.deleted"]
    assert found == {"orders-0", "orders-0.deleted"}


# Errors by order


def test_as_many_calls_as_were_ordered_fail_on_the_paths_that_were_meant() -> None:
    fs = volume()
    log, index = fs.open("orders-0/1.log"), fs.open("orders-0/1.index")
    fs.fail_next(Operation.APPEND, "orders-0/*.log", EIO, count=2)
    index.append(b"i")
    for _ in range(2):
        with pytest.raises(OSError, match=os.strerror(errno.EIO)) as failed:
            log.append(b"abc")
        assert (failed.value.errno, failed.value.filename) == (errno.EIO, "orders-0/1.log")
    assert log.append(b"abc") == 0


CALLS: dict[Operation, Callable[[FaultyFileSystem], object]] = {
    Operation.CREATE: lambda fs: fs.open("a/new"),
    Operation.OPEN: lambda fs: fs.open("a/1"),
    Operation.READ: lambda fs: fs.open("a/1").read(0, 1),
    Operation.APPEND: lambda fs: fs.open("a/1").append(b"x"),
    Operation.TRUNCATE: lambda fs: fs.open("a/1").truncate(1),
    Operation.FLUSH: lambda fs: fs.open("a/1").flush(),
    Operation.REMOVE: lambda fs: fs.remove("a/1"),
    Operation.RENAME: lambda fs: fs.rename("a/1", "a/2"),
    Operation.SYNC_DIRECTORY: lambda fs: fs.sync_directory("a"),
    Operation.LIST: lambda fs: fs.list("a"),
}


@pytest.mark.parametrize("operation", Operation)
def test_every_operation_can_fail_and_leaves_all_as_it_was(operation: Operation) -> None:
    fs = volume()
    fs.open("a/1").append(b"abc")
    fs.fail_next(operation, "a*", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        CALLS[operation](fs)
    assert fs.list("a") == ["1"]
    assert content(fs.open("a/1")) == b"abc"
    CALLS[operation](fs)


def test_a_directory_of_which_a_file_cannot_be_removed_keeps_it() -> None:
    fs = volume()
    for path in ("a/1", "a/2", "a/3"):
        fs.open(path)
    fs.fail_next(Operation.REMOVE, "a/2", EIO)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        fs.remove_directory("a")
    assert fs.list("a") == ["2", "3"]
    fs.remove_directory("a")
    assert fs.list("a") == []


def test_a_flush_that_failed_ends_the_writing_until_the_file_is_opened_again() -> None:
    fs = volume()
    file = fs.open("a/1")
    file.append(b"abc")
    fs.fail_next(Operation.FLUSH, "*", EIO)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        file.flush()
    for write in (lambda: file.append(b"c"), lambda: file.truncate(0), file.flush):
        with pytest.raises(OSError, match="takes no more writes"):
            write()
    assert content(file) == b"abc"
    fs.open("a/1").append(b"d")
    assert content(fs.open("a/1")) == b"abcd"


@pytest.mark.parametrize("operation", Operation)
def test_on_a_broken_disk_everything_fails_until_it_is_healed(operation: Operation) -> None:
    fs = volume()
    fs.open("a/1").append(b"abc")
    fs.break_disk()
    for _ in range(2):
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            CALLS[operation](fs)
    fs.heal()
    assert content(fs.open("a/1")) == b"abc"
    CALLS[operation](fs)


# Full, slow, decayed


def test_an_append_to_a_full_disk_is_torn_and_leaves_the_file_as_it_was() -> None:
    fs = volume(capacity=10)
    file = fs.open("a/1")
    file.append(b"abcdef")
    assert fs.space() == Space(total=10, usable=4)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as failed:
        file.append(b"ghijklm")
    assert failed.value.errno == errno.ENOSPC
    assert content(file) == b"abcdef"
    assert file.append(b"ghij") == 6
    assert fs.space() == Space(total=10, usable=0)
    file.truncate(5)
    fs.open("a/2").append(b"12345")
    fs.remove("a/1")
    assert fs.space() == Space(total=10, usable=5)
    assert volume().space() is None


def test_what_a_full_disk_took_of_an_append_may_come_back_with_a_power_loss() -> None:
    found = set()
    for seed in SEEDS:
        fs = volume(seed, capacity=10)
        file = fs.open("a/1")
        file.append(b"abcdef")
        file.flush()
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            file.append(b"ghijklm")
        fs.power_loss()
        found.add(content(fs.open("a/1")))
    assert {b"abcdef", b"abcdefghij"} < found
    assert all(seen.startswith(b"abcdef") for seen in found)


def test_a_slow_disk_tells_how_long_a_flush_takes() -> None:
    told: list[float] = []
    fs = FaultyFileSystem(Random(1), delayed=told.append)
    file = fs.open("a/1")
    file.append(b"abc")
    file.flush()
    fs.slow(2.5)
    file.flush()
    file.flush()
    fs.slow(0)
    file.flush()
    assert told == [2.5, 2.5]


def test_a_bit_flips_where_it_was_ordered_and_not_under_a_reader() -> None:
    for seed in SEEDS:
        fs = volume(seed)
        file = fs.open("a/1")
        file.append(bytes(1000))
        file.flush()
        (held,) = file.read(0, 1000)
        position = fs.flip_bit("a/1", 300, 310)
        assert 300 <= position < 310
        assert bytes(held) == bytes(1000)
        fs.power_loss()
        seen = content(fs.open("a/1"))
        assert [index for index, byte in enumerate(seen) if byte] == [position]
        assert seen[position].bit_count() == 1
    with pytest.raises(FileNotFoundError):
        volume().flip_bit("a/1")


def test_a_disk_breaks_after_a_number_of_calls_and_says_so_first() -> None:
    fs, told = volume(), []
    fs.break_after(1, lambda: told.append(True))
    file = fs.open("a")
    with pytest.raises(OSError, match="Input/output"):
        file.append(b"x")
    assert told == [True]
    fs.heal()
    assert file.append(b"x") == 0


def test_a_disk_that_is_filled_has_room_for_so_much_more() -> None:
    fs = volume()
    file = fs.open("a")
    file.append(b"12345")
    fs.fill(2)
    with pytest.raises(OSError, match="No space"):
        file.append(b"678")
    assert file.append(b"67") == 5
