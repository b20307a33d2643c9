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
from ottla.broker.log.validation import RecordsRefused
from ottla.errors import (
    BrokerError,
    InvalidRequiredAcksError,
    InvalidTopicError,
    UnknownTopicIdError,
)
from ottla.wire.messages import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from ottla.broker.dispatch import Call
    from ottla.broker.node import Node

_HINTS_SINCE: Final = 10
_TOPIC_IDS_SINCE: Final = 13
_VALID_ACKS: Final = (-1, 0, 1)
PartitionResponse = ProduceResponse.PartitionProduceResponse


def _refuse(request: ProduceRequest, error: BrokerError) -> ProduceResponse:
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
    response = ProduceResponse()
    hints = LeaderHints(node, ProduceResponse)
    refused = False
    for topic in request.topic_data:
        name = topic.name if call.version < _TOPIC_IDS_SINCE else node.topic_name(topic.topic_id)
        answers = []
        for data in topic.partition_data:
            try:
                answer = _append(node, call, name, data, request.acks)
            except BrokerError as error:
                answer = _refused(data.index, error)
                refused = True
                if name is not None and call.version >= _HINTS_SINCE:
                    hints.add(answer, name, data.index, error)
            answers.append(answer)
        response.responses.append(
            ProduceResponse.TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=answers
            )
        )
    if request.acks == 0:
        if refused:
            call.connection.close()
        return None
    response.node_endpoints = hints.endpoints()
    return response


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
    partition = node.hosted(topic, data.index)
    min_in_sync = node.topic_configs(topic).value("min.insync.replicas")
    appended = partition.append(data.records or b"", acks, min_in_sync, node.now_ms())
    return PartitionResponse(
        index=data.index,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.append_time_ms,
        log_start_offset=appended.log_start_offset,
    )


def _refused(index: int, error: BrokerError) -> PartitionResponse:
    answer = PartitionResponse(index=index, error_code=error.code, base_offset=-1)
    if isinstance(error, RecordsRefused):
        answer.error_message = error.message
        answer.record_errors = [
            ProduceResponse.BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=message)
            for number, message in error.record_errors
        ]
    return answer
