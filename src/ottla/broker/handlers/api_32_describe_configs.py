"""DescribeConfigs: the configs of topics, of this broker and its loggers, of groups and of client metrics.

What there is to say about each is in configs/describe.py; a topic that is not there, and a broker that is not this
one, are errors of their own. One resource of an unknown kind refuses the whole request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.configs import describe
from ottla.broker.server.refusals import error_message
from ottla.broker.server.registry import handles
from ottla.errors import BrokerError, InvalidRequestError
from ottla.wire.messages import DescribeConfigsRequest, DescribeConfigsResponse
from ottla.wire.resources import ConfigResourceType

if TYPE_CHECKING:
    from ottla.broker.configs import Overrides, TopicConfigs
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

_KINDS: Final = tuple(ConfigResourceType)


def _refuse(request: DescribeConfigsRequest, error: BrokerError) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResponse.DescribeConfigsResult(
                error_code=error.code,
                error_message=error_message(error),
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


@handles(DescribeConfigsRequest, versions=range(1, 5), refuse=_refuse)
def describe_configs(
    node: NodeContext, request: DescribeConfigsRequest, call: Call
) -> DescribeConfigsResponse:
    if any(resource.resource_type not in _KINDS for resource in request.resources):
        raise InvalidRequestError
    return DescribeConfigsResponse(results=describe(request, _Sources(node)))


class _Sources:
    """What a node knows of the resources that can be described."""

    def __init__(self, node: NodeContext) -> None:
        self.config = node.configs.broker
        self.loggers = node.configs.loggers
        self._configs = node.configs
        self._image = node.image

    def topic_configs_or_none(self, topic: str) -> TopicConfigs | None:
        return self._configs.topic(topic) if topic in self._image.topics else None

    def config_overrides(self, resource_type: int, resource_name: str) -> Overrides:
        return self._image.config_overrides(resource_type, resource_name)
