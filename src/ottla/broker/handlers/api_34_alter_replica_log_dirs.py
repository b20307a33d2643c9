"""AlterReplicaLogDirs: move replicas of a node between its log directories (KIP-113).

A node has one directory: a replica is there already, and nothing happens, or the path is wrong. Any other path is
LOG_DIR_NOT_FOUND, also one that only leads to the same place; only then comes what is wrong with the partition. That
is REPLICA_NOT_AVAILABLE for one of other nodes, UNKNOWN_TOPIC_OR_PARTITION for one that is on none. A topic whose
name has no room for what Kafka calls a log on the move is INVALID_TOPIC_EXCEPTION before all of it. A partition
named twice goes to the path that comes last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.log.log_dir import log_dir
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

_LONGEST_NAME: Final = 255
"""Of a file, on most systems."""
_FUTURE_SUFFIX: Final = len(".0123456789abcdef0123456789abcdef-future")
"""Kafka copies a log into a directory with such a name, behind topic and partition."""

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
        _check(node, key, path)
    except NotLeaderOrFollowerError:
        # What this API has said before Kafka had a better word for it.
        return ReplicaNotAvailableError.code
    except BrokerError as error:
        return error.code
    return _NONE


def _check(node: NodeContext, key: PartitionKey, path: str) -> None:
    topic, index = key
    if len(f"{topic}-{index}") + _FUTURE_SUFFIX > _LONGEST_NAME:
        raise InvalidTopicError(topic=topic)
    if path != log_dir(node.id):
        raise LogDirNotFoundError(topic=topic, partition=index, broker=node.id)
    node.replicas.hosted(topic, index)


def _response(codes: dict[PartitionKey, int]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, list[PartitionResult]] = {}
    for (topic, index), code in codes.items():
        topics.setdefault(topic, []).append(PartitionResult(partition_index=index, error_code=code))
    return AlterReplicaLogDirsResponse(
        results=[TopicResult(topic_name=name, partitions=results) for name, results in topics.items()]
    )
