"""Members of the classic protocol in a KIP-848 group, while it moves from one protocol to the other.

They go on with JoinGroup, SyncGroup, Heartbeat and LeaveGroup, and the coordinator assigns for them as for others.
A join takes a member one step towards its target, at once: nobody leads, and what its subscription says that it owns
is what it acknowledges. A sync gives what the member has. A heartbeat says REBALANCE_IN_PROGRESS as long as there is
another step to take. Member epochs pass for generations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ottla.assignors.protocol import decode_subscription
from ottla.broker.coordinator.groups.advance import Change, advance
from ottla.broker.coordinator.groups.classic_members import UNKNOWN_MEMBER_ID, protocols_of, refused_join
from ottla.broker.coordinator.groups.consumer_group import PROTOCOL_TYPE, ConsumerGroup
from ottla.broker.coordinator.groups.consumer_groups import JOIN, SYNC, ConsumerGroups
from ottla.broker.coordinator.groups.consumer_member import (
    JOINING,
    ClassicMetadata,
    ConsumerMember,
    MemberState,
    OfferedProtocol,
)
from ottla.broker.coordinator.groups.heartbeat import check_instance, check_room, replace_member
from ottla.broker.coordinator.groups.migration import (
    assignment_bytes,
    becomes_classic,
    by_id,
    to_classic,
)
from ottla.broker.coordinator.shard import CoordinatorRecord, Result
from ottla.errors import (
    BrokerError,
    DecodeError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    MemberIdRequiredError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from ottla.wire.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

if TYPE_CHECKING:
    from ottla.broker.coordinator.groups.classic import Sender

_MEMBER_ID_REQUIRED_SINCE: Final = 4
_UNKNOWN: Final = -1


# Joining


def join(
    groups: ConsumerGroups, group: ConsumerGroup, request: JoinGroupRequest, sender: Sender
) -> Result[JoinGroupResponse]:
    """`group` has members."""
    member_id = request.member_id or groups.new_id()
    if not groups.configs.allows_classic_members:
        raise InconsistentGroupProtocolError
    check_room(groups, group, member_id)
    _check_protocols(group, request, member_id)
    is_new = request.member_id == UNKNOWN_MEMBER_ID
    if is_new and request.group_instance_id is None and sender.version >= _MEMBER_ID_REQUIRED_SINCE:
        return Result([], refused_join(member_id, MemberIdRequiredError))
    records: list[CoordinatorRecord] = []
    predecessor = _known(group, request)
    old = predecessor or ConsumerMember(member_id)
    if old.id != member_id:
        old = replace_member(group, old, member_id, records)
    new, owned = _joined(old, request, sender)
    replaces = predecessor.id if predecessor is not None and predecessor.id != member_id else None
    member = advance(
        group,
        Change(old, new, replaces),
        by_id(owned, groups.image),
        image=groups.image,
        configs=groups.configs,
        now_ms=groups.context.now_ms(),
        records=records,
    )
    response = JoinGroupResponse(
        generation_id=member.epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=request.protocols[0].name,
        leader="",
        member_id=member.id,
    )
    if request.group_instance_id is not None and predecessor is not None:
        others = [each for each in group.members.values() if each.id != predecessor.id]
        if becomes_classic([predecessor], [*others, member], groups.configs):
            targets = {**group.targets, member.id: group.target(predecessor.id)}
            classic = to_classic(group, [*others, member], groups.image, groups.rules, targets=targets)
            rebalance = member.topics != predecessor.topics
            if rebalance:
                response.generation_id = (
                    JOINING  # none that it could sync in: it has to join again, as in Kafka
                )
            return groups.downgrade(group, classic, response, rebalance=rebalance)
    groups.cancel(JOIN, group.group_id, member.id)
    groups.renew_session(group.group_id, member)
    groups.await_sync(group.group_id, member)
    return Result(records, response)


def _check_protocols(group: ConsumerGroup, request: JoinGroupRequest, member_id: str) -> None:
    """One of the member's assignors must be one that all classic members have: they may be a classic group again."""
    common: set[str] | None = None
    for member in group.classic_members():
        assert member.classic is not None
        names = {protocol.name for protocol in member.classic.protocols}
        common = names if common is None else common & names
    named = {protocol.name for protocol in request.protocols}
    if request.protocol_type != PROTOCOL_TYPE or not (named if common is None else named & common):
        raise InconsistentGroupProtocolError(f"Member {member_id}'s protocols are not supported.")


