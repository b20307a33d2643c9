"""DescribeAcls, CreateAcls and DeleteAcls: the cluster has no authorizer, and says so.

Everyone may do everything, so there is nothing to describe, create or delete: SECURITY_DISABLED, for the whole
request or for each rule of it. The three share a file, because that is all they have to say. As in Kafka a rule whose
type of resource, pattern, operation or permission is 0, which stands for "unknown", is no request at all: the
connection is closed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from ottla.broker.server.registry import handles
from ottla.errors import SecurityDisabledError
from ottla.wire.messages import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

_log = logging.getLogger("ottla.broker.handlers.acls")

_UNKNOWN: Final = 0
_DISABLED: Final = SecurityDisabledError("No Authorizer is configured.")


@handles(DescribeAclsRequest, versions=range(1, 4))
def describe_acls(node: NodeContext, request: DescribeAclsRequest, call: Call) -> DescribeAclsResponse | None:
    types = (request.resource_type_filter, request.pattern_type_filter, request.permission_type)
    if _UNKNOWN in (*types, request.operation):
        _close(node, call)
        return None
    raise SecurityDisabledError("No Authorizer is configured on the broker")


@handles(CreateAclsRequest, versions=range(1, 4))
def create_acls(node: NodeContext, request: CreateAclsRequest, call: Call) -> CreateAclsResponse | None:
    for rule in request.creations:
        types = (rule.resource_type, rule.resource_pattern_type, rule.permission_type)
        if _UNKNOWN in (*types, rule.operation):
            _close(node, call)
            return None
    refused = CreateAclsResponse.AclCreationResult(error_code=_DISABLED.code, error_message=_DISABLED.message)
    return CreateAclsResponse(results=[refused] * len(request.creations))


@handles(DeleteAclsRequest, versions=range(1, 4))
def delete_acls(node: NodeContext, request: DeleteAclsRequest, call: Call) -> DeleteAclsResponse | None:
    for rule in request.filters:
        types = (rule.resource_type_filter, rule.pattern_type_filter, rule.permission_type)
        if _UNKNOWN in (*types, rule.operation):
            _close(node, call)
            return None
    refused = DeleteAclsResponse.DeleteAclsFilterResult(
        error_code=_DISABLED.code, error_message=_DISABLED.message
    )
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))


def _close(node: NodeContext, call: Call) -> None:
    _log.warning(
        "node %s: closing %s: %s with a type of 0, which stands for unknown",
        *(node.id, call.peer, call.handler.api.name),
    )
    call.connection.abort()
