"""The volume: who holds which log, and when its files go."""

from __future__ import annotations

from ottla.broker.log.config import LogConfig
from ottla.broker.log.fs import MemoryFileSystem
from ottla.broker.log.volume import Volume
from tests.broker.log.support import DIRECTORY, NOW, append, make_batch, values


def held(volume: Volume) -> int:
    """How many records the log has for one more holder."""
    log = volume.acquire(DIRECTORY, LogConfig(), NOW)
    count = len(values(log))
    volume.release(DIRECTORY)
    return count


def test_all_holders_have_the_same_log() -> None:
    volume = Volume()
    first = volume.acquire(DIRECTORY, LogConfig(), NOW)
    assert volume.acquire(DIRECTORY, LogConfig(), NOW) is first
    volume.release(DIRECTORY)
    append(first, make_batch(3))
    assert volume.acquire(DIRECTORY, LogConfig(), NOW) is first


def test_the_last_holder_closes_the_log_and_the_next_recovers_it() -> None:
    volume = Volume(MemoryFileSystem())
    log = volume.acquire(DIRECTORY, LogConfig(), NOW)
    append(log, make_batch(3))
    volume.release(DIRECTORY)
    again = volume.acquire(DIRECTORY, LogConfig(), NOW)
    assert again is not log
    assert again.log_end_offset == 3


def test_deleted_files_go_with_the_last_holder() -> None:
    volume = Volume()
    log = volume.acquire(DIRECTORY, LogConfig(), NOW)
    volume.acquire(DIRECTORY, LogConfig(), NOW)
    append(log, make_batch(3))
    volume.release(DIRECTORY, delete=True)
    assert volume.fs.list(DIRECTORY)
    assert held(volume) == 3
    volume.release(DIRECTORY)
    assert volume.fs.list(DIRECTORY) == []
    assert held(volume) == 0


def test_a_volume_that_is_closed_leaves_logs_that_are_whole() -> None:
    fs = MemoryFileSystem()
    volume = Volume(fs)
    append(volume.acquire(DIRECTORY, LogConfig(), NOW), make_batch(3))
    volume.close()
    assert held(Volume(fs)) == 3
