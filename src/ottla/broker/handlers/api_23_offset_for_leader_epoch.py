"""OffsetForLeaderEpoch: where an epoch of a leader ended, by which readers notice that a log was cut (KIP-320).

Only the leader serves it: with the largest epoch that is not above the one in the request, and the offset at which
the next one began. An epoch that this log has never seen is -1 and -1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.server.registry import handles
from ottla.errors import BrokerError
from ottla.wire.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

EpochQuery = OffsetForLeaderEpochRequest.OffsetForLeaderPartition
LeaderEpochEnd = OffsetForLeaderEpochResponse.EpochEndOffset


def _refuse(request: OffsetForLeaderEpochRequest, error: BrokerError) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    LeaderEpochEnd(partition=query.partition, error_code=error.code)
                    for query in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@handles(OffsetForLeaderEpochRequest, versions=range(2, 5), refuse=_refuse)
def offset_for_leader_epoch(
    node: NodeContext, request: OffsetForLeaderEpochRequest, call: Call
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_end(node, call, topic.topic, query) for query in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _end(node: NodeContext, call: Call, topic: str, query: EpochQuery) -> LeaderEpochEnd:
    end = LeaderEpochEnd(partition=query.partition)
    try:
        call.check(topic, query.partition)
        log = node.replicas.led(topic, query.partition, query.current_leader_epoch).log
        end.leader_epoch, end.end_offset = log.epochs.end_offset_for(query.leader_epoch, log.log_end_offset)
    except BrokerError as error:
        end.error_code = error.code
    return end
