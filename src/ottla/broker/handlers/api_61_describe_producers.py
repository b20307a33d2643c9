"""DescribeProducers: what a partition's leader knows of the producers that have written to it (KIP-664).

Idempotent and transactional ones; a producer without an id leaves no trace. Only the leader answers. A partition
that a topic does not have is UNKNOWN_TOPIC_OR_PARTITION like the topic itself, but without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.handlers import handles
from ottla.broker.metadata.names import why_invalid
from ottla.broker.server.error_messages import sentence
from ottla.errors import BrokerError, InvalidTopicError, UnknownTopicOrPartitionError
from ottla.wire.messages import DescribeProducersRequest, DescribeProducersResponse

if TYPE_CHECKING:
    from ottla.broker.cluster.node import Node
    from ottla.broker.log.producers import ProducerStateEntry
    from ottla.broker.server.dispatch import Call

_NO_OFFSET: Final = -1
_UNKNOWN_TOPIC: Final = sentence(UnknownTopicOrPartitionError())

Answer = DescribeProducersResponse.PartitionResponse


def _refuse(request: DescribeProducersRequest, error: BrokerError) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            DescribeProducersResponse.TopicResponse(
                name=topic.name,
                partitions=[
                    Answer(partition_index=index, error_code=error.code) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


@handles(DescribeProducersRequest, versions=range(1), refuse=_refuse)
def describe_producers(
    node: Node, request: DescribeProducersRequest, call: Call
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            DescribeProducersResponse.TopicResponse(
                name=topic.name,
                partitions=[_answer(node, call, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _answer(node: Node, call: Call, topic: str, index: int) -> Answer:
    answer = Answer(partition_index=index)
    try:
        call.check(topic, index)
        if (reason := why_invalid(topic)) is not None:
            raise InvalidTopicError(reason)
        if topic not in node.image.topics:
            raise UnknownTopicOrPartitionError(_UNKNOWN_TOPIC)
        answer.active_producers = _producers(node, topic, index)
    except BrokerError as error:
        answer.error_code = error.code
        answer.error_message = error.message
    return answer


def _producers(node: Node, topic: str, index: int) -> list[DescribeProducersResponse.ProducerState]:
    return [_described(state) for state in node.led(topic, index).log.producers.active()]


def _described(state: ProducerStateEntry) -> DescribeProducersResponse.ProducerState:
    started = state.transaction_first_offset
    return DescribeProducersResponse.ProducerState(
        producer_id=state.producer_id,
        producer_epoch=state.epoch,
        last_sequence=state.last_sequence,
        last_timestamp=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch,
        current_txn_start_offset=_NO_OFFSET if started is None else started,
    )
