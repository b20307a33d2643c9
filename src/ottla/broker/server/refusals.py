"""Responses that refuse a whole request, and the error messages in them.

Where one error code at the top is not enough, each item of a request gets it, as Kafka's getErrorResponse does. Both
the broker, which may be unable to reach the controller, and the controller use those for what is forwarded.

Kafka's standard messages stand in the few responses that carry them: clients show them to people, and people search
for them. An error that was raised with a message of its own keeps it; one that Kafka has no need to explain here is
explained in ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.errors import (
    BrokerError,
    CoordinatorNotAvailableError,
    InvalidRequestError,
    UnknownTopicOrPartitionError,
)
from ottla.wire.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_STANDARD: Final[Mapping[int, str]] = {
    UnknownTopicOrPartitionError.code: "This server does not host this topic-partition.",
    CoordinatorNotAvailableError.code: "The coordinator is not available.",
    InvalidRequestError.code: (
        "This most likely occurs because of a request being malformed by the client library or the message was "
        "sent to an incompatible broker. See the broker logs for more details."
    ),
}


def error_message(error: BrokerError) -> str:
    """What to put into the error message of a response."""
    return error.message or _STANDARD.get(error.code) or str(error)


def refuse_create_topics(request: CreateTopicsRequest, error: BrokerError) -> CreateTopicsResponse:
    result = CreateTopicsResponse.CreatableTopicResult
    return CreateTopicsResponse(
        topics=[
            result(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )


def refuse_delete_topics(request: DeleteTopicsRequest, error: BrokerError) -> DeleteTopicsResponse:
    result = DeleteTopicsResponse.DeletableTopicResult
    message = error.message
    return DeleteTopicsResponse(
        responses=[
            *(
                result(name=name, error_code=error.code, error_message=message)
                for name in request.topic_names
            ),
            *(
                result(name=topic.name, topic_id=topic.topic_id, error_code=error.code, error_message=message)
                for topic in request.topics
            ),
        ]
    )


def refuse_create_partitions(
    request: CreatePartitionsRequest, error: BrokerError
) -> CreatePartitionsResponse:
    result = CreatePartitionsResponse.CreatePartitionsTopicResult
    return CreatePartitionsResponse(
        results=[
            result(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )


def refuse_elect_leaders(request: ElectLeadersRequest, error: BrokerError) -> ElectLeadersResponse:
    """At the top, and for each partition that was named."""
    topic_result, partition_result = (
        ElectLeadersResponse.ReplicaElectionResult,
        ElectLeadersResponse.PartitionResult,
    )
    return ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            topic_result(
                topic=topic.topic,
                partition_result=[
                    partition_result(partition_id=index, error_code=error.code, error_message=error.message)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def refuse_alter_reassignments(
    request: AlterPartitionReassignmentsRequest, error: BrokerError
) -> AlterPartitionReassignmentsResponse:
    """The same."""
    response = AlterPartitionReassignmentsResponse
    return response(
        error_code=error.code,
        error_message=error.message,
        responses=[
            response.ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    response.ReassignablePartitionResponse(
                        partition_index=partition.partition_index,
                        error_code=error.code,
                        error_message=error.message,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def refuse_alter_configs(request: AlterConfigsRequest, error: BrokerError) -> AlterConfigsResponse:
    result = AlterConfigsResponse.AlterConfigsResourceResponse
    return AlterConfigsResponse(responses=[result(**_of(each, error)) for each in request.resources])


def refuse_incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, error: BrokerError
) -> IncrementalAlterConfigsResponse:
    result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    return IncrementalAlterConfigsResponse(
        responses=[result(**_of(each, error)) for each in request.resources]
    )


def _of(
    resource: AlterConfigsRequest.AlterConfigsResource | IncrementalAlterConfigsRequest.AlterConfigsResource,
    error: BrokerError,
) -> dict[str, Any]:
    return {
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "error_code": error.code,
        "error_message": error.message,
    }