def _known(group: ConsumerGroup, request: JoinGroupRequest) -> ConsumerMember | None:
    """The member that joins, or that it takes the place of."""
    if request.group_instance_id is None:
        return group.members.get(request.member_id)
    known = group.static_member(request.group_instance_id)
    if request.member_id != UNKNOWN_MEMBER_ID:
        check_instance(known, request.member_id, request.group_instance_id)
    return known


def _joined(
    old: ConsumerMember, request: JoinGroupRequest, sender: Sender
) -> tuple[ConsumerMember, tuple[tuple[str, int], ...]]:
    """The member as it joins, and what it says that it owns."""
    protocols = protocols_of(request)
    try:
        subscription = decode_subscription(protocols[0][1], old.id)
    except DecodeError as error:
        raise InconsistentGroupProtocolError(str(error)) from None
    new = replace(
        old,
        instance_id=request.group_instance_id or old.instance_id,
        rack=subscription.rack or old.rack,
        rebalance_timeout_ms=(
            request.session_timeout_ms
            if request.rebalance_timeout_ms == _UNKNOWN
            else request.rebalance_timeout_ms
        ),
        topics=frozenset(subscription.topics),
        regex=None,
        client_id=sender.client_id,
        client_host=sender.client_host,
        classic=ClassicMetadata(
            request.session_timeout_ms,
            tuple(OfferedProtocol(name, bytes(metadata)) for name, metadata in protocols),
        ),
    )
    return new, subscription.owned


# Members that have joined


def sync(
    groups: ConsumerGroups, group: ConsumerGroup, request: SyncGroupRequest
) -> Result[SyncGroupResponse]:
    member = _member(group, request.member_id, request.group_instance_id, request.generation_id)
    assert member.classic is not None
    first = member.classic.protocols[0]
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, first.name):
        raise InconsistentGroupProtocolError
    if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED:
        # One that has something to give up has to learn of it first; its next heartbeat makes it join again.
        groups.await_join(group.group_id, member)
        raise RebalanceInProgressError
    groups.cancel(SYNC, group.group_id, member.id)
    groups.renew_session(group.group_id, member)
    return Result(
        [],
        SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=assignment_bytes(member.assigned, groups.image, first.metadata),
        ),
    )


def heartbeat(
    groups: ConsumerGroups, group: ConsumerGroup, request: HeartbeatRequest
) -> Result[HeartbeatResponse]:
    member = _member(group, request.member_id, request.group_instance_id, request.generation_id)
    groups.renew_session(group.group_id, member)
    if not _has_a_step_to_take(group, member):
        return Result([], HeartbeatResponse())
    groups.await_join(group.group_id, member)
    return Result([], HeartbeatResponse(error_code=RebalanceInProgressError.code))


def _has_a_step_to_take(group: ConsumerGroup, member: ConsumerMember) -> bool:
    if member.epoch < group.epoch or member.state is MemberState.UNREVOKED:
        return True
    return member.state is MemberState.UNRELEASED and not any(
        group.is_owned(partition) for partition in group.target(member.id) if partition not in member.assigned
    )


def _member(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
    if instance_id is not None:
        check_instance(group.static_member(instance_id), member_id, instance_id)
    member = group.member(member_id)
    if member.classic is None:
        raise UnknownMemberIdError(f"Member {member_id} does not use the classic protocol.")
    if generation != member.epoch:
        raise IllegalGenerationError
    return member


# Leaving


def leave(
    groups: ConsumerGroups, group: ConsumerGroup, request: LeaveGroupRequest
) -> Result[LeaveGroupResponse]:
    """Several at once, of either protocol, with one change of the group for all."""
    response = LeaveGroupResponse()
    gone: dict[str, ConsumerMember] = {}
    for identity in request.members:
        answer = LeaveGroupResponse.MemberResponse(
            member_id=identity.member_id, group_instance_id=identity.group_instance_id
        )
        response.members.append(answer)
        try:
            member = _leaving(group, identity.member_id, identity.group_instance_id)
        except BrokerError as error:
            answer.error_code = error.code
        else:
            answer.member_id = member.id
            gone[member.id] = member
    return groups.fence(group, gone.values(), response)


def _leaving(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    if instance_id is None:
        return group.member(member_id)
    known = group.static_member(instance_id)
    # An administrator removes an instance without knowing the id of its member.
    if known is not None and member_id == UNKNOWN_MEMBER_ID:
        return known
    check_instance(known, member_id, instance_id)
    return group.member(member_id)
