"""What administrators ask about groups: list, describe, delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.groups.classic import ClassicGroup
from ottla.broker.coordinator.groups.classic_state import ClassicState
from ottla.broker.coordinator.groups.offsets import tombstone
from ottla.broker.coordinator.shard import CoordinatorRecord, Result
from ottla.errors import GroupIdNotFoundError
from ottla.wire.messages import DescribeGroupsResponse, ListGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.coordinator.groups.manager import GroupShard

_NOT_FOUND_SINCE: Final = 6

DescribedGroup = DescribeGroupsResponse.DescribedGroup


def listed(
    shard: GroupShard, states: Sequence[str], types: Sequence[str]
) -> list[ListGroupsResponse.ListedGroup]:
    """The groups in one of these states and of one of these types; no names are all. Case does not matter."""
    wanted_states = {state.strip().lower() for state in states}
    wanted_types = {type_.lower() for type_ in types}
    return [
        ListGroupsResponse.ListedGroup(
            group_id=group_id,
            protocol_type=group.protocol_type,
            group_state=group.state_name,
            group_type=group.type.value,
        )
        for group_id, group in shard.groups.items()
        if (not wanted_states or group.state_name.lower() in wanted_states)
        and (not wanted_types or group.type.value in wanted_types)
    ]


def described(shard: GroupShard, group_id: str, version: int) -> DescribedGroup:
    """A classic group; any other is not there, which older versions call Dead."""
    group = shard.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        if version < _NOT_FOUND_SINCE:
            return DescribedGroup(group_id=group_id, group_state="Dead")
        why = "not found" if group is None else "is not a classic group"
        return DescribedGroup(
            group_id=group_id,
            group_state="Dead",
            error_code=GroupIdNotFoundError.code,
            error_message=f"Group {group_id} {why}.",
        )
    is_stable = group.state is ClassicState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol or "") if is_stable else "",
        members=[
            DescribeGroupsResponse.DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol) if is_stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
    )


def delete(shard: GroupShard, group_id: str) -> Result[None]:
    """With all of its offsets, if it has no members."""
    group = shard.groups.get(group_id)
    if group is None:
        raise GroupIdNotFoundError
    group.validate_delete()
    records: list[CoordinatorRecord] = [tombstone(key) for key in shard.offsets.keys_of(group_id)]
    return Result([*records, *group.tombstones()], None, atomic=False)
