"""Log directories: where the replicas of a broker lie, so that the controller knows what a lost one takes (KIP-858).

A broker with one directory says nothing of it: with that it loses everything. What a lost directory leads to is in
brokers.py, where the heartbeat that brings it is.
"""

from __future__ import annotations

from ottla.broker.controller import elections
from ottla.broker.controller.decision import Context, Decision
from ottla.broker.metadata.records import AssignReplicaRecord, MetadataRecord
from ottla.errors import (
    BrokerError,
    NotLeaderOrFollowerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from ottla.wire import Uuid
from ottla.wire.messages import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

_NONE = 0


def assign(context: Context, request: AssignReplicasToDirsRequest) -> Decision[AssignReplicasToDirsResponse]:
    """Notes where replicas lie; those in a directory that has failed meanwhile are led by others.

    A replica whose move has ended with the failure of the new directory lies in the old one again, and may have lost
    its leadership for a moment.
    """
    broker_id = request.broker_id
    try:
        context.check_broker_epoch(broker_id, request.broker_epoch)
    except BrokerError as error:
        return Decision([], AssignReplicasToDirsResponse(error_code=error.code))
    records: list[MetadataRecord] = []
    lost: list[tuple[Uuid, int]] = []
    found: list[tuple[Uuid, int]] = []
    response = AssignReplicasToDirsResponse()
    for directory in request.directories:
        described = AssignReplicasToDirsResponse.DirectoryData(id=directory.id)
        response.directories.append(described)
        for topic in directory.topics:
            results = AssignReplicasToDirsResponse.TopicData(topic_id=topic.topic_id)
            described.topics.append(results)
            for partition in topic.partitions:
                index, code = partition.partition_index, _NONE
                try:
                    _check_replica(context, topic.topic_id, index, broker_id)
                except BrokerError as error:
                    code = error.code
                else:
                    records.append(AssignReplicaRecord(topic.topic_id, index, broker_id, directory.id))
                    works = directory.id in context.image.brokers[broker_id].log_dirs
                    (found if works else lost).append((topic.topic_id, index))
                results.partitions.append(
                    AssignReplicasToDirsResponse.PartitionData(partition_index=index, error_code=code)
                )
    if lost:
        records.extend(elections.departure(context, broker_id, only=lost))
    if found:
        records.extend(elections.found(context, broker_id, found))
    return Decision(records, response)


def _check_replica(context: Context, topic_id: Uuid, index: int, broker_id: int) -> None:
    topic = context.image.topics_by_id.get(topic_id)
    if topic is None:
        raise UnknownTopicIdError
    partition = topic.partitions.get(index)
    if partition is None:
        raise UnknownTopicOrPartitionError
    if broker_id not in partition.replicas:
        raise NotLeaderOrFollowerError
