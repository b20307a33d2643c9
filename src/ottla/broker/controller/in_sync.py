"""AlterPartition: a leader reports which replicas are in sync with it, and the controller makes it so, or refuses.

The leader has to know the partition as it is now, down to its epochs, and may only count in brokers that are
alive in the incarnation that the leader knows (KIP-841, KIP-903). No replica joins an ISR in any other way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.broker.controller.decision import Context, Decision
from ottla.broker.controller.elections import PartitionTarget, propose
from ottla.broker.metadata.image import PartitionImage, TopicImage
from ottla.broker.metadata.records import PartitionChangeRecord
from ottla.errors import (
    BrokerError,
    FencedLeaderEpochError,
    IneligibleReplicaError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    NewLeaderElectedError,
    NotControllerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from ottla.wire.messages import AlterPartitionRequest, AlterPartitionResponse

_EPOCHS_SINCE: Final = 3
_ANY_EPOCH: Final = -1


def alter_partition(
    context: Context, request: AlterPartitionRequest, version: int
) -> Decision[AlterPartitionResponse]:
    response = AlterPartitionResponse()
    records: list[PartitionChangeRecord] = []
    try:
        context.check_broker_epoch(request.broker_id, request.broker_epoch)
    except BrokerError as error:
        response.error_code = error.code
        return Decision(records, response)
    for data in request.topics:
        topic_data = AlterPartitionResponse.TopicData(topic_id=data.topic_id)
        response.topics.append(topic_data)
        for requested in data.partitions:
            try:
                topic, partition = _find(context, data, requested)
                members = _members(requested, version)
                _check(context, request.broker_id, partition, requested, members)
                made = _change(context, topic, requested, members)
                records += [] if made is None else [made]
                topic_data.partitions.append(_altered(request.broker_id, requested, partition, made))
            except BrokerError as error:
                refused = AlterPartitionResponse.PartitionData(
                    partition_index=requested.partition_index, error_code=error.code
                )
                topic_data.partitions.append(refused)
    return Decision(records, response)


def _find(
    context: Context, data: AlterPartitionRequest.TopicData, requested: AlterPartitionRequest.PartitionData
) -> tuple[TopicImage, PartitionImage]:
    topic = context.image.topics_by_id.get(data.topic_id)
    if topic is None:
        raise UnknownTopicIdError()
    partition = topic.partitions.get(requested.partition_index)
    if partition is None:
        raise UnknownTopicOrPartitionError()
    return topic, partition


def _members(
    requested: AlterPartitionRequest.PartitionData, version: int
) -> Sequence[AlterPartitionRequest.BrokerState]:
    if version >= _EPOCHS_SINCE:
        return requested.new_isr_with_epochs
    return [
        AlterPartitionRequest.BrokerState(broker_id=replica, broker_epoch=_ANY_EPOCH)
        for replica in requested.new_isr
    ]


def _check(
    context: Context,
    broker_id: int,
    partition: PartitionImage,
    requested: AlterPartitionRequest.PartitionData,
    members: Sequence[AlterPartitionRequest.BrokerState],
) -> None:
    if (
        requested.leader_epoch > partition.leader_epoch
        or requested.partition_epoch > partition.partition_epoch
    ):
        # The leader knows more than this controller, so there must be a newer one.
        raise NotControllerError()
    if requested.leader_epoch < partition.leader_epoch:
        raise FencedLeaderEpochError()
    if broker_id != partition.leader:
        raise InvalidRequestError()
    if requested.partition_epoch < partition.partition_epoch:
        raise InvalidUpdateVersionError()
    isr = [member.broker_id for member in members]
    if len(set(isr)) < len(isr) or not set(isr) <= set(partition.replicas) or partition.leader not in isr:
        raise InvalidRequestError()
    recovering = bool(requested.leader_recovery_state)
    if recovering and (len(isr) > 1 or not partition.recovering):
        raise InvalidRequestError()
    for member in members:
        _check_eligible(context, member)


def _check_eligible(context: Context, member: AlterPartitionRequest.BrokerState) -> None:
    broker = context.image.brokers.get(member.broker_id)
    if broker is None or not broker.active or member.broker_epoch not in (_ANY_EPOCH, broker.epoch):
        raise IneligibleReplicaError()


def _change(
    context: Context,
    topic: TopicImage,
    requested: AlterPartitionRequest.PartitionData,
    members: Sequence[AlterPartitionRequest.BrokerState],
) -> PartitionChangeRecord | None:
    partition = topic.partitions[requested.partition_index]
    target = PartitionTarget.of(
        partition,
        isr=[member.broker_id for member in members],
        recovering=bool(requested.leader_recovery_state),
    )
    return propose(context, topic, requested.partition_index, target)


def _altered(
    broker_id: int,
    requested: AlterPartitionRequest.PartitionData,
    partition: PartitionImage,
    made: PartitionChangeRecord | None,
) -> AlterPartitionResponse.PartitionData:
    after = partition if made is None else partition.merge(made)
    result = AlterPartitionResponse.PartitionData(partition_index=requested.partition_index)
    if after.leader != broker_id:
        # The change has completed a reassignment that takes the leader away; both the record and the error hold.
        result.error_code = NewLeaderElectedError.code
        return result
    result.leader_id = after.leader
    result.leader_epoch = after.leader_epoch
    result.isr = list(after.isr)
    result.leader_recovery_state = int(after.recovering)
    result.partition_epoch = after.partition_epoch
    return result
