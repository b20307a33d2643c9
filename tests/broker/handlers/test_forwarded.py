"""Forwarded requests: the controller responds, and knows the principal; without it they are timed out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.handlers import BROKER_APIS
from ottla.broker.handlers.forwarded import forward
from ottla.broker.security.principal import ANONYMOUS, KafkaPrincipal
from ottla.broker.server.call import Call
from ottla.errors import RequestTimedOutError
from ottla.wire import Message
from ottla.wire.apis import api_named
from ottla.wire.messages import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    RequestHeader,
    UpdateFeaturesRequest,
)
from tests.broker.worlds import Body, World, in_simulation

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


def _codes(response: Any, *path: str) -> list[int]:
    """The error codes in the lists that this path leads through, from the top."""
    found = [response]
    for name in path:
        found = [inner for each in found for inner in getattr(each, name)]
    return [each.error_code for each in found]


UNREACHABLE = [
    (create("orders"), 7, ["topics"]),
    (DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name="orders")]), 6, ["responses"]),
    (
        CreatePartitionsRequest(
            topics=[CreatePartitionsRequest.CreatePartitionsTopic(name="orders", count=2)]
        ),
        3,
        ["results"],
    ),
    (
        ElectLeadersRequest(
            topic_partitions=[ElectLeadersRequest.TopicPartitions(topic="orders", partitions=[0])]
        ),
        2,
        ["replica_election_results", "partition_result"],
    ),
    (
        AlterPartitionReassignmentsRequest(
            topics=[
                AlterPartitionReassignmentsRequest.ReassignableTopic(
                    name="orders",
                    partitions=[AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=0)],
                )
            ]
        ),
        1,
        ["responses", "partitions"],
    ),
    (ListPartitionReassignmentsRequest(), 0, []),
    (UpdateFeaturesRequest(), 1, []),
]


@pytest.mark.parametrize(
    ("request_", "version", "path"), UNREACHABLE, ids=[type(each[0]).__name__ for each in UNREACHABLE]
)
def test_without_the_controller_everything_that_was_named_is_timed_out(
    request_: Message, version: int, path: list[str]
) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            client = await world.client(cluster)
            cluster.cut_controller(1)
            response = await client.ask(request_, version, Message)
            assert _codes(response, *path) == [RequestTimedOutError.code]

    in_simulation(body)


def test_every_forwarded_api_is_among_those_that_are_tested_without_a_controller() -> None:
    forwarded = {each.api.key for each in BROKER_APIS if each.function is forward}
    assert forwarded == {request.API_KEY for request, _, _ in UNREACHABLE}
