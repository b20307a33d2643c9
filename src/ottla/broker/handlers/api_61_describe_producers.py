"""DescribeProducers: what a replica knows of the producers that have written to its partition (KIP-664).

Idempotent and transactional ones; a producer without an id leaves no trace. Clients ask the leader, but any replica
answers. A partition that a topic does not have is UNKNOWN_TOPIC_OR_PARTITION like the topic itself, but without a
word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.metadata.names import why_invalid
from ottla.broker.server.refusals import error_message
from ottla.broker.server.registry import handles
from ottla.errors import BrokerError, InvalidTopicError, UnknownTopicOrPartitionError
from ottla.wire.messages import DescribeProducersRequest, DescribeProducersResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.log.producers import ProducerStateEntry
    from ottla.broker.server.call import Call

_NO_OFFSET: Final = -1
_UNKNOWN_TOPIC: Final = error_message(UnknownTopicOrPartitionError())

PartitionProducers = DescribeProducersResponse.PartitionResponse


def _refuse(request: DescribeProducersRequest, error: BrokerError) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            DescribeProducersResponse.TopicResponse(
                name=topic.name,
                partitions=[
                    PartitionProducers(partition_index=index, error_code=error.code)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


@handles(DescribeProducersRequest, versions=range(1), refuse=_refuse)
def describe_producers(
    node: NodeContext, request: DescribeProducersRequest, call: Call
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            DescribeProducersResponse.TopicResponse(
                name=topic.name,
                partitions=[
                    _described_partition(node, call, topic.name, index) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _described_partition(node: NodeContext, call: Call, topic: str, index: int) -> PartitionProducers:
    described = PartitionProducers(partition_index=index)
    try:
        call.check(topic, index)
        if (reason := why_invalid(topic)) is not None:
            raise InvalidTopicError(reason)
        if topic not in node.image.topics:
            raise UnknownTopicOrPartitionError(_UNKNOWN_TOPIC)
        described.active_producers = _producers(node, topic, index)
    except BrokerError as error:
        described.error_code = error.code
        described.error_message = error.message
    return described


def _producers(node: NodeContext, topic: str, index: int) -> list[DescribeProducersResponse.ProducerState]:
    return [_described(state) for state in node.replicas.hosted(topic, index).log.producers.active()]


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
