"""PushTelemetry: what is kept, and what is refused for which reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from ottla.broker import Cluster
from ottla.wire import ZERO_UUID, Uuid
from ottla.wire.compression import Compression, compress
from ottla.wire.messages import PushTelemetryRequest, PushTelemetryResponse
from tests.broker.handlers.requests import connect
from tests.broker.handlers.test_api_71_get_telemetry_subscriptions import subscription
from tests.interop.plain import Connection

METRICS = b"metrics, as far as the broker is concerned " * 10


@dataclass
class Client:
    """A client that has been told what to push."""

    cluster: Cluster
    connection: Connection
    instance: Uuid
    subscription_id: int

    def push(
        self,
        metrics: bytes = METRICS,
        *,
        codec: int = 0,
        terminating: bool = False,
        instance: Uuid | None = None,
        subscription_id: int | None = None,
    ) -> int:
        """The error code."""
        request = PushTelemetryRequest(
            client_instance_id=self.instance if instance is None else instance,
            subscription_id=self.subscription_id if subscription_id is None else subscription_id,
            terminating=terminating,
            compression_type=codec,
            metrics=metrics,
        )
        response = self.connection.ask(request, 0)
        assert isinstance(response, PushTelemetryResponse)
        return response.error_code


@pytest.fixture
def client() -> Iterator[Client]:
    with Cluster(config={"telemetry.max.bytes": 1000}) as cluster, connect(cluster) as connection:
        cluster.telemetry.subscribe("*", interval_ms=60_000)
        told = subscription(connection)
        assert told.requested_metrics == ["*"]
        yield Client(cluster, connection, told.client_instance_id, told.subscription_id)


@pytest.mark.parametrize("codec", Compression)
def test_what_is_pushed_can_be_read(client: Client, codec: Compression) -> None:
    assert client.push(bytes(compress(codec, METRICS)), codec=codec) == 0
    (push,) = client.cluster.telemetry.pushes
    assert (push.node, push.client_id, push.client_instance_id) == (1, "ottla-tests", client.instance)
    assert (push.metrics, push.terminating) == (METRICS, False)


def test_a_push_without_metrics_is_accepted_and_not_kept(client: Client) -> None:
    assert client.push(b"") == 0
    assert client.cluster.telemetry.pushes == []


def test_a_push_before_its_time_is_held_back(client: Client) -> None:
    assert client.push() == 0
    assert client.push() == 89
    client.cluster.clock.advance(60)
    assert client.push() == 0
    assert len(client.cluster.telemetry.pushes) == 2


def test_the_last_push_may_come_at_any_time_and_is_the_last(client: Client) -> None:
    assert client.push() == 0
    assert client.push(terminating=True) == 0
    assert client.push(terminating=True) == 42
    assert [push.terminating for push in client.cluster.telemetry.pushes] == [False, True]


def test_a_push_for_another_subscription_is_refused_and_the_client_may_request_its_own_anew(
    client: Client,
) -> None:
    assert client.push(subscription_id=client.subscription_id + 1) == 117
    assert subscription(client.connection, client.instance).error_code == 0
    client.cluster.telemetry.subscribe("org.apache.kafka.consumer.", interval_ms=1000)
    assert client.push() == 117


def test_no_client_has_a_reserved_instance_id(client: Client) -> None:
    assert client.push(instance=ZERO_UUID) == 42
    assert client.push(instance=Uuid(bytes(15) + b"\x01")) == 42


def test_a_codec_that_does_not_exist_is_refused(client: Client) -> None:
    assert client.push(codec=9) == 76
    assert subscription(client.connection, client.instance).error_code == 0


def test_too_much_is_too_large(client: Client) -> None:
    assert client.push(bytes(1001)) == 118


def test_what_cannot_be_decompressed_is_an_invalid_record(client: Client) -> None:
    assert client.push(b"garbage", codec=Compression.ZSTD) == 87
    assert client.cluster.telemetry.pushes == []
