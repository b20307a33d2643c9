"""AlterConfigs: results of the broker and of the controller come in the order of the request."""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker import Cluster
from ottla.wire.messages import AlterConfigsRequest, AlterConfigsResponse
from tests.broker.handlers.requests import send

UNKNOWN_TOPIC, INVALID_REQUEST = 3, 42
TOPIC, BROKER = 2, 4


def test_results_of_whole_changes_come_in_the_order_of_the_request(
    kafka: Cluster, new_topic: Callable[..., str]
) -> None:
    wanted = [(TOPIC, "nope", UNKNOWN_TOPIC), (BROKER, "9", INVALID_REQUEST), (TOPIC, new_topic(kafka), 0)]
    resources = [
        AlterConfigsRequest.AlterConfigsResource(resource_type=kind, resource_name=name)
        for kind, name, _ in wanted
    ]
    request = AlterConfigsRequest(resources=resources, validate_only=True)
    response = send(kafka, request, 2, AlterConfigsResponse)
    assert [
        (each.resource_type, each.resource_name, each.error_code) for each in response.responses
    ] == wanted
