"""Produce: append a producer's batches to the partitions that this node leads.

One batch per partition, of magic 2, checked as Kafka checks it (log/validation.py), and in its order: what is
damaged or transactional in any partition, then whether there is such a partition, then the form of its batch, then
acks, of which there are 0, 1 and all. acks=all waits until every batch is on all replicas in sync, or `timeout_ms`
have passed; what was appended stays in any case. acks=0 gets no response, and a refusal closes its connection, which
is all that such a producer can notice. Versions 0 to 2 are advertised but not served, like Apache Kafka 4:
librdkafka takes their absence for a broker without compression. Topic ids since version 13; leader hints since
version 10 (KIP-951).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla._native.record_batch import Batch, whole_batch
from ottla.broker.coordinator.internal_topics import is_internal
from ottla.broker.log.validation import (
    RecordsRefused,
    UnreadableBatchError,
    batch_size,
    only_batch,
)
from ottla.broker.replication.partition import ACKS_ALL, Partition, PartitionKey
from ottla.broker.replication.routing import LeaderHints
from ottla.broker.server.registry import handles
from ottla.errors import (
    BrokerError,
    CorruptMessageError,
    InvalidRequiredAcksError,
    InvalidTopicError,
    InvalidTxnStateError,
    MessageTooLargeError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RecordListTooLargeError,
    RequestTimedOutError,
    TransactionalIdAuthorizationFailedError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from ottla.wire import Uuid
from ottla.wire.batch_header import ATTRIBUTES_LOW_AT, MAGIC, MAGIC_AT, TRANSACTIONAL
from ottla.wire.messages import ProduceRequest, ProduceResponse
from ottla.wire.primitives import Buffer

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.replication.delayed import DelayedRequest
    from ottla.broker.server.call import Call

_HINTS_SINCE: Final = 10
_TOPIC_IDS_SINCE: Final = 13
_VALID_ACKS: Final = (-1, 0, 1)
# What is refused before the log is looked at, or by those parts of it that do not know where it begins.
_WITHOUT_LOG_START: Final = (
    CorruptMessageError,
    InvalidRequiredAcksError,
    InvalidTopicError,
    MessageTooLargeError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RecordListTooLargeError,
)


class DamagedBatchError(CorruptMessageError):
    """Not even the frame of a batch is right; the response says how."""


ProducedPartition = ProduceResponse.PartitionProduceResponse
SentPartition = tuple[ProduceRequest.TopicProduceData, ProduceRequest.PartitionProduceData, Batch | None]
NamedPartition = tuple[str, Uuid, int]
"""A partition as the request names it; one that is named twice has one result."""


def _refuse(request: ProduceRequest, error: BrokerError) -> ProduceResponse | None:
    if request.acks == 0:
        return None
    return _response(
        {
            (topic.name, topic.topic_id, data.index): _refused(data.index, error)
            for topic in request.topic_data
            for data in topic.partition_data
        }
    )


@handles(ProduceRequest, versions=range(3, 14), advertised=range(14), refuse=_refuse)
def produce(
    node: NodeContext, request: ProduceRequest, call: Call
) -> ProduceResponse | DelayedRequest[ProduceResponse] | None:
    version = call.version
    taken: dict[NamedPartition, tuple[str, Batch]] = {}
    refused: dict[NamedPartition, ProducedPartition] = {}
    for topic, data, sent in _with_first_batches(request):
        named = (topic.name, topic.topic_id, data.index)
        try:
            name = topic.name if version < _TOPIC_IDS_SINCE else node.topic_name(topic.topic_id)
            if name is None:
                raise UnknownTopicIdError(broker=node.id)
            call.check(name, data.index)
            if node.image.partition(name, data.index) is None:
                raise UnknownTopicOrPartitionError(topic=name, partition=data.index, broker=node.id)
            taken[named] = (name, only_batch(data.records or b"", version, sent))
        except UnreadableBatchError:
            # Where Kafka fails inside, it fails the whole request.
            raise
        except BrokerError as error:
            refused[named] = _refused(data.index, error)
    hints = LeaderHints(node.image, ProduceResponse)
    results: dict[NamedPartition, ProducedPartition] = {}
    waiting: dict[PartitionKey, _Replicating] = {}
    for named, (name, batch) in taken.items():
        results[named] = _append(node, call, name, named[2], batch, request.acks, hints, waiting)
    if refused:
        # Of two batches for one partition the last good one is appended, and a bad one is what the producer gets to
        # know.
        results.update(refused)
    if request.acks == 0:
        if any(result.error_code for result in results.values()):
            call.connection.close()
        return None
    if waiting:
        return _until_replicated(node, call, results, waiting, hints)
    return _response(results, hints)


class _Replicating:
    """A batch that is appended and has to be on every replica in sync before its producer learns of it."""

    def __init__(self, partition: Partition, end_offset: int, result: ProducedPartition) -> None:
        self.partition = partition
        self.end_offset = end_offset
        self.result = result
        self._leading_since = partition.leading_since

    @property
    def is_over(self) -> bool:
        return self._has_lost_leader or self.partition.has_committed(self.end_offset)

    @property
    def _has_lost_leader(self) -> bool:
        return not self.partition.is_leader or self.partition.leading_since != self._leading_since

    def error(self) -> BrokerError | None:
        partition = self.partition
        if self._has_lost_leader:
            return NotLeaderOrFollowerError(topic=partition.topic, partition=partition.index)
        if not partition.has_committed(self.end_offset):
            return RequestTimedOutError(topic=partition.topic, partition=partition.index)
        if len(partition.maximal_isr) < partition.effective_min_isr:
            return NotEnoughReplicasAfterAppendError(topic=partition.topic, partition=partition.index)
        return None


def _until_replicated(
    node: NodeContext,
    call: Call,
    results: dict[NamedPartition, ProducedPartition],
    waiting: dict[PartitionKey, _Replicating],
    hints: LeaderHints,
) -> DelayedRequest[ProduceResponse]:
    def complete() -> ProduceResponse:
        for (topic, index), replicating in waiting.items():
            error = replicating.error()
            if error is not None:
                # The offset stays beside the error, as in Kafka: it tells a producer that the batch was appended.
                result = replicating.result
                result.error_code = error.code
                if call.version >= _HINTS_SINCE:
                    hints.add(result, topic, index, error)
        return _response(results, hints)

    request = call.request
    assert isinstance(request, ProduceRequest)
    return node.replicas.produces.park(
        waiting,
        timeout=max(0, request.timeout_ms) / 1000,
        has_come=lambda key: waiting[key].is_over,
        complete=complete,
    )


def _response(
    results: dict[NamedPartition, ProducedPartition], hints: LeaderHints | None = None
) -> ProduceResponse:
    topics: dict[tuple[str, Uuid], ProduceResponse.TopicProduceResponse] = {}
    for (name, topic_id, _), result in results.items():
        topics.setdefault(
            (name, topic_id), ProduceResponse.TopicProduceResponse(name=name, topic_id=topic_id)
        ).partition_responses.append(result)
    return ProduceResponse(
        responses=list(topics.values()), node_endpoints=[] if hints is None else hints.endpoints()
    )


def _with_first_batches(request: ProduceRequest) -> list[SentPartition]:
    """What is sent for each partition; its batch is None where the records are not exactly one.

    Kafka looks for transactions first, in all partitions: what it finds to be damaged fails the whole request. A
    transactional batch belongs to a transactional id; there are no transactions here yet.
    """
    sent: list[SentPartition] = []
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records or b""
            batch = whole_batch(records)
            if batch.is_transactional if batch is not None else _is_transactional(records):
                if request.transactional_id is None:
                    raise TransactionalIdAuthorizationFailedError
                raise InvalidTxnStateError("this cluster serves no transactions yet")
            sent.append((topic, data, batch))
    return sent


def _is_transactional(records: Buffer) -> bool:
    """Whether the first of several batches is, if any is whole."""
    try:
        size = batch_size(records)
    except CorruptMessageError as error:
        raise DamagedBatchError(error.message) from None
    return (
        size is not None and records[MAGIC_AT] == MAGIC and bool(records[ATTRIBUTES_LOW_AT] & TRANSACTIONAL)
    )


def _append(
    node: NodeContext,
    call: Call,
    topic: str,
    index: int,
    batch: Batch,
    acks: int,
    hints: LeaderHints,
    waiting: dict[PartitionKey, _Replicating],
) -> ProducedPartition:
    try:
        if acks not in _VALID_ACKS:
            raise InvalidRequiredAcksError(topic=topic, partition=index, broker=node.id)
        if is_internal(topic):
            raise InvalidTopicError(f"Cannot append to internal topic {topic}")
        partition = node.replicas.hosted(topic, index)
        appended = node.replicas.append(partition, batch, acks, node.now_ms())
    except BrokerError as error:
        result = _refused(index, error)
        if not isinstance(error, _WITHOUT_LOG_START):
            result.log_start_offset = node.replicas.hosted(topic, index).log.log_start_offset
        if call.version >= _HINTS_SINCE:
            hints.add(result, topic, index, error)
        return result
    result = ProducedPartition(
        index=index,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.append_time_ms,
        log_start_offset=appended.log_start_offset,
    )
    if acks == ACKS_ALL and not partition.has_committed(appended.last_offset + 1):
        waiting[partition.key] = _Replicating(partition, appended.last_offset + 1, result)
    return result


def _refused(index: int, error: BrokerError) -> ProducedPartition:
    result = ProducedPartition(index=index, error_code=error.code, base_offset=-1)
    if isinstance(error, RecordsRefused | DamagedBatchError):
        result.error_message = error.message
    if isinstance(error, RecordsRefused):
        result.record_errors = [
            ProduceResponse.BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=message)
            for number, message in error.record_errors
        ]
    return result
