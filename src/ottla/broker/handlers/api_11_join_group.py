"""JoinGroup: a member enters a classic group, or a rebalance of it, and is parked until that has its members.

Only the group's coordinator serves it. Checked in Kafka's order: the group's id, the session timeout, then what the
group says (coordinator/groups/classic.py). Since version 4 a dynamic member first gets an id, with
MEMBER_ID_REQUIRED; static members since 5, SkipAssignment since 9 (KIP-814). Version 0 has no rebalance timeout: its
session timeout is both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.groups.classic import Sender
from ottla.broker.coordinator.groups.classic_members import refused_join
from ottla.broker.server.registry import handles
from ottla.errors import BrokerError, InvalidGroupIdError, InvalidSessionTimeoutError
from ottla.wire.messages import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

_NO_PROTOCOL_SINCE: Final = 7
"""Older versions have no null for the protocol."""


def _refuse(request: JoinGroupRequest, error: BrokerError) -> JoinGroupResponse:
    response = refused_join("", error)
    response.protocol_name = ""
    return response


@handles(JoinGroupRequest, versions=range(10), refuse=_refuse)
async def join_group(node: NodeContext, request: JoinGroupRequest, call: Call) -> JoinGroupResponse:
    response = await _joined(node, request, call)
    if response.protocol_name is None and call.version < _NO_PROTOCOL_SINCE:
        response.protocol_name = ""
    return response


async def _joined(node: NodeContext, request: JoinGroupRequest, call: Call) -> JoinGroupResponse:
    if not request.group_id:
        return refused_join(request.member_id, InvalidGroupIdError)
    low, high = (
        node.configs.value("group.min.session.timeout.ms"),
        node.configs.value("group.max.session.timeout.ms"),
    )
    if not low <= request.session_timeout_ms <= high:
        return refused_join(request.member_id, InvalidSessionTimeoutError)
    sender = Sender(call.client_id or "", client_host(call), call.version)
    try:
        return await node.groups.write(request.group_id, lambda shard: shard.join(request, sender))
    except BrokerError as error:
        return refused_join("", error)


def client_host(call: Call) -> str:
    """The client's address in Java's spelling, which is what Kafka stores and shows."""
    return "/" + call.peer.rpartition(":")[0]
