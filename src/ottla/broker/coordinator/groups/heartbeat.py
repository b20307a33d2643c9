"""ConsumerGroupHeartbeat, as the coordinator of the group decides it: members that join, stay and leave (KIP-848).

A member that says epoch 0 joins, or joins again with nothing; -1 leaves, and -2 is a static member that leaves for a
while and keeps its partitions. Any other epoch is the member's own, or the one before it if the last response was
lost, which a member shows by owning no more than it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.groups.advance import Change, advance, replacement
from ottla.broker.coordinator.groups.classic import ClassicGroup
from ottla.broker.coordinator.groups.consumer_group import ConsumerGroup
from ottla.broker.coordinator.groups.consumer_groups import REBALANCE, ConsumerGroups
from ottla.broker.coordinator.groups.consumer_member import (
    JOINING,
    LEAVING,
    LEAVING_STATIC,
    ConsumerMember,
    MemberState,
    TopicPartition,
    topics_of,
)
from ottla.broker.coordinator.groups.consumer_records import (
    assignment_record,
    member_tombstones,
    subscription_record,
    target_record,
)
from ottla.broker.coordinator.groups.migration import check_upgrade, to_consumer, upgrade_records
from ottla.broker.coordinator.groups.regex import compile_regex
from ottla.broker.coordinator.groups.regex_refresh import refresh_regexes
from ottla.broker.coordinator.shard import CoordinatorRecord, Result
from ottla.errors import (
    BrokerError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    InvalidRequestError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
)
from ottla.wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from ottla.broker.coordinator.groups.classic import Sender

_UNCHANGED: Final = -1
_IDS_OF_CLIENTS_SINCE: Final = 1
"""From this version on members choose their own ids; before, the coordinator did."""


def heartbeat(
    groups: ConsumerGroups, request: ConsumerGroupHeartbeatRequest, sender: Sender
) -> Result[ConsumerGroupHeartbeatResponse]:
    """`request` has passed `check_request`."""
    if request.member_epoch in (LEAVING, LEAVING_STATIC):
        return _leave(groups, request)
    records: list[CoordinatorRecord] = []
    joins = request.member_epoch == JOINING
    group, written = _group(groups, request.group_id, joins, records)
    check_room(groups, group, request.member_id)
    change = _change(group, request, sender, request.member_id or groups.new_id(), records)
    if change.regex_changed and change.new.regex and not group.subscribers_of_regex(change.new.regex):
        compile_regex(change.new.regex)
    member = advance(
        group,
        change,
        _owned(request),
        image=groups.image,
        configs=groups.configs,
        now_ms=groups.context.now_ms(),
        records=records,
    )
    refresh_regexes(groups, group, change)
    _keep_timers(groups, group.group_id, change.new, member)
    groups.renew_session(group.group_id, member)
    response = ConsumerGroupHeartbeatResponse(
        member_id=member.id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=groups.configs.heartbeat_interval_ms(group.group_id),
    )
    if _is_full(request) or member.assigned.keys() != change.old.assigned.keys():
        response.assignment = ConsumerGroupHeartbeatResponse.Assignment(
            topic_partitions=[
                ConsumerGroupHeartbeatResponse.TopicPartitions(topic_id=topic, partitions=partitions)
                for topic, partitions in topics_of(member.assigned).items()
            ]
        )
    return Result(records, response, on_commit=written)


def _keep_timers(groups: ConsumerGroups, group_id: str, old: ConsumerMember, new: ConsumerMember) -> None:
    """A member of this protocol that has to give something up has its rebalance timeout for it."""
    if new is old or new.classic is not None:
        return
    if new.state is MemberState.UNREVOKED:
        groups.await_revocation(group_id, new)
    else:
        groups.cancel(REBALANCE, group_id, new.id)


def check_room(groups: ConsumerGroups, group: ConsumerGroup, member_id: str) -> None:
    most = groups.configs.max_size
    if len(group.members) >= most and member_id not in group.members:
        raise GroupMaxSizeReachedError(
            f"The consumer group has reached its maximum capacity of {most} members."
        )


# The request


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    """Raises INVALID_REQUEST and the like for what no group can make sense of, in Kafka's order."""
    for name, value in (
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        _check_not_empty(name, value)
    epoch = request.member_epoch
    if version >= _IDS_OF_CLIENTS_SINCE or epoch != JOINING:
        _check_not_empty("MemberId", request.member_id)
    if epoch == JOINING:
        _check_join(request)
    elif epoch == LEAVING_STATIC and request.instance_id is None:
        raise InvalidRequestError("InstanceId can't be null.")
    elif epoch < LEAVING_STATIC:
        raise InvalidRequestError("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise UnsupportedAssignorError(
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}."
        )


