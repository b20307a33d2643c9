"""What administrators see of a KIP-848 group: ConsumerGroupDescribe."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.groups.consumer_member import ConsumerMember, TopicPartition, topics_of
from ottla.wire.messages import ConsumerGroupDescribeResponse

if TYPE_CHECKING:
    from ottla.broker.coordinator.groups.consumer_group import ConsumerGroup
    from ottla.broker.metadata.image import MetadataImage

DescribedGroup = ConsumerGroupDescribeResponse.DescribedGroup

_CLASSIC: Final = 0
_CONSUMER: Final = 1


def describe_group(group: ConsumerGroup, image: MetadataImage, default_assignor: str) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.assignor(default_assignor),
        members=[_member(group, member, image) for member in group.members.values()],
    )


def _member(
    group: ConsumerGroup, member: ConsumerMember, image: MetadataImage
) -> ConsumerGroupDescribeResponse.Member:
    return ConsumerGroupDescribeResponse.Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex or "",
        # What it still has to give up is in its hands.
        assignment=_assignment((*member.assigned, *member.pending), image),
        target_assignment=_assignment(group.target(member.id), image),
        member_type=_CONSUMER if member.classic is None else _CLASSIC,
    )


def _assignment(
    partitions: Iterable[TopicPartition], image: MetadataImage
) -> ConsumerGroupDescribeResponse.Assignment:
    """Without topics that are gone: they have no name."""
    return ConsumerGroupDescribeResponse.Assignment(
        topic_partitions=[
            ConsumerGroupDescribeResponse.TopicPartitions(
                topic_id=topic, topic_name=known.name, partitions=indexes
            )
            for topic, indexes in topics_of(partitions).items()
            if (known := image.topics_by_id.get(topic)) is not None
        ]
    )
