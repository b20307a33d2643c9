"""Produce: append a producer's batches to the partitions that this node leads.

One batch per partition, of magic 2, checked as Kafka checks it (log/validation.py). acks=0 gets no answer, and a
refusal closes its connection, which is all that such a producer can notice; any acks but 0, 1 and all is
INVALID_REQUIRED_ACKS. Versions 0 to 2 are advertised but not served, like Apache Kafka 4: librdkafka takes their
absence for a broker without compression. Topic ids since version 13; leader hints since version 10 (KIP-951).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.handlers import handles
from ottla.broker.internal_topics import is_internal
from ottla.broker.leader_hints import LeaderHints
from ottla.broker.log.validation import RecordsRefused, only_batch
from ottla.errors import (
    BrokerError,
    CorruptMessageError,
    InvalidRequiredAcksError,
    InvalidTopicError,
    InvalidTxnStateError,
    MessageTooLargeError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RecordListTooLargeError,
    TransactionalIdAuthorizationFailedError,
    UnknownTopicIdError,
)
from ottla.wire import Uuid
from ottla.wire.messages import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from ottla.broker.dispatch import Call
    from ottla.broker.node import Node

_HINTS_SINCE: Final = 10
_TOPIC_IDS_SINCE: Final = 13
_VALID_ACKS: Final = (-1, 0, 1)
_ATTRIBUTES_AT: Final = 22
"""The lower byte of a batch's attributes."""
_TRANSACTIONAL: Final = 0x10
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
    """Not even the frame of a batch is right; the producer is told how."""


PartitionResponse = ProduceResponse.PartitionProduceResponse


def _refuse(request: ProduceRequest, error: BrokerError) -> ProduceResponse | None:
    if request.acks == 0:
        return None
    return ProduceResponse(
        responses=[
            ProduceResponse.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_refused(data.index, error) for data in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


@handles(ProduceRequest, versions=range(3, 14), advertised=range(14), refuse=_refuse)
def produce(node: Node, request: ProduceRequest, call: Call) -> ProduceResponse | None:
    hints = LeaderHints(node, ProduceResponse)
    refused = False
    # A topic that is named twice is answered once.
    topics: dict[tuple[str, Uuid], ProduceResponse.TopicProduceResponse] = {}
    _check_transactions(request)
    for topic in request.topic_data:
        name = topic.name if call.version < _TOPIC_IDS_SINCE else node.topic_name(topic.topic_id)
        answers = topics.setdefault(
            (topic.name, topic.topic_id),
            ProduceResponse.TopicProduceResponse(name=topic.name, topic_id=topic.topic_id),
        ).partition_responses
        for data in topic.partition_data:
            try:
                answer = _append(node, call, name, data, request.acks)
            except BrokerError as error:
                answer = _refused(data.index, error)
                if name is not None and call.version >= _HINTS_SINCE:
                    hints.add(answer, name, data.index, error)
            refused = refused or answer.error_code != 0
            answers.append(answer)
    if request.acks == 0:
        if refused:
            call.connection.close()
        return None
    return ProduceResponse(responses=list(topics.values()), node_endpoints=hints.endpoints())


def _check_transactions(request: ProduceRequest) -> None:
    """A transactional batch belongs to a transactional id; there are no transactions here yet."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if (
                records is not None
                and len(records) > _ATTRIBUTES_AT
                and records[_ATTRIBUTES_AT] & _TRANSACTIONAL
            ):
                if request.transactional_id is None:
                    raise TransactionalIdAuthorizationFailedError
                raise InvalidTxnStateError("this cluster serves no transactions yet")


def _append(
    node: Node, call: Call, topic: str | None, data: ProduceRequest.PartitionProduceData, acks: int
) -> PartitionResponse:
    if topic is None:
        raise UnknownTopicIdError(broker=node.id)
    call.check(topic, data.index)
    if acks not in _VALID_ACKS:
        raise InvalidRequiredAcksError(topic=topic, partition=data.index, broker=node.id)
    if is_internal(topic):
        raise InvalidTopicError(f"Cannot append to internal topic {topic}")
    _check_form(data, call.version)
    partition = node.hosted(topic, data.index)
    min_in_sync = node.topic_configs(topic).value("min.insync.replicas")
    try:
        appended = partition.append(
            data.records or b"", acks, min_in_sync, node.now_ms(), version=call.version
        )
    except _WITHOUT_LOG_START:
        raise
    except BrokerError as error:
        answer = _refused(data.index, error)
        answer.log_start_offset = partition.log.log_start_offset
        return answer
    return PartitionResponse(
        index=data.index,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.append_time_ms,
        log_start_offset=appended.log_start_offset,
    )


def _check_form(data: ProduceRequest.PartitionProduceData, version: int) -> None:
    """What is wrong with a batch whatever its topic; Kafka looks at that before it asks for the partition."""
    try:
        only_batch(data.records or b"", version)
    except CorruptMessageError as error:
        raise DamagedBatchError(error.message) from None


def _refused(index: int, error: BrokerError) -> PartitionResponse:
    answer = PartitionResponse(index=index, error_code=error.code, base_offset=-1)
    if isinstance(error, RecordsRefused | DamagedBatchError):
        answer.error_message = error.message
    if isinstance(error, RecordsRefused):
        answer.record_errors = [
            ProduceResponse.BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=message)
            for number, message in error.record_errors
        ]
    return answer
