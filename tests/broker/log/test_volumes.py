"""A log is the same on every volume: in memory, in a directory, on a disk that may fail and does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from ottla.broker.log.fs import FileSystem, MemoryFileSystem
from ottla.broker.log.fs.directory import DirectoryFileSystem
from ottla.broker.log.fs.faulty import FaultyFileSystem
from ottla.broker.log.log import Log, LogConfig
from ottla.wire.batches import ControlType
from tests.broker.log.support import DIRECTORY, NOW, append, append_marker, joined, make_batch, values

SMALL = LogConfig(segment_bytes=20_000, index_interval_bytes=500)


class Histories:
    """One history, on a log of each kind."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._memory, self._faulty = MemoryFileSystem(), FaultyFileSystem(Random(1))
        self.logs: list[Log] = []
        self.open()

    def volumes(self) -> list[FileSystem]:
        # Fewer descriptors than a segment has files.
        return [self._memory, DirectoryFileSystem(self._root, open_files=3), self._faulty]

    def open(self) -> None:
        self.logs = [Log.open(fs, DIRECTORY, SMALL, NOW) for fs in self.volumes()]

    def kill(self) -> None:
        self._faulty.crash()

    def agree(self, look: Callable[[Log], object]) -> bool:
        found = [look(log) for log in self.logs]
        return found[1:] == found[:1] * 2

    def agree_from(self, offset: int, size: int) -> bool:
        return self.agree(lambda log: joined(log.read(offset, size, at_least_one=True)))

    def agree_at(self, timestamp: int) -> bool:
        return self.agree(lambda log: log.offset_for_timestamp(timestamp))


@pytest.mark.parametrize("seed", range(12))
def test_a_log_reads_the_same_on_every_volume(tmp_path: Path, seed: int) -> None:
    random, histories = Random(seed), Histories(tmp_path)
    for number in range(120):
        step = random.random()
        value, count = b"%d" % number * random.randrange(1, 400), random.randrange(1, 5)
        end = histories.logs[0].log_end_offset
        cut = random.randrange(max(0, end - 20), end + 1)
        if step < 0.05:
            for log in histories.logs:
                log.close()
            histories.open()
        elif step < 0.1:
            histories.kill()
            histories.open()
        elif step < 0.15:
            for log in histories.logs:
                log.truncate_to(cut)
        elif step < 0.25:
            for log in histories.logs:
                append(log, make_batch(count, value=value, producer=(number, 0, 0), transactional=True))
                append_marker(log, ControlType.ABORT, number)
        else:
            for log in histories.logs:
                append(log, make_batch(count, value=value, timestamp=NOW + number))
        offset, size = random.randrange(end + 1), random.randrange(30_000)
        assert histories.agree(lambda log: (log.log_end_offset, log.size, len(log.segments)))
        assert histories.agree_from(min(offset, histories.logs[0].log_end_offset), size)
        assert histories.agree_at(NOW + cut)
        assert histories.agree(lambda log: log.aborted(0, log.log_end_offset))
    assert histories.agree(values)
    assert len(histories.logs[0].segments) > 2