def _check_not_empty(name: str, value: str | None) -> None:
    if value is not None and not value.strip():
        raise InvalidRequestError(f"{name} can't be empty.")


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == _UNCHANGED:
        raise InvalidRequestError("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise InvalidRequestError("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise InvalidRequestError(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        )


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the member says everything: it joins, or does not know what became of its last heartbeat."""
    return request.member_epoch == JOINING or (
        request.rebalance_timeout_ms != _UNCHANGED
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


def _owned(request: ConsumerGroupHeartbeatRequest) -> set[TopicPartition] | None:
    if request.topic_partitions is None:
        return None
    return {(topic.topic_id, index) for topic in request.topic_partitions for index in topic.partitions}


# The group and the member


_Written = Callable[[BrokerError | None], object] | None
"""What is to be done when the records of an operation are committed, or cannot be."""


def _group(
    groups: ConsumerGroups, group_id: str, joins: bool, records: list[CoordinatorRecord]
) -> tuple[ConsumerGroup, _Written]:
    """The group of a heartbeat; a member that joins makes it, or makes a classic group one of this protocol."""
    known = groups.groups.get(group_id)
    if isinstance(known, ConsumerGroup):
        return known, None
    if known is None:
        if not joins:
            raise GroupIdNotFoundError(f"Consumer group {group_id} not found.")
        return ConsumerGroup(group_id, groups.image), None
    if not joins or not isinstance(known, ClassicGroup):
        raise GroupIdNotFoundError(f"Group {group_id} is not a consumer group.")
    if known.is_empty:
        records += known.tombstones()
        return ConsumerGroup(group_id, groups.image), None
    return _upgrade(groups, known, records)


def _upgrade(
    groups: ConsumerGroups, classic: ClassicGroup, records: list[CoordinatorRecord]
) -> tuple[ConsumerGroup, _Written]:
    check_upgrade(classic, groups.configs)
    upgraded = to_consumer(classic, groups.image)
    records += [*classic.tombstones(), *upgrade_records(upgraded)]
    # Members that wait in a join or a sync learn that they have to join again.
    classic.dispose(RebalanceInProgressError())

    def written(error: BrokerError | None) -> None:
        # Only now: the timers of both groups have the same names, and the classic one ends those of its members when
        # its tombstone is replayed.
        known = groups.groups.get(classic.group_id)
        if error is None and isinstance(known, ConsumerGroup):
            for member in known.classic_members():
                groups.renew_session(known.group_id, member)
        elif known is classic:
            classic.start()

    return upgraded, written


def _change(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    sender: Sender,
    member_id: str,
    records: list[CoordinatorRecord],
) -> Change:
    """The member of a heartbeat, before and after what it says about itself."""
    replaces = None
    if request.instance_id is None:
        old = _dynamic_member(group, request, member_id)
    else:
        old = _static_member(group, request, member_id, request.instance_id)
        if old.has_left or old.id != member_id:
            replaces = old.id
            old = replace_member(group, old, member_id, records)
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    new = replace(
        old,
        instance_id=request.instance_id or old.instance_id,
        rack=request.rack_id or old.rack,
        rebalance_timeout_ms=(
            old.rebalance_timeout_ms
            if request.rebalance_timeout_ms == _UNCHANGED
            else request.rebalance_timeout_ms
        ),
        assignor=request.server_assignor or old.assignor,
        topics=old.topics if names is None else frozenset(names),
        regex=old.regex if regex is None else regex or None,
        client_id=sender.client_id,
        client_host=sender.client_host,
        classic=None,
    )
    return Change(old, new, replaces)


def _dynamic_member(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str
) -> ConsumerMember:
    if request.member_epoch == JOINING:
        return group.members.get(member_id) or ConsumerMember(member_id)
    member = group.member(member_id)
    _check_epoch(member, request)
    return member


def _static_member(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str, instance_id: str
) -> ConsumerMember:
    known = group.static_member(instance_id)
    if request.member_epoch != JOINING:
        check_instance(known, member_id, instance_id)
        assert known is not None
        _check_epoch(known, request)
        return known
    if known is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if known.classic is None and not known.has_left:
        raise UnreleasedInstanceIdError(
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance "
            f"id is owned by {known.id} member."
        )
    return known


def check_instance(known: ConsumerMember | None, member_id: str, instance_id: str) -> None:
    """Raises the error of a request in the name of an instance that another member has, or none."""
    if known is None:
        raise UnknownMemberIdError(f"Instance id {instance_id} is unknown.")
    if known.id != member_id:
        raise FencedInstanceIdError(
            f"Static member {member_id} with instance id {instance_id} was fenced by member {known.id}."
        )


def _check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> None:
    epoch = request.member_epoch
    if epoch == member.epoch:
        return
    owned = _owned(request)
    is_one_behind = epoch == member.previous_epoch and epoch < member.epoch
    if is_one_behind and owned is not None and owned <= member.assigned.keys():
        return  # the response with its new epoch has not come to it
    than = "greater" if epoch > member.epoch else "smaller"
    raise FencedMemberEpochError(
        f"The consumer group member has a {than} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.epoch}). The member must abandon all its partitions and rejoin."
    )


def replace_member(
    group: ConsumerGroup, old: ConsumerMember, member_id: str, records: list[CoordinatorRecord]
) -> ConsumerMember:
    """A static member under another id, with what the old one had."""
    new = replacement(old, member_id)
    records += [
        *member_tombstones(group.group_id, old.id),
        subscription_record(group.group_id, new),
        target_record(group.group_id, new.id, group.target(old.id)),
        assignment_record(group.group_id, new),
    ]
    return new


# Leaving


def _leave(
    groups: ConsumerGroups, request: ConsumerGroupHeartbeatRequest
) -> Result[ConsumerGroupHeartbeatResponse]:
    group = groups.known(request.group_id)
    if request.instance_id is None:
        member = group.member(request.member_id)
    else:
        known = group.static_member(request.instance_id)
        check_instance(known, request.member_id, request.instance_id)
        assert known is not None
        member = known
    response = ConsumerGroupHeartbeatResponse(member_id=member.id, member_epoch=request.member_epoch)
    if request.member_epoch == LEAVING:
        return groups.fence(group, [member], response)
    # Its session goes on: if it is not back by the end of it, it is gone. What it was to give up, it has. The member
    # that takes its place may commit from the first of its own epochs on, as in Kafka.
    held = dict.fromkeys(member.assigned, JOINING)
    away = replace(member, epoch=LEAVING_STATIC, assigned=held, pending={})
    return Result([assignment_record(group.group_id, away)], response)
