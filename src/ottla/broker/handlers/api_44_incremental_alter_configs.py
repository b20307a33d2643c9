"""IncrementalAlterConfigs (KIP-339): set, delete, append to and subtract from configs, one by one.

The broker looks at the form of each resource and at configs of its own; loggers, which only a broker has, it
changes itself; the controller does the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.configs import preprocess
from ottla.broker.handlers.api_33_alter_configs import fill_in
from ottla.broker.server.refusals import refuse_incremental_alter_configs
from ottla.broker.server.registry import handles
from ottla.wire.messages import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from ottla.wire.resources import ConfigResourceType

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call


@handles(IncrementalAlterConfigsRequest, versions=range(2), refuse=refuse_incremental_alter_configs)
async def incremental_alter_configs(
    node: NodeContext, request: IncrementalAlterConfigsRequest, call: Call
) -> IncrementalAlterConfigsResponse:
    objections = preprocess(request.resources, node.configs.broker, node.configs.loggers)
    response, good = IncrementalAlterConfigsResponse(), []
    for resource, error in zip(request.resources, objections, strict=True):
        result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
        )
        response.responses.append(result)
        if error is not None:
            result.error_code, result.error_message = error.code, error.message
        elif resource.resource_type != ConfigResourceType.BROKER_LOGGER:
            good.append(resource)
        elif not request.validate_only:
            node.configs.loggers.apply(resource)
    if good:
        passed_on = IncrementalAlterConfigsRequest(resources=good, validate_only=request.validate_only)
        forwarded = await node.controller.forward(passed_on, call)
        assert isinstance(forwarded, IncrementalAlterConfigsResponse)
        fill_in(response.responses, forwarded.responses)
    return response
