"""The metadata log as the controller keeps it: records, snapshots and its epoch, on the controller's own volume.

The controller that starts on a volume takes over what the last one has left there: the newest snapshot, the records
behind it, and the next epoch, which is written down before anything else (`quorum-state`). When enough was written
since the last snapshot, or it is old, the image is written down whole. Where there are several, the oldest goes when
the log is large or that snapshot old, and with it the records before the next one: a node that has not read those
yet begins with a snapshot (KIP-630).

Invariant: every offset from the first record on is in the log, or before the end of a snapshot that is there.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ottla.broker.log.checkpoints import read_file, replace_file
from ottla.broker.log.config import NEVER, LogConfig
from ottla.broker.log.log import Log
from ottla.broker.log.validation import only_batch
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.metadata.names import METADATA_TOPIC
from ottla.broker.metadata.records import MetadataRecord, read_records, write_records
from ottla.broker.metadata.snapshots import SnapshotId, read_snapshot, write_snapshot
from ottla.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.broker.configs import BrokerConfigs
    from ottla.broker.log.fs import FileSystem

_log = logging.getLogger("ottla.broker.controller.metadata_log")

DIRECTORY: Final = f"{METADATA_TOPIC}-0"
_STATE: Final = f"{DIRECTORY}/quorum-state"
_SUFFIX: Final = ".checkpoint"
_READ_BYTES: Final = 8 * 1024 * 1024
_LOG_CONFIG: Final = LogConfig(
    retention_ms=-1,
    max_message_bytes=NEVER,
    message_timestamp_after_max_ms=NEVER,
    # As in Kafka: what the controller has decided, and nodes act upon, survives a power loss.
    flush_messages=1,
)


@dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    """When a snapshot is taken, and when the oldest of several goes; the names are those of Kafka's configs."""

    bytes_between: int
    interval_ms: int
    retention_bytes: int
    retention_ms: int

    @classmethod
    def of(cls, configs: BrokerConfigs) -> SnapshotPolicy:
        return cls(
            bytes_between=configs.value("metadata.log.max.record.bytes.between.snapshots"),
            interval_ms=configs.value("metadata.log.max.snapshot.interval.ms"),
            retention_bytes=configs.value("metadata.max.retention.bytes"),
            retention_ms=configs.value("metadata.max.retention.ms"),
        )


