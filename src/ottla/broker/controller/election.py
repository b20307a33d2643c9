"""How one partition changes: who leads it, who is in sync, where its replicas are.

Every change of a partition goes through `change`, as every one of KRaft's goes through its partition change
builder, so that the rules about leaders and epochs hold for all of them. Eligible leader replicas (KIP-966) are
not kept: a partition whose last in-sync replica is gone has no leader until that replica is back.

Invariant: after a change the leader is an acceptable member of the ISR, or there is none; the ISR is never empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from ottla.broker.metadata.image import PartitionImage
from ottla.broker.metadata.records import NO_LEADER, PartitionChange
from ottla.wire import Uuid

Replicas: TypeAlias = tuple[int, ...]
Acceptable: TypeAlias = Callable[[int], bool]
"""Whether a broker may lead, as far as the broker goes."""


class Election(Enum):
    """Whom to prefer, when a partition changes."""

    ONLINE = "the current leader, or else the first in-sync replica"
    PREFERRED = "the first replica, then as ONLINE"
    UNCLEAN = "as ONLINE, or else any replica, at the price of records"


@dataclass(frozen=True, slots=True)
class Target:
    """What a partition should become; the leader follows from it."""

    replicas: Replicas
    isr: Replicas
    adding: Replicas
    removing: Replicas
    recovering: bool

    @classmethod
    def of(
        cls,
        partition: PartitionImage,
        *,
        replicas: Iterable[int] | None = None,
        isr: Iterable[int] | None = None,
        adding: Iterable[int] | None = None,
        removing: Iterable[int] | None = None,
        recovering: bool | None = None,
    ) -> Target:
        """The partition as it is, but for what is named."""
        return cls(
            replicas=partition.replicas if replicas is None else tuple(replicas),
            isr=partition.isr if isr is None else tuple(isr),
            adding=partition.adding if adding is None else tuple(adding),
            removing=partition.removing if removing is None else tuple(removing),
            recovering=partition.recovering if recovering is None else recovering,
        )


def change(
    topic_id: Uuid,
    index: int,
    partition: PartitionImage,
    target: Target,
    acceptable: Acceptable,
    election: Election = Election.ONLINE,
    *,
    shared_volume: bool = False,
) -> PartitionChange | None:
    """The record that brings a partition to its target; None if it is there already."""
    leader = partition.leader
    if shared_volume:
        leader, _ = _elect(leader, target, acceptable, election)
        target = rejoin_in_sync(target, leader, acceptable)
    target = _complete_reassignment(target)
    leader, unclean = _elect(leader, target, acceptable, election)
    isr = (leader,) if unclean else target.isr or partition.isr
    recovering = target.recovering or unclean
    removed = [replica for replica in partition.replicas if replica not in target.replicas]
    made = PartitionChange(
        topic_id,
        index,
        isr=_if_changed(isr, partition.isr),
        # A replica that leaves must be fenced from the log, so the same leader gets a new epoch.
        leader=leader if leader != partition.leader or removed else None,
        replicas=_if_changed(target.replicas, partition.replicas),
        adding=_if_changed(target.adding, partition.adding),
        removing=_if_changed(target.removing, partition.removing),
        recovering=None if recovering == partition.recovering else recovering,
    )
    return None if made == PartitionChange(topic_id, index) else made


def rejoin_in_sync(target: Target, leader: int, acceptable: Acceptable) -> Target:
    """The target with every acceptable replica in sync, for replicas that share one volume.

    As with followers that catch up, there has to be a leader first.
    """
    if leader == NO_LEADER:
        return target
    isr = target.isr if leader in target.isr else (leader,)
    caught_up = tuple(replica for replica in target.replicas if replica not in isr and acceptable(replica))
    return Target(target.replicas, isr + caught_up, target.adding, target.removing, recovering=False)


def _complete_reassignment(target: Target) -> Target:
    """A reassignment is over as soon as all replicas that stay are in sync."""
    if not target.adding and not target.removing:
        return target
    replicas = tuple(replica for replica in target.replicas if replica not in target.removing)
    isr = tuple(replica for replica in target.isr if replica not in target.removing)
    if not isr or any(replica not in isr for replica in replicas):
        return target
    return Target(replicas, isr, (), (), target.recovering)


def _elect(current: int, target: Target, acceptable: Acceptable, election: Election) -> tuple[int, bool]:
    """The leader, and whether it was elected at the price of records."""
    candidates = [current, *target.replicas]
    if election is Election.PREFERRED:
        candidates.insert(0, target.replicas[0])
    for replica in candidates:
        if replica in target.isr and acceptable(replica):
            return replica, False
    if election is Election.UNCLEAN:
        for replica in target.replicas:
            if acceptable(replica):
                return replica, True
    return NO_LEADER, False


def _if_changed(new: Replicas, old: Replicas) -> Replicas | None:
    return None if new == old else new
