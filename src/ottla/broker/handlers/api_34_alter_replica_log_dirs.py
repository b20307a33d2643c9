"""AlterReplicaLogDirs: move replicas of a node between its log directories (KIP-113).

The response says that the moves have begun (replication/log_dir_moves.py); DescribeLogDirs shows how far they are. To
name the directory that a replica is in ends its move. A replica that the node does not have yet is made in the
directory when it comes, and is an error all the same: REPLICA_NOT_AVAILABLE for one of other nodes,
UNKNOWN_TOPIC_OR_PARTITION for one that is on none.

Any path that is none of the node's is LOG_DIR_NOT_FOUND, also one that only leads to the same place; only then comes
what is wrong with the partition. A directory that is offline is KAFKA_STORAGE_ERROR, and so is any move while one is.
A topic whose name has no room for that of a log on the move is INVALID_TOPIC_EXCEPTION before all of it. A partition
named twice goes to the path that comes last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.log.log_dir import can_move
from ottla.broker.server.registry import handles
from ottla.errors import (
    BrokerError,
    InvalidTopicError,
    LogDirNotFoundError,
    NotLeaderOrFollowerError,
    ReplicaNotAvailableError,
)
from ottla.wire.messages import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.replication.partition import PartitionKey
    from ottla.broker.server.call import Call

_NONE: Final = 0

TopicResult = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
PartitionResult = AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult


def _refuse(request: AlterReplicaLogDirsRequest, error: BrokerError) -> AlterReplicaLogDirsResponse:
    return _response(dict.fromkeys(_destinations(request), error.code))


@handles(AlterReplicaLogDirsRequest, versions=range(1, 3), refuse=_refuse)
def alter_replica_log_dirs(
    node: NodeContext, request: AlterReplicaLogDirsRequest, call: Call
) -> AlterReplicaLogDirsResponse:
    return _response({key: _moved(node, key, path) for key, path in _destinations(request).items()})


def _destinations(request: AlterReplicaLogDirsRequest) -> dict[PartitionKey, str]:
    return {
        (topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }


def _moved(node: NodeContext, key: PartitionKey, path: str) -> int:
    """The error code of one partition."""
    try:
        _move(node, key, path)
    except NotLeaderOrFollowerError:
        # What this API has said before Kafka had a better word for it.
        return ReplicaNotAvailableError.code
    except BrokerError as error:
        return error.code
    return _NONE


def _move(node: NodeContext, key: PartitionKey, path: str) -> None:
    topic, index = key
    if not can_move(topic, index):
        raise InvalidTopicError(topic=topic)
    for directory in node.replicas.directories:
        if directory.path == path:
            node.replicas.alter_log_dir(topic, index, directory)
            return
    raise LogDirNotFoundError(topic=topic, partition=index, broker=node.id)


def _response(codes: dict[PartitionKey, int]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, list[PartitionResult]] = {}
    for (topic, index), code in codes.items():
        topics.setdefault(topic, []).append(PartitionResult(partition_index=index, error_code=code))
    return AlterReplicaLogDirsResponse(
        results=[TopicResult(topic_name=name, partitions=results) for name, results in topics.items()]
    )
