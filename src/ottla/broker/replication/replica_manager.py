"""The replicas of one node: which partitions it hosts, leads and follows, and everything that changes them.

The metadata image says which replicas a node has and which of them lead; a change of the image becomes a change of
them in `apply` alone. Handlers read from a partition directly, but whatever changes one comes through here, because
requests may be parked for it (delayed.py): appends and deletions of clients, fetches of followers, what this node
fetches itself as a follower (fetcher.py), what the controller says about who is in sync (isr_changes.py).

Each replica has a log of its own, in one of the log directories of its node (log/log_dir.py). Where that is memory, a
follower keeps the leader's batches in the memory that they came in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ottla.broker.configs import log_config
from ottla.broker.log.checkpoints import (
    CLEANED,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    write_offsets,
)
from ottla.broker.log.log import Origin
from ottla.broker.log.log_dir import log_name
from ottla.broker.replication.checkpointer import Checkpointer, Offsets
from ottla.broker.replication.delayed import FetchPurgatory, ProgressPurgatory
from ottla.broker.replication.directory_assignments import LOST, DirectoryAssignments, DirectoryController
from ottla.broker.replication.fetcher import LeaderLink, ReplicaFetcher
from ottla.broker.replication.flusher import LogFlusher
from ottla.broker.replication.isr_changes import IsrChanges, IsrController
from ottla.broker.replication.log_dir_moves import LogDirMoves
from ottla.broker.replication.log_removals import LogRemovals, cause
from ottla.broker.replication.partition import NO_EPOCH, FetchTimes, Partition, PartitionKey
from ottla.errors import KafkaStorageError, NotLeaderOrFollowerError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    from ottla._native.record_batch import Batch
    from ottla.broker.configs.node import NodeConfigs
    from ottla.broker.log.config import LogConfig
    from ottla.broker.log.guards import Guard
    from ottla.broker.log.log import Appended, Log
    from ottla.broker.log.log_dir import LogDirectories, LogDirectory
    from ottla.broker.metadata.image import Delta, MetadataImage, PartitionDelta
    from ottla.broker.server.background import Fail
    from ottla.runtime import Runtime, Timer
    from ottla.wire import Uuid

_log = logging.getLogger("ottla.broker.replication.replica_manager")


class ReplicaController(IsrController, DirectoryController, Protocol):
    """The way to the controller."""


class ReplicaManager:
    """The partitions of a node, by topic and index."""

    def __init__(
        self,
        node_id: int,
        image: MetadataImage,
        configs: NodeConfigs,
        directories: LogDirectories,
        runtime: Runtime,
        *,
        controller: ReplicaController,
        link: LeaderLink,
        fail: Fail,
    ) -> None:
        self.partitions: dict[PartitionKey, Partition] = {}
        self.fetchers: dict[int, ReplicaFetcher] = {}
        """By the leader that they follow."""
        clock = runtime.clock
        self.fetches = FetchPurgatory(clock)
        self.produces = ProgressPurgatory(clock)
        self.deletions = ProgressPurgatory(clock)
        self._node_id = node_id
        self._image = image
        self._configs = configs
        self.directories = directories
        self._clock = clock
        self._random = runtime.random
        self._flusher = LogFlusher(runtime, self._log_failed)
        self._checkpointer = Checkpointer(runtime, self._take_offline)
        self._assignments = DirectoryAssignments(node_id, controller, clock, fail)
        self._offline: dict[PartitionKey, Uuid] = {}
        """The ids of the topics of partitions whose replica lies in a directory that has failed."""
        self._preferred: dict[PartitionKey, LogDirectory] = {}
        """Where replicas are to be made that do not exist yet."""
        self._removals = LogRemovals(node_id, configs, runtime, self._take_offline)
        self._untold: list[Timer] = []
        """Of directories that have failed: until then the controller has to know."""
        self._is_closed = False
        self._controller = controller
        self._link = link
        self._fail = fail
        self._isr_changes = IsrChanges(node_id, controller, clock, on_change=self._commit, fail=fail)
        self._running = asyncio.Event()
        self._running.set()
        self._moves = LogDirMoves(
            node_id,
            directories,
            configs,
            runtime,
            assignments=self._assignments,
            removals=self._removals,
            prepare=self._prepare,
            on_failure=self._take_offline,
            running=self._running,
            fail=fail,
        )

    def hosted(self, topic: str, index: int) -> Partition:
        """The replica of a partition on this node."""
        partition = self.partitions.get((topic, index))
        if partition is not None:
            return partition
        if (topic, index) in self._offline:
            raise KafkaStorageError(topic=topic, partition=index, broker=self._node_id)
        if self._image.partition(topic, index) is None:
            raise UnknownTopicOrPartitionError(topic=topic, partition=index, broker=self._node_id)
        raise NotLeaderOrFollowerError(topic=topic, partition=index, broker=self._node_id)

    def led(self, topic: str, index: int, epoch: int = NO_EPOCH) -> Partition:
        """The same, if this node leads it, in the epoch that the client believes in."""
        partition = self.hosted(topic, index)
        partition.check_epoch(epoch)
        partition.check_leader()
        return partition

    # What clients change

    def append(
        self,
        partition: Partition,
        batch: Batch,
        acks: int,
        now_ms: int,
        *,
        origin: Origin = Origin.CLIENT,
        guard: Guard | None = None,
        transaction_version: int = 0,
    ) -> Appended:
        """Appends the batch of a producer, or of a coordinator, and wakes the requests that have waited for it."""
        appended = partition.append(
            batch, acks, now_ms, origin=origin, guard=guard, transaction_version=transaction_version
        )
        if not appended.duplicate:
            self._moves.grown()
            self.fetches.appended(partition.key, batch.size)
            self._commit(partition)
        return appended

    def delete_records(self, partition: Partition, before: int) -> int:
        """Moves the start of a partition's log; where it has to begin on every replica now."""
        target = partition.delete_records(before)
        self.fetches.changed(partition.key)
        return target

    # What followers change

    def follower_fetched(
        self,
        partition: Partition,
        replica: int,
        offset: int,
        log_start_offset: int,
        times: FetchTimes,
        broker_epoch: int,
    ) -> None:
        """A follower has come as far as the offset that it fetches from."""
        low_watermark_may_move = partition.followers[replica].log_start_offset != log_start_offset
        partition.follower_fetched(replica, offset, log_start_offset, times, broker_epoch)
        change = partition.expand(replica)
        if change is not None:
            self._isr_changes.propose(partition, change)
        self._commit(partition)
        if low_watermark_may_move:
            self.deletions.changed(partition.key)

    def _commit(self, partition: Partition) -> None:
        """Moves the high watermark, if it may move, and wakes the requests that wait for it."""
        size = partition.commit(self._clock.monotonic())
        if size:
            self.fetches.committed(partition.key, size)
            self.produces.changed(partition.key)

    # What leaders change

    def _fetched(self, partition: Partition, appended: int, committed: int) -> None:
        self._moves.grown()
        if not appended and not committed:
            self.fetches.changed(partition.key)
        if appended:
            self.fetches.appended(partition.key, appended)
        if committed:
            self.fetches.committed(partition.key, committed)

    # What the controller changes

    def apply(self, delta: Delta, now_ms: int) -> None:
        """The image has changed: replicas come, go and change their roles."""
        for change in delta.partitions.values():
            self._change(change, now_ms)
        if delta.brokers:
            # One that is fenced or leaves is waited for no more, and one that comes back may be.
            for partition in self.partitions.values():
                if partition.is_leader and partition.followers:
                    self._commit(partition)
                    self.deletions.changed(partition.key)

    def _change(self, change: PartitionDelta, now_ms: int) -> None:
        key = (change.topic, change.index)
        partition = self.partitions.get(key)
        if change.new is None or self._node_id not in change.new.replicas:
            if self._offline.get(key) == change.topic_id:
                del self._offline[key]
            # A topic that was deleted and made again in one go is another one under the same name.
            if partition is not None and partition.topic_id == change.topic_id:
                self._drop(partition)
            return
        if partition is not None and partition.topic_id != change.topic_id:
            self._drop(partition)
            partition = None
        if self._offline.get(key) == change.topic_id:
            return
        if partition is None:
            partition = self._try_open(change, now_ms)
            if partition is None:
                return
        if partition.become(change.new, self._clock.monotonic()):
            self._follow_leader_of(partition)
        self._commit(partition)
        self._wake(key)

    def _follow_leader_of(self, partition: Partition) -> None:
        """Fetches from the leader of this epoch, and from no other."""
        for fetcher in self.fetchers.values():
            fetcher.leave(partition.key)
        leader = partition.image.leader
        if not partition.image.has_leader or partition.is_leader:
            return
        if partition.log.epochs.latest is None:
            # Without epochs it cannot be found out where the logs part, so what is not committed goes.
            partition.truncate_to(partition.high_watermark)
        if leader not in self.fetchers:
            self.fetchers[leader] = ReplicaFetcher(
                self._node_id,
                leader,
                self._link,
                self._clock,
                self._configs,
                broker_epoch=lambda: self._controller.broker_epoch,
                now_ms=self._now_ms,
                on_fetched=self._fetched,
                running=self._running,
                fail=self._fail,
            )
        self.fetchers[leader].follow(partition)

    def _wake(self, key: PartitionKey) -> None:
        self.fetches.changed(key)
        self.produces.changed(key)
        self.deletions.changed(key)

    def _now_ms(self) -> int:
        return int(self._clock.time() * 1000)

    def _is_eligible(self, broker_id: int, broker_epoch: int) -> bool:
        broker = self._image.brokers.get(broker_id)
        return broker is not None and broker.active and broker_epoch in (NO_EPOCH, broker.epoch)

    def _try_open(self, change: PartitionDelta, now_ms: int) -> Partition | None:
        """None if the replica lies in a directory that has failed, or fails with it."""
        key = (change.topic, change.index)
        assigned = self._image.directory_of(change.topic_id, change.index, self._node_id)
        directory = self.directories.by_id(assigned)
        if directory is None and len(self.directories.online) == len(self.directories):
            # As in Kafka: what was offline works again, or is another directory now, into which all is fetched anew.
            assigned = None
        if assigned is not None and directory is None:
            self._offline[key] = change.topic_id
            _log.error("node %s cannot serve %s-%s: its log directory is offline", self._node_id, *key)
            return None
        try:
            place, settled = self._place_of(change, directory)
        except KafkaStorageError as error:
            self._offline[key] = change.topic_id
            _log.error("node %s cannot serve %s-%s: %s", self._node_id, *key, error)
            if directory is None or directory.failure is None:
                # The controller believes the replica in a directory that works, and might have it lead.
                self._assignments.assign(change.topic_id, change.index, LOST)
            return None
        if place.in_memory:
            return self._open(place, *key, change.topic_id, now_ms, settled)
        try:
            partition = self._open(place, *key, change.topic_id, now_ms, settled)
        except (OSError, KafkaStorageError) as error:
            self._offline[key] = change.topic_id
            self._take_offline(place, cause(error))
            if assigned not in (None, place.id):
                self._assignments.assign(change.topic_id, change.index, place.id)
            return None
        is_accepted = self._moves.resume(partition, assigned)
        if len(self.directories) > 1 and assigned != place.id and not is_accepted:
            self._assignments.assign(change.topic_id, change.index, place.id)
        return partition

    def _place_of(
        self, change: PartitionDelta, assigned: LogDirectory | None
    ) -> tuple[LogDirectory, Log | None]:
        """Where a log is, wherever it was meant to be; else where it is to be made. With it where it is open."""
        key = (change.topic, change.index)
        name, preferred = log_name(*key), self._preferred.pop(key, None)
        holding = self.directories.holding(name)
        if len(holding) > 1:
            config = log_config(self._configs.topic(change.topic))
            return self._moves.settle(holding, name, change.topic_id, assigned, config)
        if holding:
            return holding[0], None
        if assigned is not None and self._moves.promote_found(assigned, name, change.topic_id):
            return assigned, None
        if preferred is not None and preferred.failure is None:
            return preferred, None
        return assigned or self.directories.for_log(name), None

    def _open(
        self,
        directory: LogDirectory,
        topic: str,
        index: int,
        topic_id: Uuid,
        now_ms: int,
        log: Log | None = None,
    ) -> Partition:
        configs = self._configs.topic(topic)
        if log is None:
            log = directory.open(log_name(topic, index), topic_id, log_config(configs), now_ms, self._random)
        if not directory.in_memory:
            self._prepare(log)
        partition = self.partitions[topic, index] = Partition(
            self._node_id,
            topic,
            topic_id,
            index,
            log,
            min_in_sync=configs.value("min.insync.replicas"),
            max_lag=self._configs.value("replica.lag.time.max.ms") / 1000,
            high_watermark=directory.take_high_watermark(log.directory),
            is_eligible=self._is_eligible,
        )
        return partition

    def _prepare(self, log: Log) -> None:
        """A log on a disk is flushed beside the loop, and takes its directory with it where it fails."""
        log.on_rolled = self._flusher.flush_rolled
        log.on_failure = self._log_failed

    def alter_log_dir(self, topic: str, index: int, directory: LogDirectory) -> None:
        """Moves a replica to another directory; one that does not exist yet is made there, when it comes."""
        if directory.failure is not None:
            raise KafkaStorageError(topic=topic, partition=index, broker=self._node_id)
        if (topic, index) not in self.partitions and (topic, index) not in self._offline:
            self._preferred[topic, index] = directory
        self._moves.alter(self.hosted(topic, index), directory)

    def open_log(self, topic: str, index: int, topic_id: Uuid, config: LogConfig, now_ms: int) -> Log:
        """The log of a replica that this node has not heard of yet; `expect` gives it back."""
        name = log_name(topic, index)
        return self.directories.for_log(name).open(name, topic_id, config, now_ms, self._random)

    def put_strays_aside(self) -> None:
        """Gives up the logs of replicas that were taken from this node while it was down, once it knows of that."""
        offline = {log_name(*key) for key in self._offline}
        for directory in self.directories.online:
            if any(map(directory.has, offline)):
                # The log of a replica that was to move to a directory which is offline now: it has all there is.
                self._removals.take_on(directory)
                continue
            try:
                directory.put_strays_aside(self._random, offline)
            except OSError as error:
                if directory.in_memory:
                    raise
                self._take_offline(directory, error)
            else:
                self._removals.take_on(directory)

    def expect(self, replica: Partition) -> None:
        """Its log has been written to before this node has heard of the replica: so far it is committed already."""
        replica.log.close()
        self.directories.of(replica.log).expect(replica.log.directory, replica.high_watermark)

    def _drop(self, partition: Partition) -> None:
        """The replica is not this node's any more."""
        self._let_go(partition)
        self._moves.drop(partition)
        directory = self.directories.of(partition.log)
        self._removals.delete(directory, partition.log)
        if not directory.in_memory:
            # What they say of its name would hold for the next log of that name: of a topic that is made again.
            self._checkpoint(directory, RECOVERY_POINTS, directory.recovery_points)
            self._checkpoint(directory, LOG_STARTS, directory.log_starts)
            if partition.log.config.compact:
                self._checkpoint(directory, CLEANED, directory.cleaner_offsets)

    def _let_go(self, partition: Partition) -> None:
        for fetcher in self.fetchers.values():
            fetcher.leave(partition.key)
        del self.partitions[partition.key]
        partition.retire()
        self._wake(partition.key)

    # Directories that fail

    def _log_failed(self, log: Log, error: OSError) -> None:
        """Soon, for the log is in the midst of what has failed. One that was let go takes nothing with it."""
        for directory in self.directories:
            if directory.logs.get(log.directory) is log:
                asyncio.get_running_loop().call_soon(self._take_offline, directory, error)

    def _take_offline(self, directory: LogDirectory, error: OSError) -> None:
        """Serves nothing of a directory any more: others lead, and a node that has lost its last one stops."""
        if directory.failure is not None:
            return
        directory.failure = error
        _log.error(
            "node %s takes %s offline, with %s logs: %s",
            *(self._node_id, directory.path, len(directory.logs), error),
        )
        if self._is_closed:
            return
        if not self.directories.online:
            self._fail(f"{directory.path} has failed, and it has no other log directory", error)
            return
        self._moves.directory_failed(directory)
        for partition in list(self.partitions.values()):
            if directory.logs.get(partition.log.directory) is partition.log:
                self._offline[partition.key] = partition.topic_id
                self._let_go(partition)
        self._controller.log_dir_failed(directory.id)
        timeout = self._configs.value("log.dir.failure.timeout.ms") / 1000
        self._untold.append(self._clock.call_later(timeout, self._check_told, directory, error))

    def _check_told(self, directory: LogDirectory, error: OSError) -> None:
        """Where the controller does not know, it keeps leaders that cannot lead: the node stops, and is fenced."""
        own = self._image.brokers.get(self._node_id)
        if own is not None and directory.id in own.log_dirs:
            self._fail(f"the controller could not be told in time that {directory.path} has failed", error)

    def reconfigure(self, topics: Collection[str]) -> None:
        """Other configs apply to these topics."""
        for (topic, _), partition in self.partitions.items():
            if topic in topics:
                configs = self._configs.topic(topic)
                for log in filter(None, (partition.log, partition.future)):
                    log.reconfigure(log_config(configs))
                partition.min_in_sync = configs.value("min.insync.replicas")
                self._commit(partition)

    # What time changes

    def shrink_isrs(self) -> None:
        """Proposes to drop the followers that have lagged for longer than replica.lag.time.max.ms."""
        now = self._clock.monotonic()
        for partition in self.partitions.values():
            change = partition.shrink(now)
            if change is not None:
                self._isr_changes.propose(partition, change)

    def checkpoint_high_watermarks(self) -> None:
        """Writes down how far each replica is known to be committed: what a node that starts again begins with."""
        for directory in self.directories.online:
            self._checkpoint(directory, HIGH_WATERMARKS, partial(self._high_watermarks, directory))

    def _high_watermarks(self, directory: LogDirectory) -> dict[str, int]:
        offsets = {each.log.directory: each.high_watermark for each in self.partitions.values()}
        return directory.high_watermarks(offsets)

    def checkpoint_recovery_points(self) -> None:
        """Writes down how far each log is flushed: a node that was killed reads the rest when it starts again."""
        for directory in self.directories.online:
            self._checkpoint(directory, RECOVERY_POINTS, directory.recovery_points)

    def checkpoint_log_starts(self) -> None:
        """Writes down where each log begins."""
        for directory in self.directories.online:
            self._checkpoint(directory, LOG_STARTS, directory.log_starts)

    def checkpoint_cleaner_offsets(self) -> None:
        """Writes down how far each log is compacted."""
        for directory in self.directories.online:
            self._checkpoint(directory, CLEANED, directory.cleaner_offsets)

    def _checkpoint(self, directory: LogDirectory, name: str, offsets: Offsets) -> None:
        if directory.in_memory:
            write_offsets(directory.fs, name, offsets())
        else:
            self._checkpointer.write(directory, name, offsets)

    def flush_old(self, now_ms: int) -> None:
        """Flushes what has waited for flush.ms."""
        for partition in self.partitions.values():
            log = partition.log
            if log.recovery_point < log.log_end_offset and now_ms - log.last_flush_ms >= log.config.flush_ms:
                self._flusher.flush(log, now_ms)

    def enforce_retention(self, now_ms: int) -> None:
        """Deletes what the topics of this node no longer retain, of what is committed."""
        for partition in self.partitions.values():
            try:
                if partition.log.enforce_retention(now_ms, partition.high_watermark):
                    partition.changes += 1
                if partition.future is not None:
                    partition.future.enforce_retention(now_ms, partition.high_watermark)
            except KafkaStorageError as error:
                # That log only: it is as it was, or refuses to be used. Next time it may work.
                _log.error("node %s: %s", self._node_id, error)

    def expire_producers(self, now_ms: int) -> None:
        """Forgets the producers that have been idle for too long."""
        for partition in self.partitions.values():
            partition.log.producers.expire(now_ms)

    # Life

    def pause(self) -> None:
        """Nothing is fetched, and nothing that comes is appended, until `resume`."""
        self._running.clear()

    def resume(self) -> None:
        self._running.set()

    async def close(self, *, clean: bool = True) -> None:
        """Lets every replica go; their logs stay. Where that is not clean, nothing is written any more."""
        for fetcher in self.fetchers.values():
            await fetcher.close()
        self.fetchers = {}
        await self._isr_changes.close()
        await self._assignments.close()
        await self._moves.close()
        self._removals.close()
        self._is_closed = True
        for timer in self._untold:
            timer.cancel()
        await self._flusher.close()
        await self._checkpointer.close(clean=clean)
        if clean:
            self._write_last_high_watermarks()
        for partition in list(self.partitions.values()):
            del self.partitions[partition.key]
            partition.retire()
            self._wake(partition.key)
        if clean:
            self._close_directories()

    def _write_last_high_watermarks(self) -> None:
        for directory in self.directories.online:
            try:
                write_offsets(directory.fs, HIGH_WATERMARKS, self._high_watermarks(directory))
            except OSError as error:
                _log.exception("node %s cannot write its high watermarks", self._node_id)
                if not directory.in_memory:
                    self._take_offline(directory, error)

    def _close_directories(self) -> None:
        for directory in self.directories.online:
            try:
                directory.close(self._controller.broker_epoch)
            except OSError as error:
                _log.warning(
                    "node %s will recover the logs in %s: it cannot be closed: %s",
                    *(self._node_id, directory.path, error),
                )
