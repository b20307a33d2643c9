"""A log directory of a node, as Kafka lays it out, and all directories that a node has (KIP-112, KIP-858).

    meta.properties                     whose directory this is
    .kafka_cleanshutdown                only after a clean stop
    replication-offset-checkpoint       how far each log is committed,
    recovery-point-offset-checkpoint    how far it is flushed,
    log-start-offset-checkpoint         and where it begins
    orders-0/                           a log, with partition.metadata beside its segments
    orders-0.<32 hex digits>-future/    one that is to take the place of orders-0 in another directory of the node
    orders-0.<32 hex digits>-delete/    one that was deleted, until its files are removed
    orders-0.<32 hex digits>-stray/     one that the cluster does not know of; it is kept, and never used

A directory has at most one log of a partition, a future one or another; the checkpoints name both by the partition.

A directory is a file system of its own, on a disk or in memory, and outlives its node. An object here is one life of
the node with it. Which replicas a node has, and what is written to their logs, is replication/replica_manager.py.

Invariant: a log is opened only for the topic that its partition.metadata names.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.broker.log.checkpoints import (
    CLEANED,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    read_file,
    read_offsets,
    replace_file,
    take_clean_shutdown,
    write_clean_shutdown,
    write_offsets,
)
from ottla.broker.log.flushing import Checkpointed
from ottla.broker.log.log import Log
from ottla.wire import Uuid

if TYPE_CHECKING:
    from ottla.broker.log.config import LogConfig
    from ottla.broker.log.fs import FileSystem
    from ottla.runtime import Random

_log = logging.getLogger("ottla.broker.log.log_dir")

META_FILE: Final = "meta.properties"
_META_VERSION: Final = "1"
_PARTITION_METADATA: Final = "partition.metadata"
_DELETED: Final = "-delete"
_STRAY: Final = "-stray"
_FUTURE: Final = "-future"
_LOG_NAME: Final = re.compile(r"(.+)-(\d+)")
_FUTURE_NAME: Final = re.compile(r"(.+-\d+)\.[0-9a-f]{32}-future")
_LONGEST_NAME: Final = 255
"""Of a file, on most systems."""


class LogDirError(ValueError):
    """A directory that this node must not use; says why, and what to change."""


def log_name(topic: str, index: int) -> str:
    """What the directory of a log is called."""
    return f"{topic}-{index}"


def _log_name_of(directory: str) -> str:
    """The same for the directory of a future log."""
    future = _FUTURE_NAME.fullmatch(directory)
    return directory if future is None else future[1]


def can_move(topic: str, index: int) -> bool:
    """Whether the name of a future log has room for all of the topic's name."""
    return len(_with_suffix(log_name(topic, index), _FUTURE, bytes(16))) <= _LONGEST_NAME


def _with_suffix(name: str, suffix: str, unique: bytes) -> str:
    return f"{name}.{unique.hex()}{suffix}"


def claim(path: str, fs: FileSystem, cluster_id: str, node_id: int, random: Random) -> Uuid:
    """Makes a new directory this node's, or makes sure that it is; the id of the directory."""
    known = read_properties(path, fs)
    if known is None:
        directory_id = Uuid(random.randbytes(16))
        write_properties(fs, cluster_id, node_id, directory_id)
        return directory_id
    for name, meant in (("cluster.id", cluster_id), ("node.id", str(node_id))):
        if known.get(name) != meant:
            raise LogDirError(
                f"{path} belongs to another node: {name} in its {META_FILE} is {known.get(name)}, here it is "
                f"{meant}. Use the data directory of this cluster, or an empty one"
            )
    try:
        return Uuid.parse(known["directory.id"])
    except (KeyError, ValueError) as error:
        raise LogDirError(
            f"{path}/{META_FILE} has no directory.id that can be read ({error}). Use an empty directory, or restore "
            "the file"
        ) from error


