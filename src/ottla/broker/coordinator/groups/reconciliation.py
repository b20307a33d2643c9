"""One step of a member of a KIP-848 group towards its target: taken with each of its heartbeats.

A partition goes from one member to another in this order: the first is told that it has to give it up, says that it
did, and only then the second gets it. So a member with something to give up stays where it is until it has
acknowledged that, and one whose target is in other hands gets the rest first.

A member acknowledges by the list of what it owns. Without a list nothing has changed, and it owns what it is to give
up: consumers that still commit the offsets of lost partitions send none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import replace

from ottla.broker.coordinator.groups.consumer_member import ConsumerMember, MemberState, TopicPartition

Owned = Collection[TopicPartition] | None
"""What a member says that it owns; None is no word on it."""


def reconcile(
    member: ConsumerMember,
    *,
    target_epoch: int,
    target: Set[TopicPartition],
    is_owned: Callable[[TopicPartition], bool],
    is_subscribed: Callable[[TopicPartition], bool],
    subscription_changed: bool,
    owned: Owned,
) -> ConsumerMember:
    """The member after this heartbeat; the same one if there is no step to take.

    `is_owned` says whether any member has a partition, to read or to give up. What the member's subscription no
    longer has (`is_subscribed`) it gives up at once, without waiting for a target that says so.
    """
    if member.is_reconciled_to(target_epoch):
        return _without_unsubscribed(member, is_subscribed, subscription_changed, owned)
    wanted = {partition for partition in target if is_subscribed(partition)}
    if member.state is MemberState.UNREVOKED and _keeps(owned, member.pending):
        return _without_unsubscribed(member, is_subscribed, subscription_changed, owned)
    return _next(member, target_epoch, wanted, is_owned, owned)


def _next(
    member: ConsumerMember,
    target_epoch: int,
    target: Set[TopicPartition],
    is_owned: Callable[[TopicPartition], bool],
    owned: Owned,
) -> ConsumerMember:
    kept = {partition: at for partition, at in member.assigned.items() if partition in target}
    revoked = {partition: at for partition, at in member.assigned.items() if partition not in target}
    if _keeps(owned, revoked):
        return member.moved(member.epoch, MemberState.UNREVOKED, kept, revoked)
    awaited = sorted(target - kept.keys())
    # What it has just given up is free, and its own again if the newest target says so.
    free = [partition for partition in awaited if partition in member.pending or not is_owned(partition)]
    state = MemberState.STABLE if len(free) == len(awaited) else MemberState.UNRELEASED
    return member.moved(target_epoch, state, kept | dict.fromkeys(free, target_epoch), {})


def _without_unsubscribed(
    member: ConsumerMember,
    is_subscribed: Callable[[TopicPartition], bool],
    subscription_changed: bool,
    owned: Owned,
) -> ConsumerMember:
    """The member without partitions of topics that it has just unsubscribed from."""
    if not subscription_changed:
        return member
    kept = {partition: at for partition, at in member.assigned.items() if is_subscribed(partition)}
    if len(kept) == len(member.assigned):
        return member
    dropped = {partition: at for partition, at in member.assigned.items() if partition not in kept}
    pending = dict(member.pending) | dropped
    if _keeps(owned, pending):
        return replace(member, state=MemberState.UNREVOKED, assigned=kept, pending=pending)
    return replace(member, assigned=kept)


def _keeps(owned: Owned, revoked: Mapping[TopicPartition, int]) -> bool:
    """Whether the member still owns some of what it is to give up."""
    if not revoked:
        return False
    return owned is None or any(partition in revoked for partition in owned)
