"""OffsetForLeaderEpoch: where an epoch of a leader ended, by which readers notice that a log was cut (KIP-320).

Only the leader answers: with the largest epoch that is not above the one asked for, and the offset at which the
next one began. An epoch that this log has never seen is -1 and -1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.handlers import handles
from ottla.errors import BrokerError
from ottla.wire.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

if TYPE_CHECKING:
    from ottla.broker.cluster.node import Node
    from ottla.broker.server.dispatch import Call

Wanted = OffsetForLeaderEpochRequest.OffsetForLeaderPartition
End = OffsetForLeaderEpochResponse.EpochEndOffset


def _refuse(request: OffsetForLeaderEpochRequest, error: BrokerError) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    End(partition=wanted.partition, error_code=error.code) for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@handles(OffsetForLeaderEpochRequest, versions=range(2, 5), refuse=_refuse)
def offset_for_leader_epoch(
    node: Node, request: OffsetForLeaderEpochRequest, call: Call
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_end(node, call, topic.topic, wanted) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _end(node: Node, call: Call, topic: str, wanted: Wanted) -> End:
    end = End(partition=wanted.partition)
    try:
        call.check(topic, wanted.partition)
        log = node.led(topic, wanted.partition, wanted.current_leader_epoch).log
        end.leader_epoch, end.end_offset = log.epochs.end_offset_for(wanted.leader_epoch, log.log_end_offset)
    except BrokerError as error:
        end.error_code = error.code
    return end
