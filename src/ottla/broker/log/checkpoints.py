"""Small files that are written whole, or not at all.

They say where a log begins, how far the logs of a node are committed, and whether a node has stopped cleanly.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from ottla.broker.log.fs import FileSystem

_VERSION: Final = "0"
_CLEAN_SHUTDOWN: Final = "checkpoints/.kafka_cleanshutdown"
_HIGH_WATERMARKS: Final = "checkpoints/replication-offset-checkpoint"


def replace_file(fs: FileSystem, path: str, content: bytes) -> None:
    """The file has either its old content or the new one, whenever the node dies."""
    temporary = f"{path}.tmp"
    if fs.exists(temporary):
        fs.remove(temporary)
    file = fs.open(temporary)
    file.append(content)
    file.flush()
    file.close()
    fs.rename(temporary, path)


def read_file(fs: FileSystem, path: str) -> bytes | None:
    """None if there is no such file."""
    if not fs.exists(path):
        return None
    file = fs.open(path)
    content = b"".join(file.read(0, file.size))
    file.close()
    return content


def read_log_start_offset(fs: FileSystem, directory: str) -> int:
    """Where DeleteRecords has moved the start of the log; 0 if it never has."""
    content = read_file(fs, _log_start_path(directory))
    return 0 if content is None else int(content.split()[1])


def write_log_start_offset(fs: FileSystem, directory: str, offset: int) -> None:
    replace_file(fs, _log_start_path(directory), f"{_VERSION}\n{offset}\n".encode())


def read_high_watermarks(fs: FileSystem) -> dict[str, int]:
    """By the directory of the log, as they were last written down."""
    lines = (read_file(fs, _HIGH_WATERMARKS) or b"").decode().splitlines()[2:]
    entries = (line.rsplit(" ", 1) for line in lines)
    return {directory: int(offset) for directory, offset in entries}


def write_high_watermarks(fs: FileSystem, offsets: Mapping[str, int]) -> None:
    lines = [_VERSION, str(len(offsets)), *(f"{directory} {offset}" for directory, offset in offsets.items())]
    replace_file(fs, _HIGH_WATERMARKS, "".join(f"{line}\n" for line in lines).encode())


def take_clean_shutdown(fs: FileSystem) -> int:
    """The epoch of a broker that has closed its logs cleanly, -1 else; what says so is gone with that."""
    content = read_file(fs, _CLEAN_SHUTDOWN)
    if content is None:
        return -1
    fs.remove(_CLEAN_SHUTDOWN)
    epoch: int = json.loads(content)["brokerEpoch"]
    return epoch


def write_clean_shutdown(fs: FileSystem, broker_epoch: int) -> None:
    replace_file(fs, _CLEAN_SHUTDOWN, json.dumps({"version": 0, "brokerEpoch": broker_epoch}).encode())


def _log_start_path(directory: str) -> str:
    # Kafka has one such file for all logs of a disk. A log that may move from node to node keeps its own.
    return f"{directory}/log-start-offset-checkpoint"
