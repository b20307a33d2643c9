"""The replicas of one node: which partitions it hosts, leads and follows, and everything that changes them.

The metadata image says which replicas a node has and which of them lead; a change of the image becomes a change of
them in `apply` alone. Handlers read from a partition directly, but whatever changes one comes through here, because
requests may be parked for it (delayed.py): appends and deletions of clients, fetches of followers, what this node
fetches itself as a follower (fetcher.py), what the controller says about who is in sync (isr_changes.py).

Each replica has a log of its own, on the file system of its node. Where that is memory, a follower keeps the leader's
batches in the memory that they came in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.broker.configs import log_config
from ottla.broker.log.checkpoints import read_high_watermarks, write_high_watermarks
from ottla.broker.log.log import Log, Origin
from ottla.broker.replication.delayed import FetchPurgatory, ProgressPurgatory
from ottla.broker.replication.fetcher import LeaderLink, ReplicaFetcher
from ottla.broker.replication.isr_changes import IsrChanges, IsrController
from ottla.broker.replication.partition import NO_EPOCH, FetchTimes, Partition, PartitionKey
from ottla.errors import KafkaStorageError, NotLeaderOrFollowerError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    from ottla._native.record_batch import Batch
    from ottla.broker.configs.node import NodeConfigs
    from ottla.broker.log.fs import FileSystem
    from ottla.broker.log.guards import Guard
    from ottla.broker.log.log import Appended
    from ottla.broker.metadata.image import Delta, MetadataImage, PartitionDelta
    from ottla.broker.server.background import Fail
    from ottla.runtime import Clock
    from ottla.wire import Uuid

_log = logging.getLogger("ottla.broker.replication.replica_manager")


class ReplicaManager:
    """The partitions of a node, by topic and index."""

    def __init__(
        self,
        node_id: int,
        image: MetadataImage,
        configs: NodeConfigs,
        fs: FileSystem,
        clock: Clock,
        *,
        controller: IsrController,
        link: LeaderLink,
        fail: Fail,
    ) -> None:
        self.partitions: dict[PartitionKey, Partition] = {}
        self.fetchers: dict[int, ReplicaFetcher] = {}
        """By the leader that they follow."""
        self.fetches = FetchPurgatory(clock)
        self.produces = ProgressPurgatory(clock)
        self.deletions = ProgressPurgatory(clock)
        self._node_id = node_id
        self._image = image
        self._configs = configs
        self._fs = fs
        self._clock = clock
        self._controller = controller
        self._link = link
        self._fail = fail
        self._isr_changes = IsrChanges(node_id, controller, clock, on_change=self._commit, fail=fail)
        self._high_watermarks = read_high_watermarks(fs)
        self._logs_before = log_directories(fs)
        """What an earlier life of the node has left behind."""
        self._running = asyncio.Event()
        self._running.set()

    def hosted(self, topic: str, index: int) -> Partition:
        """The replica of a partition on this node."""
        partition = self.partitions.get((topic, index))
        if partition is not None:
            return partition
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
            # A topic that was deleted and made again in one go is another one under the same name.
            if partition is not None and partition.topic_id == change.topic_id:
                self._drop(partition, delete=True)
            return
        if partition is not None and partition.topic_id != change.topic_id:
            self._drop(partition, delete=True)
            partition = None
        if partition is None:
            partition = self._open(change.topic, change.index, change.topic_id, now_ms)
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

    def _open(self, topic: str, index: int, topic_id: Uuid, now_ms: int) -> Partition:
        directory = log_directory(topic, index, topic_id)
        configs = self._configs.topic(topic)
        log = Log.open(self._fs, directory, log_config(configs), now_ms)
        partition = self.partitions[topic, index] = Partition(
            self._node_id,
            topic,
            topic_id,
            index,
            log,
            min_in_sync=configs.value("min.insync.replicas"),
            max_lag=self._configs.value("replica.lag.time.max.ms") / 1000,
            high_watermark=self._high_watermarks.pop(directory, 0),
            is_eligible=self._is_eligible,
        )
        return partition

    def delete_strays(self) -> None:
        """Deletes the logs of replicas that were taken from this node while it was down, once it knows of that."""
        kept = {partition.log.directory for partition in self.partitions.values()}
        for directory in self._logs_before:
            if directory not in kept:
                _log.info("node %s deletes %s: it has no such replica any more", self._node_id, directory)
                self._high_watermarks.pop(directory, None)
                self._fs.remove_directory(directory)
        self._logs_before = []

    def expect(self, replica: Partition) -> None:
        """Its log has been written to before this node has heard of the replica: so far it is committed already."""
        self._high_watermarks[replica.log.directory] = replica.high_watermark

    def _drop(self, partition: Partition, *, delete: bool = False) -> None:
        for fetcher in self.fetchers.values():
            fetcher.leave(partition.key)
        del self.partitions[partition.key]
        partition.retire()
        self._wake(partition.key)
        partition.log.close()
        if delete:
            self._fs.remove_directory(partition.log.directory)

    def reconfigure(self, topics: Collection[str]) -> None:
        """Other configs apply to these topics."""
        for (topic, _), partition in self.partitions.items():
            if topic in topics:
                configs = self._configs.topic(topic)
                partition.log.reconfigure(log_config(configs))
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
        write_high_watermarks(
            self._fs,
            {partition.log.directory: partition.high_watermark for partition in self.partitions.values()},
        )

    def enforce_retention(self, now_ms: int) -> None:
        """Deletes what the topics of this node no longer retain, of what is committed."""
        for partition in self.partitions.values():
            try:
                if partition.log.enforce_retention(now_ms, partition.high_watermark):
                    partition.changes += 1
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
        if clean:
            try:
                self.checkpoint_high_watermarks()
            except OSError:
                _log.exception("node %s cannot write its high watermarks", self._node_id)
        for partition in list(self.partitions.values()):
            del self.partitions[partition.key]
            partition.retire()
            self._wake(partition.key)
            if clean:
                try:
                    partition.log.close()
                except OSError:
                    _log.exception("node %s cannot close its replica of %s-%s", self._node_id, *partition.key)


def log_directory(topic: str, index: int, topic_id: Uuid) -> str:
    """Below the topic's id: while a slow node still has a deleted topic, its successor needs another directory."""
    return f"{topic_id}/{topic}-{index}"


def log_directories(fs: FileSystem) -> list[str]:
    """The directories of all logs on a volume; checkpoints have one of their own, which is not below a topic."""
    return [directory for directory in fs.directories() if "/" in directory]
