"""Moving replicas from broker to broker.

A reassignment first adds the new replicas, waits until they are in sync, and then drops the old ones. The last step
is taken by the change of the partition that finds it due (elections.py), mostly the leader's report of its ISR.
"""

from __future__ import annotations

from ottla.broker.controller.decision import Context, Decision, check_time
from ottla.broker.controller.elections import Election, PartitionTarget, allows_unclean, propose
from ottla.broker.controller.placement import check_assignment
from ottla.broker.metadata.image import PartitionImage, TopicImage
from ottla.broker.metadata.records import PartitionChangeRecord
from ottla.errors import (
    BrokerError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)
from ottla.wire.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def alter_reassignments(
    context: Context, request: AlterPartitionReassignmentsRequest
) -> Decision[AlterPartitionReassignmentsResponse]:
    if not request.topics:
        return Decision([], AlterPartitionReassignmentsResponse())
    check_time(request.timeout_ms)
    response = AlterPartitionReassignmentsResponse(
        error_message=None, allow_replication_factor_change=request.allow_replication_factor_change
    )
    records: list[PartitionChangeRecord] = []
    for topic in request.topics:
        topic_result = AlterPartitionReassignmentsResponse.ReassignableTopicResponse(name=topic.name)
        response.responses.append(topic_result)
        for partition in topic.partitions:
            result = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse(
                partition_index=partition.partition_index, error_message=None
            )
            try:
                made = _alter(context, topic.name, partition, request.allow_replication_factor_change)
                records += [] if made is None else [made]
            except BrokerError as error:
                result.error_code, result.error_message = error.code, error.message
            topic_result.partitions.append(result)
    return Decision(records, response)


def list_reassignments(
    context: Context, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    requested = request.topics
    if requested is None:
        requested = [
            ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics(
                name=topic.name, partition_indexes=list(topic.partitions)
            )
            for topic in context.image.topics.values()
        ]
    response = ListPartitionReassignmentsResponse(error_message=None)
    for named in requested:
        topic = context.image.topics.get(named.name)
        ongoing = [] if topic is None else _ongoing(topic, named.partition_indexes)
        if ongoing:
            response.topics.append(
                ListPartitionReassignmentsResponse.OngoingTopicReassignment(
                    name=named.name, partitions=ongoing
                )
            )
    return response


def _alter(
    context: Context,
    name: str,
    requested: AlterPartitionReassignmentsRequest.ReassignablePartition,
    may_resize: bool,
) -> PartitionChangeRecord | None:
    topic = context.image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(f"Unable to find a topic named {name}.")
    index = requested.partition_index
    partition = topic.partitions.get(index)
    if partition is None:
        raise UnknownTopicOrPartitionError(f"Unable to find partition {name}:{index}.")
    if requested.replicas is None:
        return _cancel(context, topic, index, partition)
    check_assignment(context, requested.replicas)
    if not may_resize:
        _check_size(partition, len(requested.replicas))
    removing = sorted(set(partition.replicas) - set(requested.replicas))
    target = PartitionTarget.of(
        partition,
        replicas=[*requested.replicas, *removing],
        adding=sorted(set(requested.replicas) - set(partition.replicas)) or None,
        removing=removing or None,
    )
    return propose(context, topic, index, target, election_type=Election.ONLINE)


def _check_size(partition: PartitionImage, size: int) -> None:
    """A reassignment that is pending counts as done."""
    current = len([replica for replica in partition.replicas if replica not in partition.removing])
    if size != current:
        raise InvalidReplicationFactorError(f"The replication factor is changed from {current} to {size}")


def _cancel(
    context: Context, topic: TopicImage, index: int, partition: PartitionImage
) -> PartitionChangeRecord | None:
    """Back to the replicas of before."""
    if not partition.is_reassigning:
        raise NoReassignmentInProgressError()
    replicas = [replica for replica in partition.replicas if replica not in partition.adding]
    isr = [replica for replica in partition.isr if replica not in partition.adding]
    if not isr:
        if not allows_unclean(context, topic.name):
            raise InvalidReplicaAssignmentError(
                f"Unable to revert partition assignment for {topic.name}:{index} because it would require an "
                "unclean leader election."
            )
        isr = replicas[:1]
    target = PartitionTarget.of(partition, replicas=replicas, isr=isr, adding=(), removing=())
    return propose(context, topic, index, target)


def _ongoing(
    topic: TopicImage, indexes: list[int]
) -> list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment]:
    return [
        ListPartitionReassignmentsResponse.OngoingPartitionReassignment(
            partition_index=index,
            replicas=list(partition.replicas),
            adding_replicas=list(partition.adding),
            removing_replicas=list(partition.removing),
        )
        for index in indexes
        if (partition := topic.partitions.get(index)) is not None and partition.is_reassigning
    ]