def read_properties(path: str, fs: FileSystem) -> dict[str, str] | None:
    """What a directory says of itself; None if it is new."""
    content = read_file(fs, META_FILE)
    if content is None:
        return None
    lines = (line.strip() for line in content.decode(errors="replace").splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    known = {name.strip(): value.strip() for name, _, value in pairs}
    if known.get("version") != _META_VERSION:
        raise LogDirError(
            f"{path}/{META_FILE} has version {known.get('version')}, this release knows {_META_VERSION} only. Use "
            "the release that has written it, or an empty directory"
        )
    return known


def write_properties(fs: FileSystem, cluster_id: str, node_id: int, directory_id: Uuid) -> None:
    known = {
        "version": _META_VERSION,
        "cluster.id": cluster_id,
        "node.id": node_id,
        "directory.id": directory_id,
    }
    replace_file(fs, META_FILE, "".join(f"{name}={value}\n" for name, value in known.items()).encode())


class LogDirectory:
    """One life of a node with one of its directories."""

    def __init__(
        self,
        path: str,
        fs: FileSystem,
        directory_id: Uuid,
        *,
        in_memory: bool,
        failure: OSError | None = None,
    ) -> None:
        """`path` is what requests call it. What is `in_memory` needs no flush, and is freed when it is deleted."""
        self.path = path
        self.fs = fs
        self.id = directory_id
        self.in_memory = in_memory
        self.failure = failure
        """Why it is offline, if it is: nothing in it is read or written any more."""
        self.logs: dict[str, Log] = {}
        """Those that are open, by name."""
        self.previous_epoch: int | None = None
        """Of the broker that has stopped cleanly; None if none has, and logs have to be recovered."""
        self._high_watermarks: dict[str, int] = {}
        self._recovery_points: dict[str, int] = {}
        self._log_starts: dict[str, int] = {}
        self._cleaned: dict[str, int] = {}
        self._found: dict[str, None] = {}
        """The logs that an earlier life has left, and this one has not opened yet."""
        self._futures: dict[str, str] = {}
        """The same for future logs: their directories, by the names of the logs."""
        self._doomed: list[str] = []
        if failure is None:
            self._look()

    def _look(self) -> None:
        """What an earlier life has left."""
        fs = self.fs
        self.previous_epoch = take_clean_shutdown(fs)
        self._high_watermarks = read_offsets(fs, HIGH_WATERMARKS)
        self._recovery_points = read_offsets(fs, RECOVERY_POINTS)
        self._log_starts = read_offsets(fs, LOG_STARTS)
        self._cleaned = read_offsets(fs, CLEANED)
        names = fs.directories()
        self._found = dict.fromkeys(name for name in names if _LOG_NAME.fullmatch(name))
        self._futures = {_log_name_of(name): name for name in names if _FUTURE_NAME.fullmatch(name)}
        self._doomed = [name for name in names if name.endswith(_DELETED)]

    def has(self, name: str) -> bool:
        return name in self.logs or name in self._found

    def __len__(self) -> int:
        return len(self.logs) + len(self._found) + len(self._futures)

    # Logs

    def open(self, name: str, topic_id: Uuid, config: LogConfig, now_ms: int, random: Random) -> Log:
        """The log of this name, recovered where that has to be; one of another topic is put aside."""
        known_id = self._topic_id(name)
        if known_id not in (None, topic_id):
            self._put_aside(name, f"it belongs to topic id {known_id}, not to {topic_id}", random)
            known_id = None
        self._found.pop(name, None)
        return self._open(name, topic_id, known_id, config, now_ms)

    def open_future(self, name: str, topic_id: Uuid, config: LogConfig, now_ms: int, random: Random) -> Log:
        """The log that is to take the place of the one with this name in another directory, which may be new."""
        directory = self.find_future(name, topic_id, random)
        known_id = None if directory is None else topic_id
        if directory is None:
            directory = _with_suffix(name, _FUTURE, random.randbytes(16))
        self._futures.pop(name, None)
        return self._open(directory, topic_id, known_id, config, now_ms)

    def find_future(self, name: str, topic_id: Uuid, random: Random) -> str | None:
        """The directory of a future log that an earlier life has left; one of another topic is put aside."""
        directory = self._futures.get(name)
        if directory is None:
            return None
        known_id = self._topic_id(directory)
        if known_id != topic_id:
            self._put_aside(directory, f"it belongs to topic id {known_id}, not to {topic_id}", random)
            return None
        return directory

    def _open(
        self, directory: str, topic_id: Uuid, known_id: Uuid | None, config: LogConfig, now_ms: int
    ) -> Log:
        name = _log_name_of(directory)
        clean = self.previous_epoch is not None and known_id is not None
        known = Checkpointed(
            log_start_offset=self._log_starts.pop(name, 0),
            recovery_point=None if clean else self._recovery_points.get(name, 0),
            first_dirty_offset=self._cleaned.pop(name, 0),
        )
        self._recovery_points.pop(name, None)
        log = Log.open(self.fs, directory, config, now_ms, known)
        if known_id is None:
            content = f"version: 0\ntopic_id: {topic_id}"
            replace_file(self.fs, f"{directory}/{_PARTITION_METADATA}", content.encode())
        self.logs[directory] = log
        return log

    def promote(self, future: Log, now_ms: int) -> Log:
        """Gives a future log the name of the one whose place it takes, durably; the log under that name.

        An OSError leaves it closed, under one of the names.
        """
        name = _log_name_of(future.directory)
        if not future.close():
            raise OSError(f"{self.path}/{future.directory} cannot be closed")
        del self.logs[future.directory]
        self.fs.rename_directory(future.directory, name)
        self.fs.sync_directory("")
        known = Checkpointed(future.log_start_offset, None, future.first_dirty_offset)
        log = self.logs[name] = Log.open(self.fs, name, future.config, now_ms, known)
        return log

    def promote_found(self, name: str, directory: str) -> None:
        """The same for a future log that is not open: what was to be replaced by it is lost."""
        _log.warning("%s/%s takes the place of a log that is lost", self.path, directory)
        del self._futures[name]
        self.fs.rename_directory(directory, name)
        self.fs.sync_directory("")
        self._found[name] = None

    def let_go(self, log: Log) -> None:
        """Closes a log that is not used any more; its files stay."""
        del self.logs[log.directory]
        log.close()

    def take_high_watermark(self, name: str) -> int:
        """How far the log was known to be committed in the life before."""
        return self._high_watermarks.pop(name, 0)

    def expect(self, name: str, high_watermark: int) -> None:
        """The log has been written to before its replica is known of here: so far it is committed already."""
        log = self.logs.pop(name, None)
        if log is not None:
            self._log_starts[name] = log.log_start_offset
            self._cleaned[name] = log.first_dirty_offset
        self._found[name] = None
        self._high_watermarks[name] = high_watermark
        # Nothing says that it was closed, if the node dies before it opens the log.
        self._recovery_points[name] = 0

    def _topic_id(self, name: str) -> Uuid | None:
        content = read_file(self.fs, f"{name}/{_PARTITION_METADATA}")
        if content is None:
            return None
        fields = dict(line.split(": ", 1) for line in content.decode().splitlines() if ": " in line)
        try:
            return Uuid.parse(fields["topic_id"])
        except (KeyError, ValueError) as error:
            raise OSError(f"{self.path}/{name}/{_PARTITION_METADATA} cannot be read: {error}") from error

    def delete(self, log: Log, random: Random) -> str | None:
        """Closes a log and takes its name away; what is to be removed later, if anything is left."""
        name = log.directory
        del self.logs[name]
        log.discard()
        if self.in_memory:
            self.fs.remove_directory(name)
            return None
        return self._move(name, _DELETED, random)

    def remove(self, doomed: str) -> None:
        """Removes the files of a log that was deleted."""
        self.fs.remove_directory(doomed)

    def take_doomed(self) -> list[str]:
        """What an earlier life has deleted, and not removed."""
        doomed, self._doomed = self._doomed, []
        return doomed

    def put_strays_aside(self, random: Random, known: Collection[str] = ()) -> list[str]:
        """The logs that were found and never asked for: the cluster knows of no such replica; their names.

        Future logs of those that are `known` stay: what they are to replace is in a directory that is offline.
        """
        futures = [directory for name, directory in self._futures.items() if name not in known]
        strays = [*self._found, *futures]
        for name in strays:
            self._put_aside(name, "the cluster has no such replica on this node", random)
        return strays

    def _put_aside(self, directory: str, why: str, random: Random) -> None:
        name = _log_name_of(directory)
        (self._found if directory == name else self._futures).pop(name, None)
        for offsets in (self._high_watermarks, self._recovery_points, self._log_starts, self._cleaned):
            offsets.pop(name, None)
        if self.in_memory:
            _log.info("%s/%s is deleted: %s", self.path, directory, why)
            self.fs.remove_directory(directory)
        else:
            kept = self._move(directory, _STRAY, random)
            _log.warning("%s/%s is kept as %s, and not used: %s", self.path, directory, kept, why)

    def _move(self, directory: str, suffix: str, random: Random) -> str:
        """Gives the directory of a log another name, under which no log is looked for."""
        unique = random.randbytes(16)
        name = _log_name_of(directory)
        too_long = len(_with_suffix(name, suffix, unique)) - _LONGEST_NAME
        moved = _with_suffix(name[:-too_long] if too_long > 0 else name, suffix, unique)
        self.fs.rename_directory(directory, moved)
        return moved

    # Checkpoints: what each of them says now; that of a log which is not open yet stays as it was found.

    def high_watermarks(self, offsets: Mapping[str, int]) -> dict[str, int]:
        """`offsets` are those of all replicas of the node, by the names of their logs."""
        known = {name: offsets[name] for name in map(_log_name_of, self.logs) if name in offsets}
        return {**self._high_watermarks, **known}

    def recovery_points(self) -> dict[str, int]:
        points = {_log_name_of(name): log.recovery_point for name, log in self.logs.items()}
        return {**self._recovery_points, **points}

    def log_starts(self) -> dict[str, int]:
        """Of the logs that begin behind the first record of their first segment; the others say it themselves."""
        starts = {
            _log_name_of(name): log.log_start_offset
            for name, log in self.logs.items()
            if log.log_start_offset > log.segments[0].base_offset
        }
        return {**self._log_starts, **starts}

    def cleaner_offsets(self) -> dict[str, int]:
        points = {
            _log_name_of(name): log.first_dirty_offset
            for name, log in self.logs.items()
            if log.config.compact
        }
        return {**self._cleaned, **points}

    def close(self, broker_epoch: int) -> None:
        """A clean end: closes the logs, and says so where all of them could be."""
        closed = [_close(log) for log in self.logs.values()]
        write_offsets(self.fs, RECOVERY_POINTS, self.recovery_points())
        write_offsets(self.fs, LOG_STARTS, self.log_starts())
        if all(closed) and not self._found and not self._futures:
            write_clean_shutdown(self.fs, broker_epoch)


def _close(log: Log) -> bool:
    try:
        return log.close()
    except OSError as error:
        _log.warning(
            "the log of partition %s will be recovered, it cannot be closed: %s", log.partition, error
        )
        return False


class LogDirectories(Sequence[LogDirectory]):
    """The directories of a node."""

    def __init__(self, directories: Iterable[LogDirectory]) -> None:
        self._directories = tuple(directories)

    def __getitem__(self, number: int) -> LogDirectory:  # type: ignore[override]
        return self._directories[number]

    def __len__(self) -> int:
        return len(self._directories)

    @property
    def previous_epoch(self) -> int:
        """Of the broker that has closed all of them cleanly; -1 if they do not agree on one."""
        epochs = {directory.previous_epoch for directory in self.online}
        (epoch,) = epochs if len(epochs) == 1 else (None,)
        return -1 if epoch is None else epoch

    @property
    def online(self) -> list[LogDirectory]:
        return [directory for directory in self._directories if directory.failure is None]

    def holding(self, name: str) -> list[LogDirectory]:
        """Those that have the log of this name, of those that work; more than one where a swap was cut short."""
        return [directory for directory in self.online if directory.has(name)]

    def of(self, log: Log) -> LogDirectory:
        """The one in which a log is open, whether or not it still works."""
        return next(each for each in self._directories if each.logs.get(log.directory) is log)

    def by_id(self, directory_id: Uuid | None) -> LogDirectory | None:
        """Of those that work."""
        return next((each for each in self.online if each.id == directory_id), None)

    def for_log(self, name: str) -> LogDirectory:
        """The one that has it; a new one goes where the fewest are."""
        return next(iter(self.holding(name)), None) or min(self.online, key=len)
