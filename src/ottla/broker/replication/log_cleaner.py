"""The background work of a node that compacts its logs, one after the other, beside everything else it does.

Which log comes next is log/cleaner.py, a pass over it log/compaction.py. Here is the loop: it takes the dirtiest log,
works at it in slices, between which the node serves its requests, and writes down how far the log is clean. What the
pass has written is flushed in a thread: nothing but the cleaner waits for the disk. When no log is due it waits for
log.cleaner.backoff.ms. As in Kafka a replica is not compacted while it moves to another directory.

A log whose pass fails is left alone until it is opened again, with an error that says so; the others go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from ottla._native.compaction import OffsetMap
from ottla.broker.log.cleaner import DirtyLog, dirty_log, filthiest
from ottla.broker.log.compaction import Compaction, CompactionAbortedError
from ottla.broker.log.log import Log
from ottla.broker.server.background import unending

if TYPE_CHECKING:
    from ottla.broker.configs.node import NodeConfigs
    from ottla.broker.log.log_dir import LogDirectories
    from ottla.broker.replication.partition import Partition, PartitionKey
    from ottla.broker.server.background import Fail
    from ottla.runtime import Runtime

_log = logging.getLogger("ottla.broker.replication.log_cleaner")


class LogCleaner:
    """Compacts the logs of `partitions`, which are those that the node has from moment to moment."""

    def __init__(
        self,
        node_id: int,
        partitions: Mapping[PartitionKey, Partition],
        configs: NodeConfigs,
        directories: LogDirectories,
        runtime: Runtime,
        *,
        checkpoint: Callable[[], None],
        fail: Fail,
    ) -> None:
        self._node_id = node_id
        self._partitions = partitions
        self._configs = configs
        self._directories = directories
        self._runtime = runtime
        self._clock = runtime.clock
        self._random = runtime.random
        self._checkpoint = checkpoint
        self._fail = fail
        self._uncleanable: dict[PartitionKey, Log] = {}
        self._running = asyncio.Event()
        self._running.set()
        self._task: asyncio.Task[None] | None = None

    # Life

    def start(self) -> None:
        if self._configs.value("log.cleaner.enable"):
            self._task = asyncio.create_task(unending(self._run, "it cannot compact its logs", self._fail))

    def pause(self) -> None:
        self._running.clear()

    def resume(self) -> None:
        self._running.set()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._running.wait()
            if not await self.clean_filthiest():
                await self._clock.sleep(self._configs.value("log.cleaner.backoff.ms") / 1000)

    # One log after the other

    async def clean_filthiest(self) -> bool:
        """Makes a pass over the log that needs it most; False if none does, or if that had to be given up."""
        now_ms = int(self._clock.time() * 1000)
        for partition in self._partitions.values():
            self._remove_deleted(partition, now_ms)
        candidates = self._candidates()
        chosen = filthiest(
            dirty_log(partition.log, partition.last_stable_offset, now_ms) for partition in candidates
        )
        if chosen is None:
            return False
        partition = next(each for each in candidates if each.log is chosen.log)
        try:
            await self._clean(partition, chosen, now_ms)
        except CompactionAbortedError as error:
            _log.info("node %s begins another pass later: %s", self._node_id, error)
            return False
        except Exception as error:  # noqa: BLE001 - whatever it is, it concerns this log, and the others need the cleaner
            self._uncleanable[partition.key] = partition.log
            if isinstance(error, OSError):
                partition.log.on_failure(partition.log, error)
            _log.exception(
                "node %s does not compact its replica of %s-%s any more, until it is opened anew",
                self._node_id,
                *partition.key,
            )
        return True

    def _candidates(self) -> list[Partition]:
        self._uncleanable = {
            key: log
            for key, log in self._uncleanable.items()
            if key in self._partitions and self._partitions[key].log is log
        }
        return [
            partition
            for partition in self._partitions.values()
            if partition.log.config.compact
            and partition.future is None
            and not partition.log.has_failed
            and partition.key not in self._uncleanable
        ]

    async def _clean(self, partition: Partition, dirty: DirtyLog, now_ms: int) -> None:
        compaction = Compaction(
            dirty.log, dirty.first_dirty_offset, dirty.upper_offset, self._new_map(), now_ms
        )
        with closing(compaction.slices()) as slices:
            for part in slices:
                if part.flush is not None:
                    await self._flush(partition, dirty.log, part.flush)
                rate = self._configs.value("log.cleaner.io.max.bytes.per.second")
                await self._clock.sleep(part.read_bytes / rate)
                await self._running.wait()
                self._check(partition, dirty.log)
        result = compaction.result
        dirty.log.first_dirty_offset = result.end_offset
        _log.debug(
            "node %s has compacted %s-%s from offset %s to %s: of %s bytes %s are left",
            self._node_id,
            *partition.key,
            dirty.first_dirty_offset,
            result.end_offset,
            result.read_bytes,
            result.written_bytes,
        )
        try:
            self._checkpoint()
        except OSError as error:
            # A restart begins with an older offset, and compacts again what is clean.
            _log.warning("node %s cannot write how far its logs are clean: %s", self._node_id, error)

    async def _flush(self, partition: Partition, log: Log, flush: Callable[[], None]) -> None:
        if self._directories.of(log).in_memory:
            flush()
            return
        try:
            await self._runtime.run(flush)
        except OSError:
            # A log that was deleted meanwhile has no files that could be flushed.
            self._check(partition, log)
            raise

    def _check(self, partition: Partition, log: Log) -> None:
        """Whether the node still has the replica, and that stays in the directory of this log."""
        if self._partitions.get(partition.key) is not partition:
            raise CompactionAbortedError(f"{partition.log.partition} is no replica of this node any more")
        if partition.future is not None or partition.log is not log:
            raise CompactionAbortedError(f"{partition.log.partition} moves to another directory")

    def _new_map(self) -> OffsetMap:
        value = self._configs.value
        threads = max(value("log.cleaner.threads"), 1)
        return OffsetMap(
            value("log.cleaner.dedupe.buffer.size") // threads,
            value("log.cleaner.io.buffer.load.factor"),
            self._random.randbytes(16),
        )

    def _remove_deleted(self, partition: Partition, now_ms: int) -> None:
        try:
            partition.log.deleted.remove_due(now_ms)
        except OSError as error:
            # They are no part of the log any more. Next time it may work, and the next opening removes them anyway.
            _log.warning("node %s cannot remove a segment that was replaced: %s", self._node_id, error)
