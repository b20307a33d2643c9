"""DescribeConfigs: the configs of topics, of this broker and its loggers, of groups and of client metrics.

What there is to say about each is in configs/describe.py; a topic that is not there, and a broker that is not this
one, are errors of their own. One resource of a kind that nobody knows refuses the whole request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.configs import describe
from ottla.broker.handlers import handles
from ottla.broker.server.error_messages import sentence
from ottla.errors import BrokerError, InvalidRequestError
from ottla.wire.messages import DescribeConfigsRequest, DescribeConfigsResponse
from ottla.wire.resources import ConfigResourceType

if TYPE_CHECKING:
    from ottla.broker.cluster.node import Node
    from ottla.broker.configs import Overrides, TopicConfigs
    from ottla.broker.server.dispatch import Call

_KINDS: Final = tuple(ConfigResourceType)


def _refuse(request: DescribeConfigsRequest, error: BrokerError) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResponse.DescribeConfigsResult(
                error_code=error.code,
                error_message=sentence(error),
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


@handles(DescribeConfigsRequest, versions=range(1, 5), refuse=_refuse)
def describe_configs(node: Node, request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
    if any(resource.resource_type not in _KINDS for resource in request.resources):
        raise InvalidRequestError
    return DescribeConfigsResponse(results=describe(request, _Known(node)))


class _Known:
    """What a node knows of the resources that can be described."""

    def __init__(self, node: Node) -> None:
        self.config = node.config
        self.loggers = node.loggers
        self._node = node

    def topic_configs_or_none(self, topic: str) -> TopicConfigs | None:
        return self._node.topic_configs(topic) if topic in self._node.image.topics else None

    def config_overrides(self, resource_type: int, resource_name: str) -> Overrides:
        return self._node.image.config_overrides(resource_type, resource_name)
