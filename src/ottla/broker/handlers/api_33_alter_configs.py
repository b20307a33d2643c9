"""AlterConfigs: replace all configs of some resources. The old way, which forgets what it does not name.

The broker looks at the form of each resource and at configs of its own; the controller does the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.configs import preprocess
from ottla.broker.handlers import handles
from ottla.broker.refusals import refuse_alter_configs
from ottla.wire.messages import AlterConfigsRequest, AlterConfigsResponse

if TYPE_CHECKING:
    from ottla.broker.dispatch import Call
    from ottla.broker.node import Node


@handles(AlterConfigsRequest, versions=range(3), refuse=refuse_alter_configs)
async def alter_configs(node: Node, request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
    objections = preprocess(request.resources, node.config, node.loggers)
    good, answer = [], AlterConfigsResponse()
    for resource, error in zip(request.resources, objections, strict=True):
        if error is None:
            good.append(resource)
        else:
            answer.responses += refuse_alter_configs(
                AlterConfigsRequest(resources=[resource]), error
            ).responses
    if good:
        passed_on = AlterConfigsRequest(resources=good, validate_only=request.validate_only)
        forwarded = await node.link.forward(passed_on, call)
        assert isinstance(forwarded, AlterConfigsResponse)
        answer.responses += forwarded.responses
    return answer
