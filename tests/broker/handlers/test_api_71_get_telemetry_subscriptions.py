"""GetTelemetrySubscriptions: ids, subscriptions, and how often one may request them."""

from __future__ import annotations

from ottla.broker import Cluster
from ottla.wire import ZERO_UUID, Uuid
from ottla.wire.messages import GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse
from tests.broker.handlers.requests import connect
from tests.interop.plain import Connection


def subscription(connection: Connection, instance: Uuid = ZERO_UUID) -> GetTelemetrySubscriptionsResponse:
    response = connection.ask(GetTelemetrySubscriptionsRequest(client_instance_id=instance), 0)
    assert isinstance(response, GetTelemetrySubscriptionsResponse)
    return response


def test_no_metric_is_requested_by_default() -> None:
    with Cluster(config={"telemetry.max.bytes": 5000}) as cluster, connect(cluster) as connection:
        response = subscription(connection)
        assert (response.error_code, response.requested_metrics, response.push_interval_ms) == (
            0,
            [],
            300_000,
        )
        assert (response.telemetry_max_bytes, response.delta_temporality) == (5000, True)
        assert response.accepted_compression_types == [4, 3, 1, 2]
        assert response.client_instance_id != ZERO_UUID


def test_a_client_that_sends_it_too_often_is_held_back_until_its_time_has_come() -> None:
    with Cluster() as cluster, connect(cluster) as connection:
        instance = subscription(connection).client_instance_id
        assert subscription(connection, instance).error_code == 89
        cluster.clock.advance(300)
        response = subscription(connection, instance)
        assert (response.error_code, response.client_instance_id) == (0, instance)


def test_a_new_subscription_is_given_at_once() -> None:
    with Cluster() as cluster, connect(cluster) as connection:
        first = subscription(connection)
        cluster.telemetry.subscribe("org.apache.kafka.producer.", interval_ms=1000)
        second = subscription(connection, first.client_instance_id)
        assert (second.error_code, second.requested_metrics) == (0, ["org.apache.kafka.producer."])
        assert second.push_interval_ms == 1000
        assert second.subscription_id != first.subscription_id


def test_a_client_that_comes_back_may_send_it_at_once() -> None:
    with Cluster() as cluster:
        with connect(cluster) as connection:
            instance = subscription(connection).client_instance_id
        cluster.wait_for(lambda: cluster._cluster.nodes[1].connections == 0, "the end of the connection")
        with connect(cluster) as connection:
            assert subscription(connection, instance).error_code == 0
