"""Logs on disk for the tests of the dump, and the dump itself as a call."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.broker.dump import command
from ottla.broker.log.fs import FileSystem, MemoryFileSystem
from ottla.broker.log.log import LogConfig, Origin
from ottla.broker.log.validation import only_batch
from ottla.wire.batches import ControlType
from tests.broker.log.support import DIRECTORY, NOW, append, make_batch, make_marker, open_log

SMALL = LogConfig(segment_bytes=900, index_interval_bytes=100)


@dataclass(frozen=True)
class Dumped:
    """What a run of the command has said."""

    code: int
    lines: list[str]
    complaints: list[str]

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]

    @property
    def problems(self) -> list[str]:
        """Of a run with --json."""
        return [each["problem"] for each in self.objects if each["kind"] == "problem"]

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [each for each in self.objects if each["kind"] == kind]


def dump(*arguments: object) -> Dumped:
    lines: list[str] = []
    complaints: list[str] = []
    code = command.run([str(each) for each in arguments], "dump", lines.append, complaints.append)
    return Dumped(code, lines, complaints)


def dump_json(*arguments: object) -> Dumped:
    return dump(*arguments, "--json")


def write_out(fs: FileSystem, root: Path) -> Path:
    """The files of a volume as a log directory: each log by its own name."""
    for directory in fs.directories():
        folder = root / Path(directory).name
        folder.mkdir(parents=True, exist_ok=True)
        for name in fs.list(directory):
            file = fs.open(f"{directory}/{name}")
            (folder / name).write_bytes(b"".join(file.read(0, file.size)))
    return root


def written_log(root: Path, *, close: bool = True) -> Path:
    """Several segments: idempotent and plain batches, all codecs, and a transaction of each fate."""
    fs = MemoryFileSystem()
    log = open_log(fs, SMALL)
    sequence = 0
    for number in range(24):
        batch = make_batch(
            3,
            key=b"k%d" % number,
            value=b"value %d " % number * 3,
            timestamp=NOW + number,
            producer=(7, 2, sequence),
            codec=number % 5,
        )
        append(log, batch, epoch=number // 8)
        sequence += 3
    for producer, outcome in ((20, ControlType.COMMIT), (21, ControlType.ABORT), (22, None)):
        append(log, make_batch(2, producer=(producer, 0, 0), transactional=True), epoch=2)
        if outcome is not None:
            marker = only_batch(make_marker(outcome, producer, coordinator_epoch=5))
            log.append_as_leader(marker, 2, NOW, origin=Origin.COORDINATOR)
    if close:
        log.close()
    write_out(fs, root)
    (root / DIRECTORY / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    return root / DIRECTORY


def segments(log: Path) -> list[Path]:
    return sorted(log.glob("*.log"))


def change(path: Path, at: int, by: int = 0xFF) -> None:
    """Flips bits of one byte; a negative position counts from the end."""
    content = bytearray(path.read_bytes())
    content[at] ^= by
    path.write_bytes(content)
