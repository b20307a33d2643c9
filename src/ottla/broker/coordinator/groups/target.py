"""The target of a KIP-848 group: which partitions each of its members is to have.

The coordinator computes it, with the assignor that most members ask for. Topics come in as the cluster has them now;
what a member is subscribed to and does not exist has no partitions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from ottla.assignors.registry import TARGET_ASSIGNORS
from ottla.assignors.target import TargetMember
from ottla.broker.coordinator.groups.consumer_member import NO_TARGET, ConsumerMember, Target, topics_of
from ottla.wire import Uuid

if TYPE_CHECKING:
    from ottla.broker.metadata.image import MetadataImage

_HASH_BYTES: Final = 8


def compute_target(
    assignor: str,
    members: Collection[ConsumerMember],
    subscriptions: Mapping[str, frozenset[str]],
    previous: Mapping[str, Target],
    image: MetadataImage,
) -> dict[str, Target]:
    """The new target of every member; `subscriptions` and `previous` are by member id."""
    topics: dict[Uuid, int] = {}
    ids: dict[str, Uuid] = {}
    for name in sorted(frozenset().union(*subscriptions.values())):
        topic = image.topics.get(name)
        if topic is not None:
            topics[topic.id] = len(topic.partitions)
            ids[name] = topic.id
    assigned = TARGET_ASSIGNORS[assignor](
        [
            TargetMember(
                member_id=member.id,
                topics=[ids[name] for name in sorted(subscriptions[member.id]) if name in ids],
                instance_id=member.instance_id,
                target=topics_of(previous.get(member.id, NO_TARGET)),
            )
            for member in members
        ],
        topics,
    )
    return {
        member_id: frozenset((topic, index) for topic, indexes in mine.items() for index in indexes)
        for member_id, mine in assigned.items()
    }


def metadata_hash(image: MetadataImage, topics: Iterable[str]) -> int:
    """A number that changes with what a target depends on: the topics that exist, their partitions and racks.

    It is kept with the group's epoch. 0 stands for no topic at all. Kafka's own numbers are others, and no client
    sees them.
    """
    digest = hashlib.blake2b(digest_size=_HASH_BYTES)
    found = False
    for name in sorted(topics):
        topic = image.topics.get(name)
        if topic is None:
            continue
        found = True
        racks = [
            sorted(
                {
                    broker.rack or ""
                    for id_ in topic.partitions[index].replicas
                    if (broker := image.brokers.get(id_))
                }
            )
            for index in sorted(topic.partitions)
        ]
        digest.update(repr((name, bytes(topic.id), racks)).encode())
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0
