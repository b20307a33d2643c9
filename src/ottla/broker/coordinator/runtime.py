"""The runtime of coordinators: the state of keys is records of an internal topic, and each led partition is a shard.

A shard is loaded when this node becomes the leader of its partition: every record of the log is replayed into it, in
pieces, so that the loop is never held up; until the end of the log is reached its keys are
COORDINATOR_LOAD_IN_PROGRESS. It is unloaded when another node leads or the topic is deleted: what is parked or waits
gets NOT_COORDINATOR.

An operation is a function of the shard. It decides, and says what is to be written (`Result`): the records of one
operation are one batch, appended before they are replayed, so that a log that refuses them leaves the shard as it
was. Its response leaves when the batch is on every replica in sync; that of an operation without records when all
that was appended before is: it was computed from that. The records of a transaction count when its marker, which the
transaction coordinator has written here, says so. Kafka's group coordinator, the transaction coordinator and
the share coordinator are three kinds of shards on one such runtime.

Invariant: everything runs on the loop of the node, and no operation begins before the one before it is appended and
replayed. A parked response is completed once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from ottla._native.record_batch import whole_batch
from ottla.broker.coordinator.internal_topics import coordinator_partition
from ottla.broker.coordinator.shard import (
    RETRY_BACKOFF,
    CoordinatorRecord,
    CoordinatorShard,
    Parked,
    Result,
    ShardContext,
    ShardTimers,
)
from ottla.broker.log.batch import NO_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from ottla.broker.log.producers import Origin
from ottla.broker.log.transactions import read_marker
from ottla.broker.replication.partition import ACKS_ALL
from ottla.errors import (
    BrokerError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    InvalidFetchSizeError,
    KafkaStorageError,
    MessageTooLargeError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RecordListTooLargeError,
    RequestTimedOutError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from ottla.wire.batches import batch_headers, encode_batch
from ottla.wire.compression import Compression
from ottla.wire.records import decode_fetch

if TYPE_CHECKING:
    from ottla._native.record_batch import Batch
    from ottla.broker.configs.node import NodeConfigs
    from ottla.broker.log.guards import Guard
    from ottla.broker.metadata.image import Delta, MetadataImage
    from ottla.broker.replication.partition import Partition
    from ottla.broker.replication.replica_manager import ReplicaManager
    from ottla.runtime import Runtime, Timer
    from ottla.wire.primitives import Buffer

_log = logging.getLogger("ottla.broker.coordinator.runtime")

_R = TypeVar("_R")
_S = TypeVar("_S", bound=CoordinatorShard)

_LOAD_BYTES: Final = 256 * 1024
"""What is replayed in one go; a batch that is larger is one piece all the same."""

_RECORDS_OF_A_BATCH: Final = 1000
"""Of records that stand for themselves: tombstones, which are small."""

_NOT_AVAILABLE: Final = (UnknownTopicOrPartitionError, NotEnoughReplicasError, RequestTimedOutError)
_NOT_COORDINATOR: Final = (NotLeaderOrFollowerError, KafkaStorageError)
_UNEXPECTED: Final = (MessageTooLargeError, RecordListTooLargeError, InvalidFetchSizeError)


class _State(Enum):
    LOADING = auto()
    ACTIVE = auto()
    FAILED = auto()
    CLOSED = auto()


class TransactionWriter(NamedTuple):
    """The producer in whose transaction an operation writes; `guard` is what its coordinator was asked with."""

    producer_id: int
    epoch: int
    guard: Guard | None


@dataclass(slots=True, eq=False)
class _Waiting:
    """An operation that is appended, and whose response waits for the high watermark."""

    end_offset: int
    complete: Callable[[BrokerError | None], object]
    timer: Timer | None = None
    is_over: bool = False


class _LedPartition(Generic[_S]):
    """One partition that this node leads, with its shard."""

    def __init__(self, runtime: CoordinatorRuntime[_S], partition: Partition, epoch: int) -> None:
        self.partition = partition
        self.epoch = epoch
        self.state = _State.LOADING
        self.timers = ShardTimers(runtime.node_runtime, self._run)
        self.shard: _S = runtime.make_shard(
            ShardContext(
                partition.index,
                self.timers,
                self.submit_soon,
                runtime.image,
                runtime.configs,
                runtime.now_ms,
                runtime.node_runtime.random,
                lambda: partition.high_watermark,
            )
        )
        self._runtime = runtime
        self._waiting: deque[_Waiting] = deque()
        self._parked: dict[Parked[Any], None] = {}
        self._written = partition.log.log_end_offset
        self._is_writing = False
        runtime.replicas.produces.watch(partition.key, self.progressed)

    # Loading

    async def load(self) -> None:
        offset = self.partition.log.log_start_offset
        while offset < self.partition.log.log_end_offset:
            # Between two pieces the replica may have moved to another directory.
            piece = self.partition.log.read(offset, _LOAD_BYTES, at_least_one=True)
            data = b"".join(piece.parts)
            for header in batch_headers(data):
                batch = memoryview(data)[header.position : header.position + header.size]
                if header.is_control:
                    marker = read_marker(batch)
                    if marker is not None:
                        self.shard.end_transaction(
                            header.producer_id, not marker.is_abort, header.base_offset
                        )
                    continue
                producer = header.producer_id if header.is_transactional else None
                self._replay(batch, max(offset, header.base_offset), producer)
            offset = piece.next_offset
            await asyncio.sleep(0)
        self._written = self.partition.log.log_end_offset
        self.shard.on_committed(self.partition.high_watermark)
        self.state = _State.ACTIVE
        self.shard.on_loaded()

    def _replay(self, batch: Buffer, offset: int, producer_id: int | None) -> None:
        for record in decode_fetch(batch, *self.partition.key, offset=offset):
            if record.key is None:
                continue
            if producer_id is None:
                self.shard.replay(record.key, record.value, record.offset)
            else:
                self.shard.replay_transactional(producer_id, record.key, record.value, record.offset)

    # Operations

    def check(self) -> None:
        if self.state is _State.CLOSED:
            raise NotCoordinatorError
        if self.state is not _State.ACTIVE:
            raise CoordinatorLoadInProgressError

    def submit_soon(self, operation: Callable[[_S], Result[Any]]) -> None:
        asyncio.get_running_loop().call_soon(self.submit, operation)

    def submit(self, operation: Callable[[_S], Result[Any]]) -> None:
        """An operation that no request waits for."""
        clock = self._runtime.node_runtime.clock
        self._run(operation, lambda: clock.call_later(RETRY_BACKOFF, self.submit, operation))

    def _run(self, operation: Callable[[_S], Result[Any]], again: Callable[[], object]) -> None:
        """Runs it, and calls `again` where it comes to nothing: no request would bring it about later.

        A session that ends while too few replicas are in sync must end afterwards, or its member would stay for good.
        """

        def done(_: object, error: BrokerError | None) -> None:
            if error is not None:
                _log.info("%s-%s: an operation came to nothing: %s", *self.partition.key, error)
                if not isinstance(error, NotCoordinatorError):
                    again()

        if self._runtime.is_paused:
            self._runtime.until_resumed(lambda: self._run(operation, again))
            return
        if self.state is not _State.ACTIVE:
            return
        try:
            self.write(operation, done)
        except BrokerError as error:
            done(None, error)
        except Exception:  # noqa: BLE001 - a bug in one operation; like one of a handler it is logged
            _log.exception("%s-%s: an operation has failed", *self.partition.key)

    def write(
        self,
        operation: Callable[[_S], Result[_R]],
        done: Callable[[_R | None, BrokerError | None], object],
        writer: TransactionWriter | None = None,
    ) -> None:
        """Runs an operation; `done` gets its response when it may leave, or the error.

        With a `writer`, its records are part of a transaction.
        """
        self.check()
        result = operation(self.shard)
        try:
            if result.records:
                self._append(result, writer)
        except BrokerError as error:
            translated = translate(error)
            if result.on_commit is not None:
                result.on_commit(translated)
            raise translated from error
        if isinstance(result.response, Parked):
            self._park(result.response, done)

        def complete(error: BrokerError | None) -> None:
            if result.on_commit is not None:
                result.on_commit(error)
            if not isinstance(result.response, Parked):
                done(result.response if error is None else None, error)

        if isinstance(result.response, Parked) and not result.records and result.on_commit is None:
            return
        self._wait(complete)

    def end_transaction(
        self,
        producer_id: int,
        marker: Batch,
        done: Callable[[None, BrokerError | None], object],
        *,
        is_commit: bool,
        transaction_version: int,
    ) -> None:
        """Appends the marker of a producer, and ends its transaction; `done` hears when it is on all replicas."""
        self.check()
        self._is_writing = True
        try:
            appended = self._runtime.replicas.append(
                self.partition,
                marker,
                ACKS_ALL,
                self._runtime.now_ms(),
                origin=Origin.COORDINATOR,
                transaction_version=transaction_version,
            )
        except BrokerError as error:
            raise translate(error) from error
        finally:
            self._is_writing = False
        self._written = appended.last_offset + 1
        self.shard.end_transaction(producer_id, is_commit, appended.base_offset)
        self.progressed()
        self._wait(lambda error: done(None, error))

    def _append(self, result: Result[Any], writer: TransactionWriter | None) -> None:
        records = result.records
        size = len(records) if result.atomic else _RECORDS_OF_A_BATCH
        self._is_writing = True
        try:
            for first in range(0, len(records), size):
                self._append_batch(records[first : first + size], writer, replay=result.replay)
        finally:
            self._is_writing = False
        self.progressed()

    def _append_batch(
        self, records: Sequence[CoordinatorRecord], writer: TransactionWriter | None, *, replay: bool
    ) -> None:
        runtime = self._runtime
        now_ms = runtime.now_ms()
        data = encode_batch(
            [(n, now_ms, record.key, record.value, []) for n, record in enumerate(records)],
            codec=runtime.compression(),
            transactional=writer is not None,
            producer_id=NO_PRODUCER_ID if writer is None else writer.producer_id,
            producer_epoch=NO_EPOCH if writer is None else writer.epoch,
            # Its sequences are not looked at; as Kafka writes them, every batch begins with 0.
            base_sequence=NO_SEQUENCE if writer is None else 0,
        )
        batch = whole_batch(bytearray(data))
        assert batch is not None
        appended = runtime.replicas.append(
            self.partition,
            batch,
            ACKS_ALL,
            now_ms,
            origin=Origin.CLIENT if writer is None else Origin.COORDINATOR,
            guard=None if writer is None else writer.guard,
        )
        if replay:
            for n, record in enumerate(records):
                offset = appended.base_offset + n
                if writer is None:
                    self.shard.replay(record.key, record.value, offset)
                else:
                    self.shard.replay_transactional(writer.producer_id, record.key, record.value, offset)
        self._written = appended.last_offset + 1

    def _park(self, parked: Parked[_R], done: Callable[[_R | None, BrokerError | None], object]) -> None:
        def completed(parked: Parked[_R]) -> None:
            self._parked.pop(parked, None)
            done(parked.response, parked.error)

        self._parked[parked] = None
        parked.then(completed)

    def _wait(self, complete: Callable[[BrokerError | None], object]) -> None:
        if not self._waiting and self.partition.has_committed(self._written):
            complete(None)
            return
        waiting = _Waiting(self._written, complete)
        waiting.timer = self._runtime.node_runtime.clock.call_later(
            self._runtime.write_timeout(), self._timed_out, waiting
        )
        self._waiting.append(waiting)

    def _timed_out(self, waiting: _Waiting) -> None:
        if not waiting.is_over:
            self._waiting.remove(waiting)
            self._end(waiting, CoordinatorNotAvailableError())

    def _end(self, waiting: _Waiting, error: BrokerError | None) -> None:
        waiting.is_over = True
        if waiting.timer is not None:
            waiting.timer.cancel()
        waiting.complete(error)

    def progressed(self) -> None:
        """The high watermark may have moved, or another node may lead."""
        if self._is_writing or self.state is _State.CLOSED:
            return
        self.shard.on_committed(self.partition.high_watermark)
        while self._waiting and self.partition.has_committed(self._waiting[0].end_offset):
            self._end(self._waiting.popleft(), None)

    def close(self) -> None:
        if self.state is _State.CLOSED:
            return
        self.state = _State.CLOSED
        self._runtime.replicas.produces.unwatch(self.partition.key)
        self.timers.clear()
        self.shard.on_unloaded()
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            self._end(each, NotCoordinatorError())
        for parked in list(self._parked):
            parked.fail(NotCoordinatorError())


class CoordinatorRuntime(Generic[_S]):
    """The shards of one internal topic on one node."""

    def __init__(
        self,
        topic: str,
        make_shard: Callable[[ShardContext], _S],
        *,
        node_id: int,
        image: MetadataImage,
        configs: NodeConfigs,
        replicas: ReplicaManager,
        runtime: Runtime,
    ) -> None:
        self.topic = topic
        self.make_shard = make_shard
        self.image = image
        self.configs = configs
        self.replicas = replicas
        self.node_runtime = runtime
        self.is_paused = False
        self._node_id = node_id
        self._led: dict[int, _LedPartition[_S]] = {}
        self._loads: dict[int, asyncio.Task[None]] = {}
        self._held_back: list[Callable[[], None]] = []

    def now_ms(self) -> int:
        return int(self.node_runtime.clock.time() * 1000)

    def write_timeout(self) -> float:
        return float(self.configs.value("offsets.commit.timeout.ms")) / 1000

    def compression(self) -> Compression:
        return Compression(self.configs.value("offsets.topic.compression.codec"))

    # Requests

    def partition_of(self, key: str) -> int:
        """The partition of the topic that a key belongs to; while there is no topic, there is no coordinator."""
        topic = self.image.topics.get(self.topic)
        if topic is None or not topic.partitions:
            raise NotCoordinatorError
        return coordinator_partition(key, len(topic.partitions))

    def _of(self, key: str) -> _LedPartition[_S]:
        led = self._led.get(self.partition_of(key))
        if led is None:
            raise NotCoordinatorError
        led.check()
        return led

    def write(
        self, key: str, operation: Callable[[_S], Result[_R]], writer: TransactionWriter | None = None
    ) -> asyncio.Future[_R]:
        """Runs an operation on the shard of a key, in a transaction or not; its response, when it may leave.

        It has run when this returns, so operations take effect in the order of their calls.
        """
        return _responded(lambda done: self._of(key).write(operation, done, writer))

    def end_transaction(
        self, index: int, producer_id: int, marker: Batch, *, is_commit: bool, transaction_version: int
    ) -> asyncio.Future[None]:
        """Ends what a producer has pending in a partition; its result, when the marker is on all replicas in sync."""

        def end(done: Callable[[None, BrokerError | None], object]) -> None:
            led = self._led.get(index)
            if led is None:
                raise NotCoordinatorError
            led.end_transaction(
                producer_id, marker, done, is_commit=is_commit, transaction_version=transaction_version
            )

        return _responded(end)

    def read(self, key: str, operation: Callable[[_S], _R]) -> _R:
        """Looks at the shard of a key."""
        return operation(self._of(key).shard)

    def read_all(self, operation: Callable[[_S], _R]) -> list[_R]:
        """Looks at every shard; COORDINATOR_LOAD_IN_PROGRESS while one is not loaded."""
        led = [self._led[index] for index in sorted(self._led)]
        for each in led:
            each.check()
        return [operation(each.shard) for each in led]

    # Leadership

    def apply(self, delta: Delta) -> None:
        """The image has changed, and the replicas have followed it."""
        for change in delta.partitions.values():
            if change.topic != self.topic:
                continue
            led = self._led.get(change.index)
            partition = self.replicas.partitions.get((change.topic, change.index))
            if partition is None or not partition.is_leader:
                if led is not None:
                    self._resign(change.index)
            elif led is None or led.partition is not partition:
                self._elect(partition)
            elif partition.leader_epoch > led.epoch:
                if change.old is not None and change.old.leader == self._node_id:
                    led.epoch = partition.leader_epoch  # it leads without a break
                else:
                    self._elect(partition)
        for led in list(self._led.values()):
            if led.state is _State.ACTIVE:
                led.shard.on_metadata(delta)

    def _elect(self, partition: Partition) -> None:
        self._resign(partition.index)
        led = self._led[partition.index] = _LedPartition(self, partition, partition.leader_epoch)
        task = asyncio.get_running_loop().create_task(self._load(led))
        self._loads[partition.index] = task

    async def _load(self, led: _LedPartition[_S]) -> None:
        index = led.partition.index
        try:
            await led.load()
        except Exception:  # noqa: BLE001 - this partition only: its keys have no coordinator, others have theirs
            led.state = _State.FAILED
            _log.exception("node %s cannot load %s-%s", self._node_id, self.topic, index)
        else:
            _log.info("node %s coordinates %s-%s", self._node_id, self.topic, index)
        if self._loads.get(index) is asyncio.current_task():
            del self._loads[index]

    def _resign(self, index: int) -> None:
        task = self._loads.pop(index, None)
        if task is not None:
            task.cancel()
        led = self._led.pop(index, None)
        if led is not None:
            led.close()

    # Life

    def until_resumed(self, call: Callable[[], None]) -> None:
        self._held_back.append(call)

    def pause(self) -> None:
        """No timer does anything until `resume`, as in a process that is stopped."""
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        held_back, self._held_back = self._held_back, []
        for call in held_back:
            call()

    async def close(self) -> None:
        loads = list(self._loads.values())
        for index in list(self._led):
            self._resign(index)
        await asyncio.gather(*loads, return_exceptions=True)


def _responded(
    begin: Callable[[Callable[[_R | None, BrokerError | None], object]], None],
) -> asyncio.Future[_R]:
    """What `begin` hands to the function that it gets."""
    responded: asyncio.Future[_R] = asyncio.get_running_loop().create_future()

    def done(response: _R | None, error: BrokerError | None) -> None:
        if responded.done():
            return  # its connection is lost, and what it did stays done
        if error is not None:
            responded.set_exception(error)
        else:
            responded.set_result(response)  # type: ignore[arg-type]

    try:
        begin(done)
    except BrokerError as error:
        responded.set_exception(error)
    return responded


def translate(error: BrokerError) -> BrokerError:
    """The error of a request whose records could not be appended."""
    if isinstance(error, _NOT_AVAILABLE):
        return CoordinatorNotAvailableError()
    if isinstance(error, _NOT_COORDINATOR):
        return NotCoordinatorError()
    if isinstance(error, _UNEXPECTED):
        return UnknownServerError()
    return error
