"""Produce: append a producer's batches to the partitions that this node leads.

One batch per partition, of magic 2, checked as Kafka checks it (log/validation.py), and in its order: what is
damaged in any partition, or transactional without a transactional id, then whether there is such a partition, then
the form of its batch, then what the coordinator says of the first data of a transaction (KIP-890: it is asked whether
the partition is part of it, and since version 12 told so), then acks, of which there are 0, 1 and all. acks=all waits
until every batch is on all replicas in sync, or `timeout_ms` have passed; what was appended stays in any case. acks=0
gets no response, and a refusal closes its connection, which is all that such a producer can notice. Versions 0 to 2
are advertised but not served, like Apache Kafka 4: librdkafka takes their absence for a broker without compression.
Topic ids since version 13; leader hints since version 10 (KIP-951); TRANSACTION_ABORTABLE since version 11.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from ottla._native.record_batch import Batch, whole_batch
from ottla.broker.coordinator.internal_topics import is_internal
from ottla.broker.coordinator.partition_adds import Admission, ProducerSupport, TransactionalProducer
from ottla.broker.log.validation import (
    RecordsRefused,
    UnreadableBatchError,
    batch_size,
    only_batch,
)
from ottla.broker.replication.acknowledged import AwaitedAppend
from ottla.broker.replication.partition import ACKS_ALL, PartitionKey
from ottla.broker.replication.routing import LeaderHints
from ottla.broker.server.registry import handles
from ottla.errors import (
    BrokerError,
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    CorruptMessageError,
    InvalidProducerIdMappingError,
    InvalidRequiredAcksError,
    InvalidTopicError,
    InvalidTxnStateError,
    MessageTooLargeError,
    NetworkError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RecordListTooLargeError,
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
    from ottla.broker.log.guards import Guard
    from ottla.broker.replication.delayed import DelayedRequest
    from ottla.broker.replication.partition import Partition
    from ottla.broker.server.call import Call

_HINTS_SINCE: Final = 10
_TOPIC_IDS_SINCE: Final = 13
_ABORTABLE_SINCE: Final = 11
_ADDED_BY_LEADER_SINCE: Final = 12
_VALID_ACKS: Final = (-1, 0, 1)
_ADMIN_CLIENT: Final = "__admin_client"
"""The one client id that may write to Kafka's own topics: that of a tool which repairs them."""
# What older producers, to which a coordinator said it, do not try again; the error that they get makes them.
_UNEXPECTED: Final = (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NetworkError,
    NotCoordinatorError,
)
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


class DeniedAdmissionError(NotEnoughReplicasError):
    """The coordinator cannot say whether the data is part of a transaction; the producer tries again."""


class SeveralProducersError(InvalidProducerIdMappingError):
    """The transactional data of a request has one producer."""


class NotAddedError(InvalidTxnStateError):
    """The partition is not part of the producer's transaction."""


_EXPLAINED: Final = (
    RecordsRefused,
    DamagedBatchError,
    DeniedAdmissionError,
    NotAddedError,
    SeveralProducersError,
)

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
) -> ProduceResponse | DelayedRequest[ProduceResponse] | Coroutine[Any, Any, ProduceResponse | None] | None:
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
    transactional = _transactional(request, version, taken)
    if transactional is None:
        return _append_all(node, call, request, taken, refused, None)
    producer, partitions = transactional
    admission = node.partition_adds.begin(producer, partitions)
    if not admission.must_ask:
        return _append_all(node, call, request, taken, refused, admission)

    async def append_admitted() -> ProduceResponse | None:
        admitted = await node.partition_adds.ask(producer, partitions, admission, patient=True)
        response = _append_all(node, call, request, taken, refused, admitted)
        if response is None or isinstance(response, ProduceResponse):
            return response
        return await response

    return append_admitted()


