"""Refusals of whole requests: every item of them has the error, and its message."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.controller.handlers import CONTROLLER
from ottla.broker.handlers import BROKER_APIS
from ottla.broker.server.refusals import error_message
from ottla.broker.server.registry import Registry
from ottla.errors import (
    BrokerError,
    CoordinatorNotAvailableError,
    InvalidTopicError,
    NotControllerError,
    UnknownTopicOrPartitionError,
)
from ottla.wire import Message, Uuid
from ottla.wire.messages import (
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
)

ERROR = NotControllerError("not here")
TOPIC_ID = Uuid(b"orders".ljust(16))


def refused(registry: Registry, request: Message) -> Any:
    return registry.limited({})[request.API_KEY].refuse(request, ERROR)


def has_error(result: Any) -> bool:
    return (result.error_code, result.error_message) == (ERROR.code, "not here")


@pytest.mark.parametrize("registry", [BROKER_APIS, CONTROLLER], ids=["broker", "controller"])
class TestEveryItemHasTheError:
    def test_of_topics_to_create(self, registry: Registry) -> None:
        topics = [CreateTopicsRequest.CreatableTopic(name=name) for name in ("a", "b")]
        results = refused(registry, CreateTopicsRequest(topics=topics)).topics
        assert [result.name for result in results] == ["a", "b"]
        assert all(map(has_error, results))

    def test_of_topics_to_delete_by_name_or_id(self, registry: Registry) -> None:
        states = [
            DeleteTopicsRequest.DeleteTopicState(name="b"),
            DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=TOPIC_ID),
        ]
        results = refused(registry, DeleteTopicsRequest(topic_names=["a"], topics=states)).responses
        assert [result.name for result in results] == ["a", "b", None]
        assert results[2].topic_id == TOPIC_ID
        assert all(map(has_error, results))

    def test_of_topics_to_grow(self, registry: Registry) -> None:
        topics = [CreatePartitionsRequest.CreatePartitionsTopic(name="a", count=2)]
        (result,) = refused(registry, CreatePartitionsRequest(topics=topics)).results
        assert result.name == "a"
        assert has_error(result)

    def test_of_elections_and_at_the_top(self, registry: Registry) -> None:
        topics = [ElectLeadersRequest.TopicPartitions(topic="a", partitions=[0, 3])]
        response = refused(registry, ElectLeadersRequest(topic_partitions=topics))
        (topic,) = response.replica_election_results
        assert response.error_code == ERROR.code
        assert [result.partition_id for result in topic.partition_result] == [0, 3]
        assert all(map(has_error, topic.partition_result))
        # All partitions of the cluster: there is none to name.
        response = refused(registry, ElectLeadersRequest(topic_partitions=None))
        assert (response.error_code, response.replica_election_results) == (ERROR.code, [])

    def test_of_reassignments_and_at_the_top(self, registry: Registry) -> None:
        request = AlterPartitionReassignmentsRequest
        partition = request.ReassignablePartition(partition_index=2, replicas=[1])
        response = refused(
            registry, request(topics=[request.ReassignableTopic(name="a", partitions=[partition])])
        )
        (topic,) = response.responses
        (result,) = topic.partitions
        assert (topic.name, result.partition_index) == ("a", 2)
        assert has_error(response)
        assert has_error(result)

    @pytest.mark.parametrize("request_type", [AlterConfigsRequest, IncrementalAlterConfigsRequest])
    def test_of_configs_to_alter(self, registry: Registry, request_type: Any) -> None:
        resource = request_type.AlterConfigsResource(resource_type=2, resource_name="a")
        (result,) = refused(registry, request_type(resources=[resource])).responses
        assert (result.resource_type, result.resource_name) == (2, "a")
        assert has_error(result)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (UnknownTopicOrPartitionError(), "This server does not host this topic-partition."),
        (UnknownTopicOrPartitionError("which one?"), "which one?"),
        (CoordinatorNotAvailableError(), "The coordinator is not available."),
        (InvalidTopicError(), str(InvalidTopicError())),
    ],
)
def test_an_error_has_its_own_message_or_the_one_of_kafka_or_ours(error: BrokerError, message: str) -> None:
    assert error_message(error) == message
