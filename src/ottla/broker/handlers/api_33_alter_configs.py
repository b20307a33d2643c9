"""AlterConfigs: replace all configs of some resources. The old way, which forgets what it does not name.

The broker looks at the form of each resource and at configs of its own; the controller does the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from ottla.broker.configs import preprocess
from ottla.broker.server.refusals import refuse_alter_configs
from ottla.broker.server.registry import handles
from ottla.wire.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

_Result = TypeVar(
    "_Result",
    AlterConfigsResponse.AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse.AlterConfigsResourceResponse,
)


@handles(AlterConfigsRequest, versions=range(3), refuse=refuse_alter_configs)
async def alter_configs(node: NodeContext, request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
    objections = preprocess(request.resources, node.configs.broker, node.configs.loggers)
    response, good = AlterConfigsResponse(), []
    for resource, error in zip(request.resources, objections, strict=True):
        result = AlterConfigsResponse.AlterConfigsResourceResponse(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
        )
        response.responses.append(result)
        if error is None:
            good.append(resource)
        else:
            result.error_code, result.error_message = error.code, error.message
    if good:
        passed_on = AlterConfigsRequest(resources=good, validate_only=request.validate_only)
        forwarded = await node.controller.forward(passed_on, call)
        assert isinstance(forwarded, AlterConfigsResponse)
        fill_in(response.responses, forwarded.responses)
    return response


def fill_in(results: Sequence[_Result], of_controller: Iterable[_Result]) -> None:
    """Fills the controller's results in where they belong: results come in the order of the request."""
    said = {(each.resource_type, each.resource_name): each for each in of_controller}
    for result in results:
        found = said.get((result.resource_type, result.resource_name))
        if found is not None:
            result.error_code, result.error_message = found.error_code, found.error_message
