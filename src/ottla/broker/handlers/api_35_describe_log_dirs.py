"""DescribeLogDirs: the replicas in the log directory of a node, with their sizes and how far they lag (KIP-113).

Any node serves it, about itself alone: leaders and followers alike. Null stands for all partitions; those that the
node does not have are left out, as is a topic of which nothing is left. The lag of a replica is what its log lacks
up to the high watermark that it knows of. A directory in memory has no size and no free space to report (KIP-827),
and is never cordoned (KIP-1066).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.log.log_dir import log_dir
from ottla.broker.server.registry import handles
from ottla.errors import BrokerError
from ottla.wire.messages import DescribeLogDirsRequest, DescribeLogDirsResponse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.replication.partition import Partition, PartitionKey
    from ottla.broker.server.call import Call

DescribedDir = DescribeLogDirsResponse.DescribeLogDirsResult
DescribedTopic = DescribeLogDirsResponse.DescribeLogDirsTopic
DescribedReplica = DescribeLogDirsResponse.DescribeLogDirsPartition


@handles(DescribeLogDirsRequest, versions=range(1, 6))
def describe_log_dirs(
    node: NodeContext, request: DescribeLogDirsRequest, call: Call
) -> DescribeLogDirsResponse:
    described = DescribedDir(log_dir=log_dir(node.id))
    try:
        described.topics = _topics(node, call, _wanted(node, request))
    except BrokerError as error:
        # The response has an error for a whole directory, and none for a partition.
        described.error_code = error.code
    return DescribeLogDirsResponse(results=[described])


def _wanted(node: NodeContext, request: DescribeLogDirsRequest) -> Iterable[PartitionKey]:
    """Each once, whether or not there is such a partition."""
    if request.topics is None:
        return list(node.replicas.partitions)
    return dict.fromkeys((topic.topic, index) for topic in request.topics for index in topic.partitions)


def _topics(node: NodeContext, call: Call, wanted: Iterable[PartitionKey]) -> list[DescribedTopic]:
    topics: dict[str, list[DescribedReplica]] = {}
    for key in wanted:
        call.check(*key)
        partition = node.replicas.partitions.get(key)
        if partition is not None:
            topics.setdefault(partition.topic, []).append(_described(partition))
    return [DescribedTopic(name=name, partitions=replicas) for name, replicas in topics.items()]


def _described(partition: Partition) -> DescribedReplica:
    log = partition.log
    return DescribedReplica(
        partition_index=partition.index,
        partition_size=log.size,
        offset_lag=max(partition.high_watermark - log.log_end_offset, 0),
    )
