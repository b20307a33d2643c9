"""Elections that someone asks for: ElectLeaders of the protocol, and a leader moved to a given node by hand."""

from __future__ import annotations

from typing import Final

from ottla.broker.controller.decision import Context, Decision, check_time
from ottla.broker.controller.election import Election, Target
from ottla.broker.controller.leadership import propose
from ottla.broker.metadata.image import PartitionImage, TopicImage
from ottla.broker.metadata.records import PartitionChange
from ottla.errors import (
    BrokerError,
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    InvalidRequestError,
    PreferredLeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)
from ottla.wire.messages import ElectLeadersRequest, ElectLeadersResponse

_ELECTIONS: Final = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def elect_leaders(context: Context, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
    """For the partitions that are named, or for all; where none is named, not even the type is looked at."""
    response = ElectLeadersResponse()
    wanted = request.topic_partitions
    if wanted is not None and not wanted:
        return Decision([], response)
    check_time(request.timeout_ms)
    election_type = _ELECTIONS.get(request.election_type)
    if election_type is None:
        raise InvalidRequestError(f"Unknown election type {request.election_type}")
    if wanted is None:
        wanted = [
            ElectLeadersRequest.TopicPartitions(topic=topic.name, partitions=list(topic.partitions))
            for topic in context.image.topics.values()
        ]
    records: list[PartitionChange] = []
    for topic in wanted:
        result = ElectLeadersResponse.ReplicaElectionResult(topic=topic.topic)
        response.replica_election_results.append(result)
        for index in topic.partitions:
            error: BrokerError | None = None
            try:
                records.append(_elect(context, topic.topic, index, election_type))
            except ElectionNotNeededError as not_needed:
                if request.topic_partitions is None:
                    continue
                error = not_needed
            except BrokerError as refused:
                error = refused
            result.partition_result.append(_result(index, error))
    return Decision(records, response)


def move_leader(context: Context, topic: str, index: int, broker_id: int) -> PartitionChange:
    """The record that makes a node lead a partition; InvalidRequestError says why it cannot."""
    known, partition = _find(context, topic, index)
    where = f"{topic}-{index}"
    if broker_id not in partition.replicas:
        raise InvalidRequestError(
            f"Node {broker_id} has no replica of {where}: its replicas are on {_list(partition.replicas)}."
        )
    if not context.image.is_active(broker_id):
        raise InvalidRequestError(f"Node {broker_id} is not alive, so it cannot lead {where}.")
    if broker_id not in partition.isr:
        raise InvalidRequestError(
            f"Node {broker_id} is not in sync with {where}: in sync are {_list(partition.isr)}."
        )
    if broker_id == partition.leader:
        raise ElectionNotNeededError(f"Node {broker_id} leads {where} already.")
    return PartitionChange(known.id, index, leader=broker_id)


def _elect(context: Context, topic: str, index: int, election_type: Election) -> PartitionChange:
    known, partition = _find(context, topic, index)
    preferred = election_type is Election.PREFERRED
    if partition.leader == partition.preferred_leader if preferred else partition.has_leader:
        raise ElectionNotNeededError("Leader election not needed for topic partition.")
    made = propose(context, known, index, Target.of(partition), election_type=election_type)
    if made is not None:
        return made
    if preferred:
        raise PreferredLeaderNotAvailableError("The preferred leader was not available.")
    raise EligibleLeadersNotAvailableError("Eligible topic partition leaders are not available.")


def _find(context: Context, topic: str, index: int) -> tuple[TopicImage, PartitionImage]:
    known = context.image.topics.get(topic)
    if known is None:
        raise UnknownTopicOrPartitionError(f"No such topic as {topic}")
    partition = known.partitions.get(index)
    if partition is None:
        raise UnknownTopicOrPartitionError(f"No such partition as {topic}-{index}")
    return known, partition


def _result(index: int, error: BrokerError | None) -> ElectLeadersResponse.PartitionResult:
    result = ElectLeadersResponse.PartitionResult(partition_id=index, error_message=None)
    if error is not None:
        result.error_code, result.error_message = error.code, error.message
    return result


def _list(replicas: tuple[int, ...]) -> str:
    return ", ".join(map(str, replicas))
