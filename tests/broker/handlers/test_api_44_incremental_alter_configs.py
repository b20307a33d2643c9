"""IncrementalAlterConfigs: results of the broker and of the controller come in the order of the request."""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker import Cluster
from ottla.wire.messages import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.broker.handlers.requests import send

UNKNOWN_TOPIC, INVALID_CONFIG, INVALID_REQUEST = 3, 40, 42
TOPIC, BROKER, LOGGER = 2, 4, 8


def test_results_of_broker_and_controller_come_in_the_order_of_the_request(
    kafka: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(kafka)
    wanted = [
        (TOPIC, topic, "retention.ms", "1", 0),
        (BROKER, "9", "message.max.bytes", "1", INVALID_REQUEST),
        (TOPIC, "nope", "retention.ms", "1", UNKNOWN_TOPIC),
        (LOGGER, "1", "root", "loud", INVALID_CONFIG),
        (LOGGER, "9", "root", "INFO", INVALID_REQUEST),
        (TOPIC, "nope-either", "retention.ms", "1", UNKNOWN_TOPIC),
    ]
    request = IncrementalAlterConfigsRequest
    resources = [
        request.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[request.AlterableConfig(name=config, value=value)],
        )
        for kind, name, config, value, _ in wanted
    ]
    response = send(
        kafka, request(resources=resources, validate_only=True), 1, IncrementalAlterConfigsResponse
    )
    assert [(each.resource_type, each.resource_name, each.error_code) for each in response.responses] == [
        (kind, name, code) for kind, name, _, _, code in wanted
    ]
