"""Small files that are written whole, or not at all, in Kafka's formats and under Kafka's names.

At the root of a log directory they say how far its logs are committed, flushed, deleted and compacted, one line per
log, and whether its node has stopped cleanly. What they are read for is in log_dir.py.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Final

from ottla.broker.log.fs import FileSystem

HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLEANED: Final = "cleaner-offset-checkpoint"

_log = logging.getLogger("ottla.broker.log.checkpoints")

_VERSION: Final = "0"
_CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"


class Replacement:
    """New content for a file, which has either its old content or the new one, whenever the node dies.

    It is made, then come `flush`, `rename` and `sync`, in this order. `flush` and `sync` wait for the disk, and a
    thread may call them.
    """

    def __init__(self, fs: FileSystem, path: str, content: bytes) -> None:
        self._fs = fs
        self._path = path
        self._temporary = f"{path}.tmp"
        if fs.exists(self._temporary):
            fs.remove(self._temporary)
        self._file = fs.open(self._temporary)
        self._file.append(content)

    def flush(self) -> None:
        self._file.flush()

    def rename(self) -> None:
        self._file.close()
        self._fs.rename(self._temporary, self._path)

    def sync(self) -> None:
        self._fs.sync_directory(self._path.rpartition("/")[0])


def replace_file(fs: FileSystem, path: str, content: bytes) -> None:
    """All steps at once: afterwards the new content is on the disk."""
    replacement = Replacement(fs, path, content)
    replacement.flush()
    replacement.rename()
    replacement.sync()


def read_file(fs: FileSystem, path: str) -> bytes | None:
    """None if there is no such file."""
    if not fs.exists(path):
        return None
    file = fs.open(path)
    content = b"".join(file.read(0, file.size))
    file.close()
    return content


def read_offsets(fs: FileSystem, path: str) -> dict[str, int]:
    """An offset of each log, by its name, as they were last written down; none where the file is damaged."""
    content = read_file(fs, path)
    if content is None:
        return {}
    try:
        return _parse(content.decode())
    except ValueError as error:
        # As in Kafka. Without a recovery point a log is read from its beginning, and nothing is lost by that.
        _log.warning("%s is damaged (%s): the logs are opened as if it were not there", path, error)
        return {}


def _parse(text: str) -> dict[str, int]:
    version, count, *lines = text.splitlines() or [""]
    if version != _VERSION:
        raise ValueError(f"version {version!r}, only {_VERSION} is known")
    if int(count) != len(lines):
        raise ValueError(f"{len(lines)} lines, {count} are announced")
    entries = (line.rsplit(" ", 2) for line in lines)
    return {f"{topic}-{int(partition)}": int(offset) for topic, partition, offset in entries}


def encode_offsets(offsets: Mapping[str, int]) -> bytes:
    """Of each log, by its name: topic and partition, with a dash in between."""
    lines = [_VERSION, str(len(offsets))]
    for name, offset in offsets.items():
        topic, _, partition = name.rpartition("-")
        lines.append(f"{topic} {partition} {offset}")
    return "".join(f"{line}\n" for line in lines).encode()


def write_offsets(fs: FileSystem, path: str, offsets: Mapping[str, int]) -> None:
    replace_file(fs, path, encode_offsets(offsets))


def take_clean_shutdown(fs: FileSystem) -> int | None:
    """The epoch of a broker that has closed its logs cleanly, None else; what says so is gone with that."""
    content = read_file(fs, _CLEAN_SHUTDOWN)
    if content is None:
        return None
    fs.remove(_CLEAN_SHUTDOWN)
    # Before anything else is written: a marker that comes back with the power would vouch for torn logs.
    fs.sync_directory("")
    try:
        epoch: int = json.loads(content)["brokerEpoch"]
    except (ValueError, KeyError, TypeError) as error:
        _log.warning("%s is damaged (%s): the logs are recovered", _CLEAN_SHUTDOWN, error)
        return None
    return epoch


def write_clean_shutdown(fs: FileSystem, broker_epoch: int) -> None:
    replace_file(fs, _CLEAN_SHUTDOWN, json.dumps({"version": 0, "brokerEpoch": broker_epoch}).encode())