def _transactional(
    request: ProduceRequest, version: int, taken: dict[NamedPartition, tuple[str, Batch]]
) -> tuple[TransactionalProducer, dict[PartitionKey, int]] | None:
    """Who writes in a transaction, and where, with the first sequences; None if there is no such data."""
    if request.transactional_id is None:
        return None
    partitions: dict[PartitionKey, int] = {}
    producers: dict[tuple[int, int], None] = {}
    for (_, _, index), (name, batch) in taken.items():
        if batch.is_transactional and batch.has_producer_id:
            partitions[name, index] = batch.base_sequence
            producers[batch.producer_id, batch.producer_epoch] = None
    if not producers:
        return None
    if len(producers) > 1:
        raise SeveralProducersError("Transactional records contained more than one producer ID")
    support = ProducerSupport.OLD_ERRORS
    if version >= _ADDED_BY_LEADER_SINCE:
        support = ProducerSupport.ADDED_BY_LEADER
    elif version >= _ABORTABLE_SINCE:
        support = ProducerSupport.ABORTABLE
    ((producer_id, epoch),) = producers
    return TransactionalProducer(request.transactional_id, producer_id, epoch, support), partitions


def _append_all(
    node: NodeContext,
    call: Call,
    request: ProduceRequest,
    taken: dict[NamedPartition, tuple[str, Batch]],
    refused: dict[NamedPartition, ProducedPartition],
    admission: Admission | None,
) -> ProduceResponse | DelayedRequest[ProduceResponse] | None:
    hints = LeaderHints(node.image, ProduceResponse)
    results: dict[NamedPartition, ProducedPartition] = {}
    waiting: dict[PartitionKey, _Replicating] = {}
    for named, (name, batch) in taken.items():
        guard = None
        if admission is not None:
            guard = admission.guards.get((name, named[2]))
            denied = admission.errors.get((name, named[2]))
            if denied is not None:
                results[named] = _denied(named[2], denied, name, call, hints)
                continue
        results[named] = _append(node, call, name, named[2], batch, request.acks, hints, waiting, guard)
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


def _denied(index: int, error: BrokerError, topic: str, call: Call, hints: LeaderHints) -> ProducedPartition:
    """What a producer gets to know of an error that its coordinator, or the partition before it, has."""
    unsupported = isinstance(error, ConcurrentTransactionsError) and call.version < _ADDED_BY_LEADER_SINCE
    if unsupported or isinstance(error, _UNEXPECTED):
        error = DeniedAdmissionError(
            "Unable to verify the partition has been added to the transaction. Underlying error: "
            f"{error.name}"
        )
    elif isinstance(error, InvalidTxnStateError):
        error = NotAddedError("Partition was not added to the transaction")
    result = _refused(index, error)
    if call.version >= _HINTS_SINCE:
        hints.add(result, topic, index, error)
    return result


class _Replicating(AwaitedAppend):
    """A batch that is appended, and what its producer will learn of it."""

    def __init__(self, partition: Partition, end_offset: int, result: ProducedPartition) -> None:
        super().__init__(partition, end_offset)
        self.result = result


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

    Kafka looks for transactions first, in all partitions: what it finds to be damaged fails the whole request, and so
    does a transactional batch without a transactional id.
    """
    sent: list[SentPartition] = []
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records or b""
            batch = whole_batch(records)
            is_transactional = batch.is_transactional if batch is not None else _is_transactional(records)
            if is_transactional and request.transactional_id is None:
                raise TransactionalIdAuthorizationFailedError
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
    guard: Guard | None,
) -> ProducedPartition:
    try:
        if acks not in _VALID_ACKS:
            raise InvalidRequiredAcksError(topic=topic, partition=index, broker=node.id)
        if is_internal(topic) and call.client_id != _ADMIN_CLIENT:
            raise InvalidTopicError(f"Cannot append to internal topic {topic}")
        partition = node.replicas.hosted(topic, index)
        appended = node.replicas.append(partition, batch, acks, node.now_ms(), guard=guard)
    except BrokerError as error:
        result = _refused(index, error)
        replica = node.replicas.partitions.get((topic, index))
        if replica is not None and not isinstance(error, _WITHOUT_LOG_START):
            result.log_start_offset = replica.log.log_start_offset
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
    if isinstance(error, _EXPLAINED):
        result.error_message = error.message
    if isinstance(error, RecordsRefused):
        result.record_errors = [
            ProduceResponse.BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=message)
            for number, message in error.record_errors
        ]
    return result
