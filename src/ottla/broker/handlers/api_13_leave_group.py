"""LeaveGroup: members go at once, instead of when their sessions end.

Only the group's coordinator serves it. Several members since version 3, each with a result of its own (KIP-345): an
administrator removes static members by their instance ids alone. Older versions name one member and get one code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.server.registry import handles
from ottla.errors import InvalidGroupIdError, UnknownMemberIdError
from ottla.wire.messages import LeaveGroupRequest, LeaveGroupResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

_MANY_SINCE: Final = 3


@handles(LeaveGroupRequest, versions=range(6))
async def leave_group(node: NodeContext, request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse:
    if not request.group_id:
        raise InvalidGroupIdError
    if call.version < _MANY_SINCE:
        request.members = [LeaveGroupRequest.MemberIdentity(member_id=request.member_id)]
    try:
        response = await node.groups.write(request.group_id, lambda shard: shard.leave(request))
    except UnknownMemberIdError:
        response = _nobody(request)
    if call.version < _MANY_SINCE:
        (member,) = response.members
        return LeaveGroupResponse(error_code=member.error_code)
    return response


def _nobody(request: LeaveGroupRequest) -> LeaveGroupResponse:
    """There is no such group."""
    return LeaveGroupResponse(
        members=[
            LeaveGroupResponse.MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=UnknownMemberIdError.code,
            )
            for member in request.members
        ]
    )