class MetadataLog:
    """The log of one controller; made anew whenever a controller starts. Time comes with each call."""

    def __init__(self, fs: FileSystem, policy: SnapshotPolicy, now_ms: int) -> None:
        self._fs = fs
        self._policy = policy
        self._log = Log.open(fs, DIRECTORY, _LOG_CONFIG, now_ms)
        self.epoch = self._next_epoch()
        # When a snapshot was taken is not written down: for its retention it begins with this controller.
        self._snapshots = dict.fromkeys(self._find_snapshots(), now_ms)
        """Those that are there and when they were taken, the oldest first."""
        self._written = 0
        """Bytes since the last snapshot."""
        self._began_ms = now_ms
        """When the last snapshot was taken, or this controller began."""

    # What an earlier controller has left

    def _next_epoch(self) -> int:
        state = read_file(self._fs, _STATE)
        epoch = 1 if state is None else int(json.loads(state)["leaderEpoch"]) + 1
        replace_file(self._fs, _STATE, json.dumps({"leaderEpoch": epoch}).encode())
        return epoch

    def _find_snapshots(self) -> list[SnapshotId]:
        names = [name for name in self._fs.list(DIRECTORY) if name.endswith(_SUFFIX)]
        return sorted(SnapshotId(*map(int, name.removesuffix(_SUFFIX).split("-"))) for name in names)

    def replay(self) -> MetadataImage:
        """The image that the last controller had, or an empty one."""
        image = self._newest_image()
        while (offset := image.offset + 1) < self.end_offset:
            image.apply_all(read_records(self.read(offset, _READ_BYTES), offset))
        return image

    def _newest_image(self) -> MetadataImage:
        image = MetadataImage()
        for snapshot in reversed(self._snapshots):
            try:
                image = read_snapshot(self.read_snapshot(snapshot, 0, NEVER), snapshot.end_offset)
                break
            except DecodeError as error:
                _log.warning("snapshot %s of the metadata log cannot be read: %s", _name(snapshot), error)
        if image.offset + 1 < self.start_offset:
            raise DecodeError(
                f"the metadata log begins at {self.start_offset}, and no snapshot of what was before can be read"
            )
        return image

    # Records

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def is_lost(self) -> bool:
        """Whether what the disk has of the log is not known any more: nothing can be written to it."""
        return self._log.has_failed

    def append(self, records: Sequence[MetadataRecord], now_ms: int) -> None:
        """Appends a decision, all of it or, where it raises, nothing."""
        before = self._log.size
        self._log.append_as_leader(only_batch(write_records(records, now_ms)), self.epoch, now_ms)
        self._written += self._log.size - before

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from `offset` on, at least one if there is any."""
        return b"".join(self._log.read(offset, max_bytes, at_least_one=True).parts)

    # Snapshots

    @property
    def snapshot(self) -> SnapshotId | None:
        """The newest."""
        return next(reversed(self._snapshots), None)

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> bytes:
        """A part of its bytes; KeyError where there is no such snapshot."""
        if snapshot not in self._snapshots:
            raise KeyError(snapshot)
        content = read_file(self._fs, _path(snapshot)) or b""
        return content[position : position + max_bytes]

    def snapshot_size(self, snapshot: SnapshotId) -> int:
        """KeyError where there is no such snapshot."""
        return len(self.read_snapshot(snapshot, 0, NEVER))

    def tend(self, image: MetadataImage, now_ms: int) -> None:
        """After a decision: a snapshot of the image, if it is time for one, and an end for the oldest."""
        is_due = self._written >= self._policy.bytes_between
        waited = self._policy.interval_ms and now_ms - self._began_ms >= self._policy.interval_ms
        if self._written and (is_due or waited):
            self.take_snapshot(image, now_ms)
        while len(self._snapshots) > 1 and self._has_too_much(now_ms):
            self._drop_oldest(now_ms)

    def take_snapshot(self, image: MetadataImage, now_ms: int) -> None:
        """Of an image that has applied the whole log."""
        snapshot = SnapshotId(self.end_offset, self.epoch)
        replace_file(self._fs, _path(snapshot), bytes(write_snapshot(image, now_ms)))
        self._snapshots[snapshot] = now_ms
        self._written, self._began_ms = 0, now_ms
        # What lies before can only go as a whole segment.
        self._log.roll(now_ms)
        _log.info("snapshot %s of the metadata log", _name(snapshot))

    def _has_too_much(self, now_ms: int) -> bool:
        size = self._log.size + sum(map(self.snapshot_size, self._snapshots))
        oldest_ms = next(iter(self._snapshots.values()))
        too_large = 0 <= self._policy.retention_bytes < size
        too_old = 0 <= self._policy.retention_ms < now_ms - oldest_ms
        return too_large or too_old

    def _drop_oldest(self, now_ms: int) -> None:
        oldest, following = list(self._snapshots)[:2]
        self._log.delete_records(following.end_offset)
        self._log.enforce_retention(now_ms)
        del self._snapshots[oldest]
        self._fs.remove(_path(oldest))

    def close(self) -> None:
        """Leaves files that are opened quickly. A controller that is killed does not come here."""
        self._log.close()


def _name(snapshot: SnapshotId) -> str:
    return f"{snapshot.end_offset:020d}-{snapshot.epoch:010d}"


def _path(snapshot: SnapshotId) -> str:
    return f"{DIRECTORY}/{_name(snapshot)}{_SUFFIX}"
