"""Forwarded requests: the controller answers them, and knows for whom they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.security.principal import ANONYMOUS, KafkaPrincipal
from ottla.broker.server.call import Call
from ottla.wire.apis import api_named
from ottla.wire.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
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
