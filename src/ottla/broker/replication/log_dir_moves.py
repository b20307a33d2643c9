"""Replicas that move from one log directory of their node to another (KIP-113, KIP-858).

A move is a future log in the other directory. It is filled from the current one, which is led or followed, written
and cut back meanwhile, and takes its place when it has all of it:

    COPYING     the future log lags behind
    ANNOUNCED   it has caught up once, and the controller is to know of the new directory
    ACCEPTED    the controller knows: as soon as the logs are equal, and the copy is flushed, they are swapped

`FutureReplica` is one move, without I/O beside that of its logs. `LogDirMoves` has those of a node and goes over them
in slices, between which the node serves its requests. Between the last slice of a move and its swap nothing runs.

Invariants: what is in the future log is in the current one at the same offset, or was until it was cut back, which
the next slice follows. The controller is told of the new directory before the swap, and of the old one again where
the move ends without it: if it knew another directory than that of the log, a lost one would take the wrong replicas.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from ottla.broker.log.log_dir import log_name
from ottla.broker.replication.fetcher import agreed_end
from ottla.broker.replication.log_removals import cause
from ottla.broker.replication.partition import NO_EPOCH
from ottla.broker.server.background import Fail, unending
from ottla.errors import BrokerError, KafkaStorageError

if TYPE_CHECKING:
    from ottla.broker.configs.node import NodeConfigs
    from ottla.broker.log.config import LogConfig
    from ottla.broker.log.log import Log
    from ottla.broker.log.log_dir import LogDirectories, LogDirectory
    from ottla.broker.replication.directory_assignments import DirectoryAssignments
    from ottla.broker.replication.log_removals import LogRemovals
    from ottla.broker.replication.partition import Partition, PartitionKey
    from ottla.runtime import Runtime
    from ottla.wire import Uuid

_log = logging.getLogger("ottla.broker.replication.log_dir_moves")

_SLICE_BYTES: Final = 1024 * 1024
_PATIENCE: Final = 1.0
"""How long a move waits whose rate is 0, in seconds: the config may change."""


class Stage(Enum):
    """How far a move has come."""

    COPYING = auto()
    ANNOUNCED = auto()
    ACCEPTED = auto()


class FutureReplica:
    """One move of one replica."""

    def __init__(self, partition: Partition, directory: LogDirectory, log: Log) -> None:
        self.partition = partition
        self.directory = directory
        self.log = log
        self.stage = Stage.COPYING
        self.is_stuck = False
        """A slice has failed, and will fail again; another request, or the loss of a directory, ends the move."""
        partition.cut_to = None
        self._agree()

    def _agree(self) -> None:
        """Of what an earlier life has copied only what the current log still has stays."""
        source, log = self.partition.log, self.log
        log.truncate_to(source.log_end_offset)
        while log.epochs.latest is not None and source.epochs.latest is not None:
            asked = min(log.epochs.latest, source.epochs.latest)
            target = agreed_end(log, *source.epochs.end_offset_for(asked, source.log_end_offset))
            if target >= log.log_end_offset:
                return
            log.truncate_to(target)

    @property
    def lag(self) -> int:
        """How many offsets it is behind the current log; below 0 where that was cut back."""
        return self.partition.log.log_end_offset - self.log.log_end_offset

    @property
    def is_equal(self) -> bool:
        return not self.lag and self.partition.cut_to is None

    def copy(self, max_bytes: int, now_ms: int) -> int:
        """Follows the current log by so many bytes at most, but a batch; how many it were.

        Raises the BrokerError of whichever log cannot be read or written.
        """
        source, log = self.partition.log, self.log
        if self.partition.cut_to is not None:
            log.truncate_to(self.partition.cut_to)
            self.partition.cut_to = None
        start = source.log_start_offset
        if log.log_end_offset < start:
            log.truncate_fully(start)
        elif log.log_start_offset < start:
            log.delete_records(start)
        copied = 0
        if log.log_end_offset < source.log_end_offset:
            found = source.read(log.log_end_offset, max_bytes, at_least_one=True)
            records = found.parts[0] if len(found.parts) == 1 else b"".join(found.parts)
            log.append_as_follower(records, now_ms)
            copied = found.size
        log.replicated_to(min(self.partition.high_watermark, log.log_end_offset))
        return copied


class LogDirMoves:
    """The moves of one node."""

    def __init__(
        self,
        node_id: int,
        directories: LogDirectories,
        configs: NodeConfigs,
        runtime: Runtime,
        *,
        assignments: DirectoryAssignments,
        removals: LogRemovals,
        prepare: Callable[[Log], None],
        on_failure: Callable[[LogDirectory, OSError], None],
        running: asyncio.Event,
        fail: Fail,
    ) -> None:
        """`prepare` gets every log before it is written to; `on_failure` learns of a directory that has failed."""
        self._node_id = node_id
        self._directories = directories
        self._configs = configs
        self._runtime = runtime
        self._clock = runtime.clock
        self._assignments = assignments
        self._removals = removals
        self._prepare = prepare
        self._on_failure = on_failure
        self._running = running
        self._fail = fail
        self.moves: dict[PartitionKey, FutureReplica] = {}
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # What begins and ends a move

    def alter(self, partition: Partition, directory: LogDirectory) -> None:
        """The replica is wanted in this directory: a move to another one is over, and one to it goes on.

        A KafkaStorageError says that no move begins while a directory of the node is offline: it may have a future
        log of the replica already.
        """
        move = self.moves.get(partition.key)
        if move is not None and move.directory is not directory:
            self._forget(move)
            self._removals.delete(move.directory, move.log)
            move = None
        if move is not None or directory is self._directories.of(partition.log):
            return
        if len(self._directories.online) < len(self._directories):
            raise KafkaStorageError(topic=partition.topic, partition=partition.index, broker=self._node_id)
        self._begin(partition, directory)

    def resume(self, partition: Partition, assigned: Uuid | None) -> bool:
        """Goes on with the move that an earlier life of the node has begun, if there is one.

        `assigned` is where the controller believes the replica: whether that is the directory that it moves to.
        """
        current = self._directories.of(partition.log)
        name = log_name(*partition.key)
        for directory in self._directories.online:
            if directory is current:
                continue
            try:
                with self._offline_if_it_fails(directory):
                    found = directory.find_future(name, partition.topic_id, self._runtime.random)
                move = None if found is None else self._begin(partition, directory)
            except KafkaStorageError as error:
                _log.error("node %s cannot go on moving %s: %s", self._node_id, name, error)
                continue
            if move is not None:
                _log.info("node %s goes on moving %s to %s", self._node_id, name, directory.path)
                if assigned == directory.id:
                    move.stage = Stage.ACCEPTED
                return move.stage is Stage.ACCEPTED
        return False

    def settle(
        self,
        holding: Sequence[LogDirectory],
        name: str,
        topic_id: Uuid,
        assigned: LogDirectory | None,
        config: LogConfig,
    ) -> tuple[LogDirectory, Log]:
        """A swap was cut short, and both directories have the log: the one that has more counts, the others go.

        They were equal at the swap, and only one of them went on. Where neither did, the controller knows which. The
        log stays open: what the checkpoints have said of it is with it now.
        """
        random = self._runtime.random
        logs: dict[LogDirectory, Log] = {}
        for each in holding:
            with self._offline_if_it_fails(each):
                logs[each] = each.open(name, topic_id, config, self._now_ms(), random)

        def progress(directory: LogDirectory) -> tuple[int, int, bool]:
            log = logs[directory]
            epoch = NO_EPOCH if log.epochs.latest is None else log.epochs.latest
            return epoch, log.log_end_offset, directory is assigned

        chosen = max(holding, key=progress)
        _log.warning(
            "node %s uses %s in %s, of %s", self._node_id, name, chosen.path, [each.path for each in holding]
        )
        for directory, log in logs.items():
            if directory is not chosen:
                self._removals.delete(directory, log)
        return chosen, logs[chosen]

    def promote_found(self, directory: LogDirectory, name: str, topic_id: Uuid) -> bool:
        """Whether the copy that a move has left in a directory takes the place of a log that is gone.

        That is where the controller believes the replica to be in there: so the copy was equal to the log once. While
        a directory is offline the log may be in that one, and have more: a KafkaStorageError says so.
        """
        with self._offline_if_it_fails(directory):
            found = directory.find_future(name, topic_id, self._runtime.random)
        if found is None:
            return False
        if len(self._directories.online) < len(self._directories):
            raise KafkaStorageError(f"only a copy of {name} is left while a log directory is offline")
        with self._offline_if_it_fails(directory):
            directory.promote_found(name, found)
        return True

    @contextmanager
    def _offline_if_it_fails(self, directory: LogDirectory) -> Iterator[None]:
        """What the disk refuses becomes a KafkaStorageError, when the directory is offline."""
        try:
            yield
        except (OSError, KafkaStorageError) as error:
            self._on_failure(directory, cause(error))
            raise KafkaStorageError(f"{directory.path} has failed: {error}") from error

    def _begin(self, partition: Partition, directory: LogDirectory) -> FutureReplica:
        name = log_name(*partition.key)
        with self._offline_if_it_fails(directory):
            log = directory.open_future(
                name, partition.topic_id, partition.log.config, self._now_ms(), self._runtime.random
            )
            self._prepare(log)
            move = FutureReplica(partition, directory, log)
        partition.future = log
        self.moves[partition.key] = move
        self._news.set()
        if self._task is None:
            work = unending(self._run, "it cannot move replicas between its log directories", self._fail)
            self._task = asyncio.get_running_loop().create_task(work)
        return move

    def drop(self, partition: Partition) -> None:
        """The replica is deleted: what was copied of it goes as well."""
        move = self.moves.get(partition.key)
        if move is not None:
            self._forget(move, revert=False)
            self._removals.delete(move.directory, move.log)

    def directory_failed(self, directory: LogDirectory) -> None:
        """Ends the moves to a directory, and those from it: the files stay for another life of the node."""
        for move in list(self.moves.values()):
            current = self._directories.of(move.partition.log)
            if directory in (move.directory, current):
                self._forget(move)
                move.directory.let_go(move.log)

    def _forget(self, move: FutureReplica, *, revert: bool = True) -> None:
        partition = move.partition
        del self.moves[partition.key]
        partition.future = None
        self._news.set()
        if revert and move.stage is not Stage.COPYING:
            current = self._directories.of(partition.log)
            self._assignments.assign(partition.topic_id, partition.index, current.id)

    # The loop

    def grown(self) -> None:
        """Something was appended to a replica, or cut off."""
        if self.moves:
            self._news.set()

    async def close(self) -> None:
        """The moves go on when the node is started again."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            self._news.clear()
            for move in list(self.moves.values()):
                await self._running.wait()
                if self._is_on(move):
                    copied = self._step(move)
                    # Before others append again: under load it is never equal for longer.
                    is_equal = move.is_equal
                    await self._pace(copied)
                    if is_equal and move.stage is Stage.ACCEPTED and self._is_on(move):
                        await self._swap(move)
            await self._news.wait()

    def _is_on(self, move: FutureReplica) -> bool:
        return self.moves.get(move.partition.key) is move and not move.is_stuck

    async def _pace(self, copied: int) -> None:
        """Lets others work, for as long as replica.alter.log.dirs.io.max.bytes.per.second says."""
        rate = self._configs.value("replica.alter.log.dirs.io.max.bytes.per.second")
        while rate == 0:
            await self._clock.sleep(_PATIENCE)
            rate = self._configs.value("replica.alter.log.dirs.io.max.bytes.per.second")
        await self._clock.sleep(0.0 if rate is None else copied / rate)

    def _step(self, move: FutureReplica) -> int:
        """Copies a slice; how many bytes it had."""
        try:
            copied = move.copy(_SLICE_BYTES, self._now_ms())
        except BrokerError as error:
            # A log that cannot be read or written has said so, and its directory is taken offline. A damaged batch
            # is nothing of that kind: the copy would hide it.
            _log.error("node %s cannot move %s-%s any further: %s", self._node_id, *move.partition.key, error)
            move.is_stuck = True
            return 0
        if copied:
            self._news.set()
        if move.stage is Stage.COPYING and move.is_equal:
            self._announce(move)
        return copied

    def _announce(self, move: FutureReplica) -> None:
        def accepted() -> None:
            if self._is_on(move) and move.stage is Stage.ANNOUNCED:
                move.stage = Stage.ACCEPTED
                self._news.set()

        move.stage = Stage.ANNOUNCED
        partition = move.partition
        self._assignments.assign(partition.topic_id, partition.index, move.directory.id, accepted)

    async def _swap(self, move: FutureReplica) -> None:
        """Flushes the copy beside the loop, and swaps the logs if they are equal after that, or by one more slice."""
        await self._flush(move.log)
        await self._running.wait()
        if not self._is_on(move):
            return
        self._step(move)
        if self._is_on(move) and move.is_equal:
            self._replace(move)
        else:
            self._news.set()

    async def _flush(self, log: Log) -> None:
        unflushed, now_ms = log.unflushed(log.log_end_offset), self._now_ms()
        try:
            await self._runtime.run(unflushed.flush)
        except OSError as error:
            if log.flush_failed(unflushed, error):
                log.on_failure(log, error)
        else:
            log.flushed(unflushed, now_ms)

    def _replace(self, move: FutureReplica) -> None:
        partition, directory = move.partition, move.directory
        old, source = partition.log, self._directories.of(partition.log)
        try:
            log = directory.promote(move.log, self._now_ms())
            self._prepare(log)
            log.take_over(old)
        except (OSError, KafkaStorageError) as error:
            self._forget(move)
            self._on_failure(directory, cause(error))
            return
        del self.moves[partition.key]
        partition.move_to(log)
        _log.info("node %s has moved %s-%s to %s", self._node_id, *partition.key, directory.path)
        self._removals.delete(source, old)

    def _now_ms(self) -> int:
        return int(self._clock.time() * 1000)
