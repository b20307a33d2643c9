"""DescribeCluster: the brokers of the cluster, and which of them to send to what is meant for the controller.

A broker knows brokers (endpoint type 1); a client that wants controllers (2) has come to the wrong one, which is
MISMATCHED_ENDPOINT_TYPE, and any other type is UNSUPPORTED_ENDPOINT_TYPE (KIP-919). Fenced brokers are listed only
where they are requested, since version 2 (KIP-1073).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.metadata.describe import controller_id
from ottla.broker.security.acl import CLUSTER_OPERATIONS
from ottla.broker.server.registry import handles
from ottla.errors import MismatchedEndpointTypeError, UnsupportedEndpointTypeError
from ottla.wire.messages import DescribeClusterRequest, DescribeClusterResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


@handles(DescribeClusterRequest, versions=range(3))
def describe_cluster(
    node: NodeContext, request: DescribeClusterRequest, call: Call
) -> DescribeClusterResponse:
    if request.endpoint_type == _CONTROLLERS:
        return DescribeClusterResponse(
            error_code=MismatchedEndpointTypeError.code,
            error_message="The request was sent to an endpoint of type BROKER, "
            "but we wanted an endpoint of type CONTROLLER",
        )
    if request.endpoint_type != _BROKERS:
        return DescribeClusterResponse(
            error_code=UnsupportedEndpointTypeError.code,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
        )
    response = DescribeClusterResponse(
        cluster_id=node.cluster_id,
        controller_id=controller_id(node.image),
        brokers=[
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=broker.id,
                host=broker.host,
                port=broker.port,
                rack=broker.rack,
                is_fenced=broker.fenced,
            )
            for _, broker in sorted(node.image.brokers.items())
            if broker.alive or request.include_fenced_brokers
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response
