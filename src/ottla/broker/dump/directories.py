"""A log, and a directory full of logs, in a few lines: segments, offsets, sizes, epochs, open transactions.

Only headers of batches are read, from the newest snapshot of producer states on, and no checksums are taken: a large
log is summed up quickly. Whether it is whole, a dump of its files tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ottla.broker.dump.batches import BatchFile, StoredBatch, TornTail
from ottla.broker.dump.files import log_name, opened, suffix_of
from ottla.broker.dump.lines import DumpError, DumpLine, entry, optional, problem, words
from ottla.broker.dump.producers import read_producer_states
from ottla.broker.dump.small_files import (
    CLEAN_SHUTDOWN,
    LEADER_EPOCHS,
    META_PROPERTIES,
    PARTITION_METADATA,
    SMALL_FILES,
    DamagedFileError,
    dump_small_file,
    read_leader_epochs,
    read_offsets,
    read_properties,
    read_text,
)

_CHECKPOINTS: Final = {
    "highWatermark": "replication-offset-checkpoint",
    "recoveryPoint": "recovery-point-offset-checkpoint",
    "logStartOffset": "log-start-offset-checkpoint",
    "cleanerOffset": "cleaner-offset-checkpoint",
}


def log_directories_in(directory: Path) -> list[Path]:
    """Those of the nodes and of the controller, in the directory that a cluster keeps everything in.

    `node-1` looks like the directory of a log, which has no meta.properties.
    """
    return _listed(directory, lambda path: (path / META_PROPERTIES).is_file())


def logs_in(directory: Path) -> list[Path]:
    """The directories of logs that a log directory has; none in the directory of a log."""
    return _listed(directory, lambda path: path.is_dir() and log_name(path) is not None)


def files_in(directory: Path) -> list[Path]:
    """The files that can be dumped; a segment with its indexes, by offset."""
    return _listed(directory, lambda path: path.is_file() and suffix_of(path.name) is not None)


def _listed(directory: Path, is_wanted: Callable[[Path], bool]) -> list[Path]:
    try:
        return sorted(path for path in directory.iterdir() if is_wanted(path))
    except OSError as error:
        # Of one entry, where the directory may be listed and that not be looked at.
        where = "" if error.filename in (None, str(directory)) else f"{error.filename}: "
        raise DumpError(f"{where}{error.strerror or error}") from error


def is_log(directory: Path) -> bool:
    return any(path.suffix == ".log" for path in files_in(directory))


def log_directory_lines(directory: Path, logs: list[Path]) -> Iterator[DumpLine]:
    """Whose it is, how many logs it has, whether its broker has stopped cleanly, and which small file is damaged."""
    fields: dict[str, object] = {
        **_properties(directory / META_PROPERTIES),
        "logs": len(logs),
        "cleanShutdown": (directory / CLEAN_SHUTDOWN).exists(),
    }
    yield DumpLine("directory", words(fields), fields)
    yield from _damaged_small_files(directory)


def log_lines(directory: Path, *, in_detail: bool) -> Iterator[DumpLine]:
    """A log in one line, and, in detail, its segments, epochs and producers in one each."""
    try:
        summary = _summary(directory)
    except OSError as error:
        # A broker that is running has taken a file away.
        raise DumpError(f"{error.filename}: {error.strerror}") from error
    fields = summary.fields
    yield DumpLine(
        "log",
        words({**fields, "openTransactions": len(summary.open_transactions)}),
        {
            **fields,
            "openTransactions": [
                {"producerId": producer, "currentTxnFirstOffset": first}
                for producer, first in summary.open_transactions.items()
            ],
        },
    )
    if summary.torn is not None:
        torn = summary.torn
        yield problem(
            f"Found {torn.size} invalid bytes at the end of {summary.torn_in}, from position {torn.position}: "
            f"{torn.reason}",
            position=torn.position,
        )
    for name in summary.damaged_snapshots:
        yield problem(f"{name} is damaged: its size, its version or its checksum is wrong")
    yield from _damaged_small_files(directory)
    if in_detail:
        for base_offset, size in summary.segments.items():
            yield DumpLine("segment", *_both(baseOffset=base_offset, size=size))
        for epoch, start in summary.epochs:
            yield entry(epoch=epoch, startOffset=start)
        for producer, epoch in summary.producers.items():
            first = summary.open_transactions.get(producer)
            text = words(
                {"producerId": producer, "producerEpoch": epoch, "currentTxnFirstOffset": optional(first)}
            )
            yield DumpLine(
                "producer",
                text,
                {"producerId": producer, "producerEpoch": epoch, "currentTxnFirstOffset": first},
            )


def _both(**fields: object) -> tuple[str, dict[str, object]]:
    return words(fields), fields


@dataclass
class _LogSummary:
    """What is known of a log, filled in as its files are read."""

    segments: dict[int, int]
    """Sizes, by base offset."""
    next_offset: int
    fields: dict[str, object] = field(default_factory=dict)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    producers: dict[int, int] = field(default_factory=dict)
    """Producer epochs, by producer id."""
    open_transactions: dict[int, int] = field(default_factory=dict)
    """First offsets, by producer id."""
    torn: TornTail | None = None
    torn_in: str = ""
    damaged_snapshots: list[str] = field(default_factory=list)

    def take(self, batch: StoredBatch, from_offset: int) -> None:
        header = batch.header
        self.next_offset = max(self.next_offset, header.next_offset)
        if header.producer_id < 0 or header.base_offset < from_offset:
            return
        self.producers[header.producer_id] = header.producer_epoch
        if header.is_control:
            self.open_transactions.pop(header.producer_id, None)
        elif header.is_transactional:
            self.open_transactions.setdefault(header.producer_id, header.base_offset)


def _summary(directory: Path) -> _LogSummary:
    named = log_name(directory.absolute())
    segments = [path for path in files_in(directory) if path.suffix == ".log"]
    if not segments:
        raise DumpError("a log without a segment")
    sizes = {int(path.stem): path.stat().st_size for path in segments}
    summary = _LogSummary(sizes, next_offset=max(sizes))
    snapshot_offset = _take_snapshot(directory, summary)
    for path in _segments_from(segments, snapshot_offset):
        with opened(path) as file:
            stored = BatchFile(file)
            for batch in stored.batches():
                summary.take(batch, snapshot_offset)
            if stored.torn is not None:
                summary.torn, summary.torn_in = stored.torn, path.name
    summary.epochs = _epochs(directory)
    checkpoints = {} if named is None else _checkpoints(directory, named.topic, named.partition)
    start = max(int(segments[0].stem), checkpoints.pop("logStartOffset", 0))
    summary.fields = {
        **({} if named is None else {"topic": named.topic, "partition": named.partition}),
        **({"state": named.state} if named is not None and named.state else {}),
        "topicId": _properties(directory / PARTITION_METADATA, ":").get("topic_id"),
        "segments": len(segments),
        "logStartOffset": start,
        "logEndOffset": summary.next_offset,
        "size": sum(sizes.values()),
        "leaderEpoch": summary.epochs[-1][0] if summary.epochs else None,
        **checkpoints,
        "producers": len(summary.producers),
    }
    return summary


def _take_snapshot(directory: Path, summary: _LogSummary) -> int:
    """Takes the producers of the newest snapshot that is whole; the offset up to which it knows them."""
    snapshots = [path for path in files_in(directory) if path.suffix == ".snapshot"]
    for path in reversed(snapshots):
        with opened(path) as file:
            states = read_producer_states(file)
        if states is None:
            summary.damaged_snapshots.append(path.name)
            continue
        for state in states:
            summary.producers[state.producer_id] = state.epoch
            if state.transaction_first_offset is not None:
                summary.open_transactions[state.producer_id] = state.transaction_first_offset
        return int(path.stem)
    return 0


def _segments_from(segments: list[Path], offset: int) -> list[Path]:
    """Those with `offset` and behind, and always the last, which alone says where the log ends."""
    before = [path for path in segments if int(path.stem) <= offset]
    return segments[max(0, len(before) - 1) :]


def _damaged_small_files(directory: Path) -> Iterator[DumpLine]:
    """What is wrong with them; what they say is left out where it cannot be read."""
    for path in files_in(directory):
        if path.name in SMALL_FILES:
            with opened(path) as file:
                yield from (line for line in dump_small_file(file, path.name) if line.is_problem)


def _epochs(directory: Path) -> list[tuple[int, int]]:
    try:
        return read_leader_epochs(_small(directory / LEADER_EPOCHS))
    except DamagedFileError:
        return []


def _checkpoints(directory: Path, topic: str, partition: int) -> dict[str, int]:
    """What the checkpoints of the log directory say of a log."""
    found = {}
    for name, file in _CHECKPOINTS.items():
        try:
            offsets: Mapping[tuple[str, int], int] = read_offsets(_small(directory.absolute().parent / file))
        except DamagedFileError:
            continue
        if (topic, partition) in offsets:
            found[name] = offsets[topic, partition]
    return found


def _properties(path: Path, separator: str = "=") -> dict[str, str]:
    try:
        return read_properties(_small(path), separator)
    except DamagedFileError:
        return {}


def _small(path: Path) -> str:
    """The text of a small file; nothing if there is none, DamagedFileError if it is damaged."""
    if not path.is_file():
        return ""
    with opened(path) as file:
        return read_text(file)
