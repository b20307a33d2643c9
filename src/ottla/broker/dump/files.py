"""Which kind a file is, by its name, and what a dump of it takes. Names are Kafka's (docs of `log.dirs`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from ottla.broker.dump.decoders import RecordDecoder, decoder_of
from ottla.broker.dump.indexes import IndexOptions, dump_offset_index, dump_time_index
from ottla.broker.dump.lines import DumpError, DumpLine
from ottla.broker.dump.producers import dump_aborted_transactions, dump_producer_snapshot
from ottla.broker.dump.segments import (
    BOOTSTRAP_SNAPSHOT,
    RecordOptions,
    dump_metadata_snapshot,
    dump_segment,
)
from ottla.broker.dump.small_files import SMALL_FILES, dump_small_file
from ottla.broker.log.segment import ABORTED_INDEX_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from ottla.broker.log.snapshots import SUFFIX as PRODUCER_SNAPSHOT_SUFFIX
from ottla.broker.metadata.names import METADATA_TOPIC

METADATA_SNAPSHOT_SUFFIX: Final = ".checkpoint"
_LOG_DIRECTORY: Final = re.compile(r"(.+)-(\d+)(?:\.[0-9a-f]{32}-(delete|future|stray))?")
# A file that waits to be deleted, or that the cleaner was about to put in place.
_NUMBERED: Final = re.compile(r"\d{20}(\.[a-z]+)(?:\.(?:deleted|cleaned|swap))?")
_METADATA_SNAPSHOT: Final = re.compile(r"\d{20}-\d{10}\.checkpoint(?:\.deleted)?")
_KINDS: Final = (
    "a segment or its indexes (.log, .index, .timeindex, .txnindex), .snapshot, .checkpoint, "
    + ", ".join(sorted(SMALL_FILES))
)


class LogName(NamedTuple):
    """What the name of a log's directory says."""

    topic: str
    partition: int
    state: str
    """`delete`, `future`, `stray`, or nothing."""


@dataclass(frozen=True, slots=True)
class FileOptions:
    """How files of each kind are dumped."""

    records: RecordOptions = field(default_factory=RecordOptions)
    indexes: IndexOptions = field(default_factory=IndexOptions)
    decoder: RecordDecoder | None = None
    """None: by the topic."""


def log_name(directory: Path) -> LogName | None:
    """None if it is not the directory of a log."""
    named = _LOG_DIRECTORY.fullmatch(directory.name)
    return None if named is None else LogName(named[1], int(named[2]), named[3] or "")


def suffix_of(name: str) -> str | None:
    """What kind a file is: a suffix, or the whole name of a small file; None for any other."""
    if name in SMALL_FILES:
        return name
    if name == BOOTSTRAP_SNAPSHOT or _METADATA_SNAPSHOT.fullmatch(name):
        return METADATA_SNAPSHOT_SUFFIX
    numbered = _NUMBERED.fullmatch(name)
    return numbered[1] if numbered is not None and numbered[1] in _SUFFIXES else None


_SUFFIXES: Final = frozenset(
    {LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, ABORTED_INDEX_SUFFIX, PRODUCER_SNAPSHOT_SUFFIX}
)


def dump_file(path: Path, options: FileOptions) -> Iterator[DumpLine]:
    """Everything in a file; DumpError if it cannot be read or is none of these."""
    if not exists(path):
        raise DumpError("no such file or directory")
    kind = suffix_of(path.name)
    if kind is None:
        raise DumpError(f"not a file of a log directory, which are: {_KINDS}")
    with opened(path) as file:
        match kind:
            case ".log":
                yield from dump_segment(file, path.name, _record_options(path, options))
            case ".checkpoint":
                chosen = options.decoder or decoder_of(METADATA_TOPIC)
                yield from dump_metadata_snapshot(file, path.name, replace(options.records, decoder=chosen))
            case ".index":
                yield from dump_offset_index(file, path, _base_offset(path), options.indexes)
            case ".timeindex":
                yield from dump_time_index(file, path, _base_offset(path), options.indexes)
            case ".txnindex":
                yield from dump_aborted_transactions(file, path.name)
            case ".snapshot":
                yield from dump_producer_snapshot(file, path.name)
            case _:
                yield from dump_small_file(file, path.name)


def exists(path: Path) -> bool:
    """DumpError where it cannot be known, in a directory without permission for one."""
    try:
        return path.exists()
    except OSError as error:
        raise DumpError(error.strerror or str(error)) from error


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The file, for reading; an error of the system, now or later, is a DumpError that says why."""
    try:
        if not path.is_file() and path.exists():
            raise DumpError("not a regular file")
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise DumpError(error.strerror or str(error)) from error


def _base_offset(path: Path) -> int:
    return int(path.name.partition(".")[0])


def _record_options(path: Path, options: FileOptions) -> RecordOptions:
    named = log_name(path.absolute().parent)
    chosen = options.decoder or decoder_of(None if named is None else named.topic)
    return replace(options.records, decoder=chosen)
