"""Forwarded requests: the controller answers them, and knows for whom they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.security.principal import ANONYMOUS, KafkaPrincipal
from ottla.broker.server.call import Call
from ottla.errors import InvalidRequestError, PrincipalDeserializationFailureError, UnsupportedVersionError
from ottla.net.channel import Channel
from ottla.wire import decode_response, encode_request
from ottla.wire.apis import api_named
from ottla.wire.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    EnvelopeRequest,
    EnvelopeResponse,
    MetadataRequest,
    RequestHeader,
)
from tests.broker.worlds import Body, World

Run = Callable[[Body], object]

CREATE_TOPICS = api_named("CreateTopics")
ALICE = KafkaPrincipal("User", "alice")


def create(name: str) -> CreateTopicsRequest:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=1000)


def record_calls(cluster: AsyncCluster) -> list[Call]:
    """The calls of CreateTopics that reach the controller from now on."""
    calls: list[Call] = []
    handlers: Any = cluster.controller.dispatcher.handlers
    original = handlers[CREATE_TOPICS.key]

    def recorded(controller: Any, request: Any, call: Call) -> Any:
        calls.append(call)
        return original.function(controller, request, call)

    handlers[CREATE_TOPICS.key] = dataclasses.replace(original, function=recorded)
    return calls


async def enclose(
    world: World, cluster: AsyncCluster, principal: bytes | None, data: bytes
) -> EnvelopeResponse:
    """The controller's response to an envelope with this in it."""
    controller = cluster.controller
    channel = await Channel.open(world.runtime, controller.host, controller.port, client_id="node-1-forward")
    envelope = EnvelopeRequest(
        request_data=data, request_principal=principal, client_host_address=b"\x7f\0\0\1"
    )
    try:
        response = await channel.request(envelope, 0, 1000.0)
    finally:
        channel.close()
        await channel.wait_closed()
    assert isinstance(response, EnvelopeResponse)
    return response


def data_of(request: Any, version: int) -> bytes:
    return b"".join(encode_request(request, version, 1, "client"))[4:]


def test_what_a_client_sends_reaches_the_controller_with_its_principal(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            calls = record_calls(cluster)
            client = await world.client(cluster)
            response = await client.ask(create("orders"), 7, CreateTopicsResponse)
            assert response.topics[0].error_code == 0
            (call,) = calls
            assert (call.principal, call.client_id, call.version) == (ANONYMOUS, "test", 7)
            assert call.listener == "CONTROLLER"

    run(body)


def test_a_broker_forwards_the_principal_of_its_call(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            calls = record_calls(cluster)
            await world.client(cluster)
            node = cluster.node(1)
            await cluster.wait_for(lambda: node.connections == 1, "a connection")
            header = RequestHeader(
                request_api_key=CREATE_TOPICS.key, request_api_version=7, correlation_id=1, client_id="me"
            )
            call = Call(
                node.server.connections[0],
                header,
                node.context.apis[CREATE_TOPICS.key],
                create("orders"),
                listener="PLAINTEXT",
                principal=ALICE,
            )
            response = await node.link.forward(call.request, call)
            assert isinstance(response, CreateTopicsResponse)
            assert response.topics[0].error_code == 0
            assert [each.principal for each in calls] == [ALICE]

    run(body)


def test_an_envelope_has_the_request_of_a_client_and_gets_the_response_to_it(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            calls = record_calls(cluster)
            response = await enclose(world, cluster, ALICE.to_bytes(), data_of(create("orders"), 7))
            assert (response.error_code, [each.principal for each in calls]) == (0, [ALICE])
            assert response.response_data is not None
            created = decode_response(CREATE_TOPICS, 7, response.response_data)
            assert isinstance(created, CreateTopicsResponse)
            assert [(topic.name, topic.error_code) for topic in created.topics] == [("orders", 0)]

    run(body)


@pytest.mark.parametrize("principal", [None, b"", b"\0\1", b"\0\0\x05User", b"\0\0\x05User\xffalice"])
def test_a_principal_that_cannot_be_read_fails_the_envelope(run: Run, principal: bytes | None) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            calls = record_calls(cluster)
            response = await enclose(world, cluster, principal, data_of(create("orders"), 7))
            assert response.error_code == PrincipalDeserializationFailureError.code == 97
            assert response.response_data is None
            # As in Kafka, it is looked at before the request.
            response = await enclose(world, cluster, principal, b"no request")
            assert response.error_code == PrincipalDeserializationFailureError.code
            assert not calls
            assert "orders" not in cluster.controller.state.image.topics

    run(body)


def test_what_is_no_request_or_none_for_the_controller_fails_the_envelope(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            principal = ANONYMOUS.to_bytes()
            response = await enclose(world, cluster, principal, b"no request")
            assert response.error_code == InvalidRequestError.code
            response = await enclose(world, cluster, principal, data_of(MetadataRequest(), 12))
            assert response.error_code == UnsupportedVersionError.code

    run(body)
