"""Fetch: records from the partitions on this node; where they are too few, the request is parked (delayed.py).

Consumers read from the leader, and since version 11 from any replica (KIP-392); a leader with a replica selector
sends those with a rack to a replica in it. Sessions (KIP-227) are in fetch_sessions.py. The first partition that has
anything gives at least one batch, however large; after that `max_bytes` and `partition_max_bytes` are kept, and
filled with the beginning of a further batch. A response has records of one segment. It comes at once with
`min_bytes`, an error, a hint or a divergence, else after `max_wait_ms` at the latest. A reader of committed data gets
what lies below the last stable offset, which is all that counts for it, and the aborted transactions in it. Topic ids
since version 13, leader hints since 16 (KIP-951), diverging epochs since 12 (KIP-595).

A fetch of a follower says how far its replica has come, and reads to the end of the log, in memory that the
follower's log may keep; the high watermark in its response is the one from before that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla._native.memory import Memory
from ottla.broker.log.log import Slice
from ottla.broker.replication.partition import NO_EPOCH, Partition, PartitionKey
from ottla.broker.replication.routing import RACK_AWARE, LeaderHints, preferred_replica
from ottla.broker.server.fetch_sessions import TOPIC_IDS_SINCE, FetchContext, SessionPartition
from ottla.broker.server.registry import handles
from ottla.errors import (
    BrokerError,
    InconsistentTopicIdError,
    OffsetOutOfRangeError,
    UnknownServerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from ottla.wire.messages import FetchRequest, FetchResponse
from ottla.wire.primitives import Buffer

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.replication.delayed import DelayedRequest
    from ottla.broker.server.call import Call

_RACKS_SINCE: Final = 11
_DIVERGING_SINCE: Final = 12
_HINTS_SINCE: Final = 16
_ISOLATION_LEVELS: Final = (0, 1)
_READ_COMMITTED: Final = 1
_REPLICA_STATE_SINCE: Final = 15
_WORTH_POOLING: Final = 64 * 1024
FetchResults = list[tuple[SessionPartition, FetchResponse.PartitionData]]


def _refuse(request: FetchRequest, error: BrokerError) -> FetchResponse:
    response = FetchResponse(error_code=error.code)
    for topic in request.topics:
        results = [
            FetchResponse.PartitionData(
                partition_index=part.partition, error_code=error.code, high_watermark=-1, records=b""
            )
            for part in topic.partitions
        ]
        response.responses.append(
            FetchResponse.FetchableTopicResponse(
                topic=topic.topic, topic_id=topic.topic_id, partitions=results
            )
        )
    return response


def _failure(request: FetchRequest, version: int, error: BrokerError) -> FetchResponse:
    """Where Kafka fails inside: newer clients get the error once, older ones for each of their partitions."""
    if version < TOPIC_IDS_SINCE:
        response = _refuse(request, error)
    else:
        response = FetchResponse(error_code=error.code)
    response.session_id = request.session_id
    return response


@handles(FetchRequest, versions=range(4, 19), refuse=_refuse)
def fetch(
    node: NodeContext, request: FetchRequest, call: Call
) -> FetchResponse | DelayedRequest[FetchResponse]:
    context = node.fetch_sessions.open(request, call.version, node.topic_name, node.runtime.clock.monotonic())
    if context.error is not None:
        return context.respond([])
    reading = _Reading(node, request, call, context)
    if request.isolation_level not in _ISOLATION_LEVELS and reading.has_partitions:
        # As in Kafka, which has no other response to it.
        return _failure(request, call.version, UnknownServerError())
    reading.read()
    if reading.is_enough or request.max_wait_ms <= 0 or not context.partitions:
        return reading.respond()
    return node.replicas.fetches.park(
        [partition.key for partition in reading.partitions],
        missing_bytes=reading.missing_bytes,
        timeout=request.max_wait_ms / 1000,
        complete=reading.complete,
        is_follower=reading.is_follower,
        seen=reading.seen,
        stable_size=reading.stable_size if reading.is_committed else None,
    )


class _Reading:
    """One request over the partitions that it names; may be read again after a wait."""

    def __init__(self, node: NodeContext, request: FetchRequest, call: Call, context: FetchContext) -> None:
        self._node = node
        self._request = request
        self._call = call
        self._context = context
        self.is_committed = request.isolation_level == _READ_COMMITTED
        self._replica, self._broker_epoch = _replica_of(request, call.version)
        self._times = context.times(node.runtime.clock.monotonic())
        self._has_reported = False
        self._limit: int = min(request.max_bytes, node.configs.value("fetch.max.bytes"))
        self._min_bytes: int = min(request.min_bytes, self._limit)
        self._size = 0
        self._at_once = False
        self._results: FetchResults = []
        self.partitions: list[Partition] = []
        self.seen: dict[PartitionKey, int] = {}
        """The bytes that a reader of committed data has found, by partition."""
        self._offsets: dict[PartitionKey, tuple[Partition, int, int]] = {}

    @property
    def is_follower(self) -> bool:
        return self._replica >= 0

    @property
    def is_enough(self) -> bool:
        """An error, a hint and a divergence complete a request at once, like enough bytes."""
        return self._at_once or self.missing_bytes <= 0

    @property
    def missing_bytes(self) -> int:
        return self._min_bytes - self._size

    @property
    def has_partitions(self) -> bool:
        """Whether there is anything to read, or to fail to read."""
        image = self._node.image
        return any(
            requested.topic is not None and image.partition(requested.topic, requested.partition) is not None
            for requested in self._context.partitions
        )

    def read(self) -> None:
        self._size, self._at_once = 0, False
        self._results, self.partitions = [], []
        self._hints = LeaderHints(self._node.image, FetchResponse)
        nameless: FetchResults = []
        unknown: FetchResults = []
        left = self._limit
        for requested in self._context.partitions:
            if requested.quiet is not None and requested.quiet.changes == requested.seen:
                self.partitions.append(requested.quiet)
                continue
            before = self._size
            try:
                result = self._read_one(requested, left)
            except UnknownTopicIdError as error:
                nameless.append((requested, self._failed(requested, error)))
                continue
            except UnknownTopicOrPartitionError as error:
                unknown.append((requested, self._failed(requested, error)))
                continue
            except BrokerError as error:
                result = self._failed(requested, error)
            # A limit below zero fails the first partition that it is applied to, and no other.
            left = max(0, left - (self._size - before))
            self._results.append((requested, result))
        # As Kafka has it: what is not there comes last.
        self._results += nameless + unknown
        self._has_reported = True

    def _failed(self, requested: SessionPartition, error: BrokerError) -> FetchResponse.PartitionData:
        self._at_once = True
        result = _refused(requested.partition, error)
        if requested.topic is not None and self._call.version >= _HINTS_SINCE:
            self._hints.add(result, requested.topic, requested.partition, error)
        return result

    def stable_size(self, key: PartitionKey) -> int:
        """The bytes that a reader of committed data might read of a partition by now."""
        partition, offset, limit = self._offsets[key]
        try:
            return partition.fetch(offset, limit, committed=True, at_least_one=True).size
        except BrokerError:
            return self._limit  # which the response will tell: the wait is over

    def complete(self) -> FetchResponse:
        """After a wait: with what there is by then."""
        self.read()
        return self.respond()

    def respond(self) -> FetchResponse:
        if self._context.fails_over(self._results, self._call.version):
            return _failure(self._request, self._call.version, UnknownServerError())
        if self._call.version < _DIVERGING_SINCE and any(part.diverging_epoch for _, part in self._results):
            # Of a session that began with a newer version: this one has no field for it.
            return _failure(self._request, self._call.version, UnsupportedVersionError())
        response = self._context.respond(self._results)
        response.node_endpoints = self._hints.endpoints()
        return response

    def _read_one(self, requested: SessionPartition, left: int) -> FetchResponse.PartitionData:
        partition = self._partition(requested)
        request = requested.request
        result = FetchResponse.PartitionData(
            partition_index=requested.partition,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log.log_start_offset,
            aborted_transactions=[] if self.is_committed else None,
            records=b"",
        )
        if (diverged := self._diverging(partition, request)) is not None:
            result.diverging_epoch = diverged
            result.aborted_transactions = None
            self._at_once = True
            return result
        preferred = self._preferred(partition, request.fetch_offset)
        if preferred is not None:
            result.preferred_read_replica = preferred
            self._at_once = True
            return result
        self.partitions.append(partition)
        limit = min(request.partition_max_bytes, left)
        if self.is_follower:
            self._replicate(partition, request, limit, result)
            if self._replica in partition.image.isr:
                # One that is not in sync yet is looked at with every fetch, so that it gets in.
                requested.note_quiet(partition, result)
            return result
        found = partition.fetch(
            request.fetch_offset,
            limit,
            committed=self.is_committed,
            at_least_one=self._size == 0,
        )
        self._size += found.size
        if self.is_committed:
            self.seen[partition.key] = found.size
            self._offsets[partition.key] = (partition, request.fetch_offset, request.partition_max_bytes)
        result.records = found.parts[0] if len(found.parts) == 1 else _whole(found)
        if self.is_committed and found.is_cut and not found.size and limit:
            # Kafka throws away what it has read of a batch that does not fit, and with it the transactions.
            result.aborted_transactions = None
        elif self.is_committed and request.fetch_offset < result.last_stable_offset:
            result.aborted_transactions = [
                FetchResponse.AbortedTransaction(producer_id=producer_id, first_offset=first)
                for producer_id, first in partition.log.aborted_in_fetch(request.fetch_offset, found.size)
            ]
        return result

    def _replicate(
        self,
        partition: Partition,
        request: FetchRequest.FetchPartition,
        limit: int,
        result: FetchResponse.PartitionData,
    ) -> None:
        found = partition.fetch_as_follower(request.fetch_offset, limit, at_least_one=self._size == 0)
        if found.parts:
            # Not joined: what is in one piece the follower need not copy. The rest comes with its next fetch.
            result.records = found.parts[0]
            self._size += len(found.parts[0])
        if not self._has_reported:
            self._node.replicas.follower_fetched(
                partition,
                self._replica,
                request.fetch_offset,
                request.log_start_offset,
                self._times,
                self._broker_epoch,
            )

    def _partition(self, requested: SessionPartition) -> Partition:
        node, request = self._node, requested.request
        if requested.topic is None:
            raise UnknownTopicIdError(broker=node.id)
        self._call.check(requested.topic, requested.partition)
        if self._call.version < _RACKS_SINCE and not self.is_follower:
            return node.replicas.led(requested.topic, requested.partition, _epoch(request))
        partition = node.replicas.hosted(requested.topic, requested.partition)
        if self._call.version >= TOPIC_IDS_SINCE and partition.topic_id != requested.topic_id:
            raise InconsistentTopicIdError(
                topic=requested.topic, partition=requested.partition, broker=node.id
            )
        partition.check_epoch(_epoch(request))
        if self.is_follower:
            partition.check_leader()
            names_epoch = request.current_leader_epoch >= 0
            partition.check_follower(self._replica, self._broker_epoch, names_epoch=names_epoch)
        return partition

    def _diverging(
        self, partition: Partition, request: FetchRequest.FetchPartition
    ) -> FetchResponse.EpochEndOffset | None:
        """Where the log of a reader that follows another history parts from ours."""
        if request.last_fetched_epoch < 0:
            return None
        epoch, end = partition.log.epochs.end_offset_for(
            request.last_fetched_epoch, partition.log.log_end_offset
        )
        if epoch < 0 or end < 0:
            raise OffsetOutOfRangeError(
                topic=partition.topic, partition=partition.index, broker=self._node.id
            )
        if request.fetch_offset < partition.log.log_start_offset:
            return None  # which is out of range, whatever the epoch
        if epoch < request.last_fetched_epoch or end < request.fetch_offset:
            return FetchResponse.EpochEndOffset(epoch=epoch, end_offset=end)
        return None

    def _preferred(self, partition: Partition, offset: int) -> int | None:
        node, rack = self._node, self._request.rack_id
        if not rack or rack == node.rack or not partition.is_leader:
            return None
        if node.configs.value("replica.selector.class") != RACK_AWARE:
            return None
        return preferred_replica(node.image, partition, rack, offset)


def _whole(found: Slice) -> Buffer:
    """The parts of a slice in one, in pooled memory where it is large: new pages cost more than the copy."""
    if found.size < _WORTH_POOLING:
        return b"".join(found.parts)
    whole = memoryview(Memory(found.size))
    position = 0
    for part in found.parts:
        end = position + len(part)
        whole[position:end] = part
        position = end
    return whole


def _epoch(request: FetchRequest.FetchPartition) -> int:
    """Fetch is the one request in which any epoch below zero says nothing."""
    return max(request.current_leader_epoch, NO_EPOCH)


def _replica_of(request: FetchRequest, version: int) -> tuple[int, int]:
    """The broker that fetches in order to replicate, and its epoch; -1 for a consumer."""
    if version < _REPLICA_STATE_SINCE:
        return request.replica_id, NO_EPOCH
    state = request.replica_state
    return (-1, NO_EPOCH) if state is None else (state.replica_id, state.replica_epoch)


def _refused(index: int, error: BrokerError) -> FetchResponse.PartitionData:
    # Null for a partition whose log has refused; Kafka is as particular.
    unknown = isinstance(error, UnknownTopicIdError | UnknownTopicOrPartitionError)
    return FetchResponse.PartitionData(
        partition_index=index,
        error_code=error.code,
        high_watermark=-1,
        aborted_transactions=[] if unknown else None,
        records=b"",
    )
