"""Which partitions change hands, and when: brokers that come and go, and the elections that nobody asked for.

The rules for one partition are in election.py; here is which partitions they are applied to.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.broker.controller import election
from ottla.broker.controller.decision import Context
from ottla.broker.controller.election import Acceptable, Election, Target
from ottla.broker.metadata.image import PartitionImage, TopicImage
from ottla.broker.metadata.records import PartitionChange


def propose(
    context: Context,
    topic: TopicImage,
    index: int,
    target: Target,
    *,
    acceptable: Acceptable | None = None,
    election_type: Election | None = None,
) -> PartitionChange | None:
    """The change of one partition, with the cluster's rules filled in."""
    if acceptable is None:
        acceptable = context.image.is_active
    if election_type is None:
        election_type = Election.UNCLEAN if allows_unclean(context, topic.name) else Election.ONLINE
    return election.change(
        topic.id,
        index,
        topic.partitions[index],
        target,
        acceptable,
        election_type,
        shared_volume=context.shared_volume,
    )


def allows_unclean(context: Context, topic: str) -> bool:
    return bool(context.topic_config(topic, "unclean.leader.election.enable"))


def departure(context: Context, *broker_ids: int) -> Iterator[PartitionChange]:
    """What happens when brokers stop leading: they leave every ISR, and others take over.

    Where no one else is in sync the last of `broker_ids` that was stays in the ISR, since its log is the newest.
    """

    def acceptable(replica: int) -> bool:
        return replica not in broker_ids and context.image.is_active(replica)

    for topic, index, partition in context.image.all_partitions():
        gone = [broker_id for broker_id in broker_ids if broker_id in partition.isr]
        if gone:
            staying = [replica for replica in partition.isr if replica not in gone]
            target = Target.of(partition, isr=staying or gone[-1:])
            made = propose(context, topic, index, target, acceptable=acceptable)
            if made is not None:
                yield made


def arrival(context: Context, broker_id: int) -> Iterator[PartitionChange]:
    """What happens when a broker may lead again: partitions without a leader get one."""

    def acceptable(replica: int) -> bool:
        # Its record is written in the same decision, so the image does not know yet that it is back.
        returns = replica == broker_id and not context.image.brokers[replica].in_controlled_shutdown
        return returns or context.image.is_active(replica)

    for topic, index, partition in context.image.all_partitions():
        returns = context.shared_volume and broker_id in partition.replicas
        if returns or not partition.has_leader:
            made = propose(context, topic, index, Target.of(partition), acceptable=acceptable)
            if made is not None:
                yield made


def preferred(context: Context) -> Iterator[PartitionChange]:
    """Leadership back to the first replicas, where they are in sync."""
    for topic, index, partition in context.image.all_partitions():
        if partition.leader != partition.preferred_leader:
            target = Target.of(partition)
            made = propose(context, topic, index, target, election_type=Election.PREFERRED)
            if made is not None:
                yield made


def unclean(context: Context) -> Iterator[PartitionChange]:
    """Leaders for partitions without one, where their topic allows to lose records for that."""
    for topic, index, partition in _leaderless(context):
        if allows_unclean(context, topic.name):
            made = propose(context, topic, index, Target.of(partition))
            if made is not None:
                yield made


def _leaderless(context: Context) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
    return (entry for entry in context.image.all_partitions() if not entry[2].has_leader)
