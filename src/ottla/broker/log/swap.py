"""How a compacted segment takes the place of those that it was made from: a crash leaves the one or the others.

The files go through Kafka's states, which are the ends of their names:

    .cleaned    is being written: worth nothing
    .swap       is complete, and on the volume: from here on it counts, and its sources do not
    .deleted    was a source, and goes when readers of it are done (file.delete.delay.ms)

`.log.cleaned` is renamed to `.log.swap` after the indexes, so where that is there, they are complete as well. The
sources are renamed next. Last comes `.log.swap`, which becomes `.log` before the indexes follow. So whatever a crash
leaves behind says by the log's state how far the swap has come, and `finish_swaps` goes on from there.

A source that lies behind the last batch of the compacted segment is not recognized as one after a crash, and stays,
with all sources behind it: the oldest is renamed first. That costs nothing: their records are compacted again, as the
offset up to which the log is clean is not written yet. Were a later source gone, with a tombstone whose horizon has
passed, what that has deleted would be back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.broker.log.batch import find_last
from ottla.broker.log.config import LogConfig
from ottla.broker.log.fs import FileSystem
from ottla.broker.log.segment import LOG_SUFFIX, SUFFIXES, Segment

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
DELETED: Final = ".deleted"


def begin_cleaned(
    fs: FileSystem, directory: str, base_offset: int, config: LogConfig, now_ms: int
) -> Segment:
    """The empty segment that compaction writes to."""
    for suffix in SUFFIXES:
        # A pass that was cut short, and could not clean up, may have left one of this name.
        path = f"{directory}/{base_offset:020d}{suffix}{CLEANED}"
        if fs.exists(path):
            fs.remove(path)
    return Segment(fs, directory, base_offset, config, now_ms, state=CLEANED)


def swap_in(cleaned: Segment, sources: Sequence[Segment]) -> None:
    """`cleaned` is written and flushed. From the first step on it has to be done, or finished on the next opening."""
    cleaned.rename(SWAP, log_last=True)
    for source in sources:
        source.rename(DELETED)
    cleaned.rename("")


class DeletedSegments:
    """Segments that are no part of their log any more, and when their files may go."""

    def __init__(self) -> None:
        self._due: list[tuple[int, Segment]] = []

    def add(self, segments: Sequence[Segment], due_ms: int) -> None:
        self._due += [(due_ms, segment) for segment in segments]

    def remove_due(self, now_ms: int) -> None:
        """An OSError leaves those that could not be removed for the next time."""
        while self._due and self._due[0][0] <= now_ms:
            self._due[0][1].remove()
            del self._due[0]

    def close(self) -> None:
        """Their files stay until the log is opened again."""
        for _, segment in self._due:
            segment.close()


def finish_swaps(fs: FileSystem, directory: str) -> None:
    """Before the segments of a directory are opened: drops what was not to count, and completes what was."""
    _drop_incomplete(fs, directory)
    for name in fs.list(directory):
        if name.endswith(LOG_SUFFIX + SWAP):
            _complete(fs, directory, name)
    for name in fs.list(directory):
        if name.endswith(SWAP):
            fs.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")


def _drop_incomplete(fs: FileSystem, directory: str) -> None:
    names = fs.list(directory)
    unfinished = [name for name in names if name.endswith(LOG_SUFFIX + CLEANED)]
    stems = {_stem(name) for name in unfinished}
    for name in names:
        if name in unfinished:
            continue
        if name.endswith((CLEANED, DELETED)) or (name.endswith(SWAP) and _stem(name) in stems):
            fs.remove(f"{directory}/{name}")
    # Last: it is what says that the others are worth nothing.
    for name in unfinished:
        fs.remove(f"{directory}/{name}")


def _complete(fs: FileSystem, directory: str, name: str) -> None:
    path = f"{directory}/{name}"
    base = int(_stem(name))
    end = max(_end_offset(fs, path), base + 1)
    for other in fs.list(directory):
        stem, dot, suffix = other.partition(".")
        if dot + suffix in SUFFIXES and base <= int(stem) < end:
            fs.remove(f"{directory}/{other}")
    fs.rename(path, path.removesuffix(SWAP))


def _end_offset(fs: FileSystem, path: str) -> int:
    file = fs.open(path)
    last = find_last(file, 0, file.size)
    file.close()
    return 0 if last is None else last.last_offset + 1


def _stem(name: str) -> str:
    return name.partition(".")[0]
