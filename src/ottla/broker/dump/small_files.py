"""The small files of a log directory: checkpoints, properties and JSON, of a few lines each.

Offsets of all logs of the directory (`*-offset-checkpoint`), leader epochs of a log, the id of its topic, whose
directory it is, whether a broker has stopped cleanly, and for whom a voter of the quorum has voted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO, Final

from ottla.broker.dump.lines import DumpLine, entry, problem

_VERSION: Final = "0"
_MAX_SIZE: Final = 16 << 20
"""A hundred thousand logs with long names: what is larger is no such file."""

OFFSET_CHECKPOINTS: Final = (
    "replication-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
QUORUM_STATE: Final = "quorum-state"


class DamagedFileError(Exception):
    """What is wrong with a small file."""


def dump_small_file(file: BinaryIO, name: str) -> Iterator[DumpLine]:
    """A file of `SMALL_FILES`."""
    try:
        yield from _READERS[name](read_text(file))
    except DamagedFileError as error:
        yield problem(f"{name} is damaged: {error}")


def read_checkpoint(text: str, columns: int) -> list[list[str]]:
    """The rows of a checkpoint: a version, how many rows there are, and the rows."""
    lines = text.splitlines()
    # Kafka makes the file of its cleaner empty, and writes it with the first offset.
    if not lines:
        return []
    if lines[0] != _VERSION:
        raise DamagedFileError(f"the version is {lines[0][:20]!r}, only {_VERSION} is known")
    said, has = _integer(lines[1] if len(lines) > 1 else ""), max(len(lines) - 2, 0)
    if said != has:
        raise DamagedFileError(f"it says that it has {said} entries, and has {has}")
    rows = []
    for number, line in enumerate(lines[2:], 3):
        row = line.rsplit(" ", columns - 1)
        if len(row) != columns:
            raise DamagedFileError(f"line {number} has not {columns} words")
        rows.append(row)
    return rows


def read_offsets(text: str) -> dict[tuple[str, int], int]:
    """An offset for each log, by topic and partition."""
    return {
        (topic, _integer(partition)): _integer(offset)
        for topic, partition, offset in read_checkpoint(text, 3)
    }


def read_leader_epochs(text: str) -> list[tuple[int, int]]:
    """Epochs, and the first offset of each."""
    return [(_integer(epoch), _integer(start)) for epoch, start in read_checkpoint(text, 2)]


def read_properties(text: str, separator: str) -> dict[str, str]:
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, separated, value = line.partition(separator)
        if not separated:
            raise DamagedFileError(f"line {number} has no {separator!r}")
        found[name.strip()] = value.strip()
    return found


def _offset_lines(text: str) -> Iterator[DumpLine]:
    for (topic, partition), offset in read_offsets(text).items():
        yield entry(topic=topic, partition=partition, offset=offset)


def _epoch_lines(text: str) -> Iterator[DumpLine]:
    for epoch, start in read_leader_epochs(text):
        yield entry(epoch=epoch, startOffset=start)


def _partition_metadata_lines(text: str) -> Iterator[DumpLine]:
    yield entry(**_with_names(read_properties(text, ":"), "version", "topic_id"))


def _meta_properties_lines(text: str) -> Iterator[DumpLine]:
    yield entry(**_with_names(read_properties(text, "="), "version"))


def _with_names(found: Mapping[str, str], *expected: str) -> Mapping[str, str]:
    for name in expected:
        if name not in found:
            raise DamagedFileError(f"it has no {name}")
    return found


def _clean_shutdown_lines(text: str) -> Iterator[DumpLine]:
    # A Kafka before 3.7 left an empty file.
    yield entry(**_object(text or "{}"))


def _quorum_state_lines(text: str) -> Iterator[DumpLine]:
    yield entry(**_object(text))


def _object(text: str) -> dict[str, object]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"it is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise DamagedFileError("it is no JSON object")
    return content


def _integer(text: str) -> int:
    # Not int() alone, which takes underscores and has a limit of its own.
    if not text.removeprefix("-").isdecimal() or len(text) > 20:
        raise DamagedFileError(f"{text[:30]!r} is no number")
    return int(text)


def read_text(file: BinaryIO) -> str:
    """All of a small file; DamagedFileError if it is none."""
    size = os.fstat(file.fileno()).st_size
    if size > _MAX_SIZE:
        raise DamagedFileError(f"{size} bytes are too many")
    try:
        return file.read(size).decode()
    except UnicodeDecodeError as error:
        raise DamagedFileError(f"byte {error.start} is no text") from error


_READERS: Final[dict[str, Callable[[str], Iterator[DumpLine]]]] = {
    **dict.fromkeys(OFFSET_CHECKPOINTS, _offset_lines),
    LEADER_EPOCHS: _epoch_lines,
    PARTITION_METADATA: _partition_metadata_lines,
    META_PROPERTIES: _meta_properties_lines,
    CLEAN_SHUTDOWN: _clean_shutdown_lines,
    QUORUM_STATE: _quorum_state_lines,
}
SMALL_FILES: Final = frozenset(_READERS)
