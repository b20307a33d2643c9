"""DescribeLogDirs: the replicas in the log directories of a node, with their sizes and how far they lag (KIP-113).

Any node serves it, about itself alone: leaders and followers alike. Null stands for all partitions; those that the
node does not have are left out, as is a topic of which nothing is left. The lag of a replica is what its log lacks
up to the high watermark that it knows of; a replica on the move is in both directories, in the new one as the future
key, with what it lacks of the other. A directory on a disk has its size and its free space to report (KIP-827),
one in memory has none; none is ever cordoned (KIP-1066).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.server.registry import handles
from ottla.errors import BrokerError, KafkaStorageError, UnknownServerError
from ottla.wire.messages import DescribeLogDirsRequest, DescribeLogDirsResponse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.log.log import Log
    from ottla.broker.log.log_dir import LogDirectory
    from ottla.broker.replication.partition import Partition, PartitionKey
    from ottla.broker.server.call import Call

DescribedDir = DescribeLogDirsResponse.DescribeLogDirsResult
DescribedTopic = DescribeLogDirsResponse.DescribeLogDirsTopic
DescribedReplica = DescribeLogDirsResponse.DescribeLogDirsPartition


@handles(DescribeLogDirsRequest, versions=range(1, 6))
def describe_log_dirs(
    node: NodeContext, request: DescribeLogDirsRequest, call: Call
) -> DescribeLogDirsResponse:
    wanted = _wanted(node, request)
    return DescribeLogDirsResponse(
        results=[_described_dir(node, call, directory, wanted) for directory in node.replicas.directories]
    )


def _wanted(node: NodeContext, request: DescribeLogDirsRequest) -> Iterable[PartitionKey]:
    """Each once, whether or not there is such a partition."""
    if request.topics is None:
        return list(node.replicas.partitions)
    return dict.fromkeys((topic.topic, index) for topic in request.topics for index in topic.partitions)


def _described_dir(
    node: NodeContext, call: Call, directory: LogDirectory, wanted: Iterable[PartitionKey]
) -> DescribedDir:
    described = DescribedDir(log_dir=directory.path)
    if directory.failure is not None:
        described.error_code = KafkaStorageError.code
        return described
    try:
        topics, space = _topics(node, call, directory, wanted), directory.fs.space()
    except BrokerError as error:
        # The response has an error for a whole directory, and none for a partition.
        described.error_code = error.code
        return described
    except OSError:
        # As in Kafka, for which this is no failure of the directory.
        described.error_code = UnknownServerError.code
        return described
    described.topics = topics
    if space is not None:
        described.total_bytes, described.usable_bytes = space.total, space.usable
    return described


def _topics(
    node: NodeContext, call: Call, directory: LogDirectory, wanted: Iterable[PartitionKey]
) -> list[DescribedTopic]:
    topics: dict[str, list[DescribedReplica]] = {}
    for key in wanted:
        call.check(*key)
        partition = node.replicas.partitions.get(key)
        if partition is not None:
            for log in filter(None, (partition.log, partition.future)):
                if directory.logs.get(log.directory) is log:
                    topics.setdefault(partition.topic, []).append(_described(partition, log))
    return [DescribedTopic(name=name, partitions=replicas) for name, replicas in topics.items()]


def _described(partition: Partition, log: Log) -> DescribedReplica:
    is_future = log is partition.future
    end = log.log_end_offset
    return DescribedReplica(
        partition_index=partition.index,
        partition_size=log.size,
        offset_lag=partition.log.log_end_offset - end
        if is_future
        else max(partition.high_watermark - end, 0),
        is_future_key=is_future,
    )
