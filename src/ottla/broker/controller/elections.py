"""Elections: how one partition changes, which partitions change when brokers come and go, and elections on request.

Every change of a partition goes through `change`, as every one of KRaft's goes through its partition change
builder, so that the rules about leaders and epochs hold for all of them. Eligible leader replicas (KIP-966) are
not kept: a partition whose last in-sync replica is gone has no leader until that replica is back.

Invariant: after a change the leader is an acceptable member of the ISR, or there is none; the ISR is never empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from ottla.broker.controller.decision import Context, Decision, check_time
from ottla.broker.metadata.image import PartitionImage, TopicImage
from ottla.broker.metadata.records import NO_LEADER, PartitionChangeRecord
from ottla.errors import (
    BrokerError,
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    InvalidRequestError,
    PreferredLeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)
from ottla.wire import Uuid
from ottla.wire.messages import ElectLeadersRequest, ElectLeadersResponse

Replicas: TypeAlias = tuple[int, ...]
Acceptable: TypeAlias = Callable[[int], bool]
"""Whether a broker may lead, as far as the broker goes."""


# One partition


class Election(Enum):
    """Whom to prefer, when a partition changes."""

    ONLINE = "the current leader, or else the first in-sync replica"
    PREFERRED = "the first replica, then as ONLINE"
    UNCLEAN = "as ONLINE, or else any replica, at the price of records"


@dataclass(frozen=True, slots=True)
class PartitionTarget:
    """What a partition should become; the leader follows from it."""

    replicas: Replicas
    isr: Replicas
    adding: Replicas
    removing: Replicas
    recovering: bool

    @classmethod
    def of(
        cls,
        partition: PartitionImage,
        *,
        replicas: Iterable[int] | None = None,
        isr: Iterable[int] | None = None,
        adding: Iterable[int] | None = None,
        removing: Iterable[int] | None = None,
        recovering: bool | None = None,
    ) -> PartitionTarget:
        """The partition as it is, but for what is named."""
        return cls(
            replicas=partition.replicas if replicas is None else tuple(replicas),
            isr=partition.isr if isr is None else tuple(isr),
            adding=partition.adding if adding is None else tuple(adding),
            removing=partition.removing if removing is None else tuple(removing),
            recovering=partition.recovering if recovering is None else recovering,
        )


def change(
    topic_id: Uuid,
    index: int,
    partition: PartitionImage,
    target: PartitionTarget,
    acceptable: Acceptable,
    election: Election = Election.ONLINE,
) -> PartitionChangeRecord | None:
    """The record that brings a partition to its target; None if it is there already."""
    target = _complete_reassignment(target)
    leader, unclean = _elect(partition.leader, target, acceptable, election)
    isr = (leader,) if unclean else target.isr or partition.isr
    recovering = target.recovering or unclean
    removed = [replica for replica in partition.replicas if replica not in target.replicas]
    made = PartitionChangeRecord(
        topic_id,
        index,
        isr=_if_changed(isr, partition.isr),
        # A replica that leaves must be fenced from the log, so the same leader gets a new epoch.
        leader=leader if leader != partition.leader or removed else None,
        replicas=_if_changed(target.replicas, partition.replicas),
        adding=_if_changed(target.adding, partition.adding),
        removing=_if_changed(target.removing, partition.removing),
        recovering=None if recovering == partition.recovering else recovering,
    )
    return None if made == PartitionChangeRecord(topic_id, index) else made


def _complete_reassignment(target: PartitionTarget) -> PartitionTarget:
    """A reassignment is over as soon as all replicas that stay are in sync."""
    if not target.adding and not target.removing:
        return target
    replicas = tuple(replica for replica in target.replicas if replica not in target.removing)
    isr = tuple(replica for replica in target.isr if replica not in target.removing)
    if not isr or any(replica not in isr for replica in replicas):
        return target
    return PartitionTarget(replicas, isr, (), (), target.recovering)


def _elect(
    current: int, target: PartitionTarget, acceptable: Acceptable, election: Election
) -> tuple[int, bool]:
    """The leader, and whether it was elected at the price of records."""
    candidates = [current, *target.replicas]
    if election is Election.PREFERRED:
        candidates.insert(0, target.replicas[0])
    for replica in candidates:
        if replica in target.isr and acceptable(replica):
            return replica, False
    if election is Election.UNCLEAN:
        for replica in target.replicas:
            if acceptable(replica):
                return replica, True
    return NO_LEADER, False


def _if_changed(new: Replicas, old: Replicas) -> Replicas | None:
    return None if new == old else new


# Brokers that come and go, and elections without a request


def propose(
    context: Context,
    topic: TopicImage,
    index: int,
    target: PartitionTarget,
    *,
    acceptable: Acceptable | None = None,
    election_type: Election | None = None,
) -> PartitionChangeRecord | None:
    """The change of one partition, with the cluster's rules filled in."""
    if acceptable is None:
        acceptable = context.image.is_active
    if election_type is None:
        election_type = Election.UNCLEAN if allows_unclean(context, topic.name) else Election.ONLINE
    return change(topic.id, index, topic.partitions[index], target, acceptable, election_type)


def allows_unclean(context: Context, topic: str) -> bool:
    return bool(context.topic_config(topic, "unclean.leader.election.enable"))


def departure(context: Context, *broker_ids: int) -> Iterator[PartitionChangeRecord]:
    """What happens when brokers stop leading: they leave every ISR, and others take over.

    Where no one else is in sync the last of `broker_ids` that was stays in the ISR, since its log is the newest.
    """

    def acceptable(replica: int) -> bool:
        return replica not in broker_ids and context.image.is_active(replica)

    for topic, index, partition in context.image.all_partitions():
        gone = [broker_id for broker_id in broker_ids if broker_id in partition.isr]
        if gone:
            staying = [replica for replica in partition.isr if replica not in gone]
            target = PartitionTarget.of(partition, isr=staying or gone[-1:])
            made = propose(context, topic, index, target, acceptable=acceptable)
            if made is not None:
                yield made


def arrival(context: Context, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """What happens when a broker may lead again: partitions without a leader get one.

    Where others lead it stays out of the ISR, until the leader reports that it has caught up (in_sync.py).
    """

    def acceptable(replica: int) -> bool:
        # Its record is written in the same decision, so the image does not know yet that it is back.
        returns = replica == broker_id and not context.image.brokers[replica].in_controlled_shutdown
        return returns or context.image.is_active(replica)

    for topic, index, partition in _leaderless(context):
        made = propose(context, topic, index, PartitionTarget.of(partition), acceptable=acceptable)
        if made is not None:
            yield made


def preferred(context: Context) -> Iterator[PartitionChangeRecord]:
    """Leadership back to the first replicas, where they are in sync."""
    for topic, index, partition in context.image.all_partitions():
        if partition.leader != partition.preferred_leader:
            target = PartitionTarget.of(partition)
            made = propose(context, topic, index, target, election_type=Election.PREFERRED)
            if made is not None:
                yield made


def unclean(context: Context) -> Iterator[PartitionChangeRecord]:
    """Leaders for partitions without one, where their topic allows to lose records for that."""
    for topic, index, partition in _leaderless(context):
        if allows_unclean(context, topic.name):
            made = propose(context, topic, index, PartitionTarget.of(partition))
            if made is not None:
                yield made


def _leaderless(context: Context) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
    return (entry for entry in context.image.all_partitions() if not entry[2].has_leader)


# Elections on request: ElectLeaders, and a leader moved to a given node by hand

_ELECTIONS: Final = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def elect_leaders(context: Context, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
    """For the partitions that are named, or for all; where none is named, not even the type is looked at."""
    response = ElectLeadersResponse()
    requested = request.topic_partitions
    if requested is not None and not requested:
        return Decision([], response)
    check_time(request.timeout_ms)
    election_type = _ELECTIONS.get(request.election_type)
    if election_type is None:
        raise InvalidRequestError(f"Unknown election type {request.election_type}")
    if requested is None:
        requested = [
            ElectLeadersRequest.TopicPartitions(topic=topic.name, partitions=list(topic.partitions))
            for topic in context.image.topics.values()
        ]
    records: list[PartitionChangeRecord] = []
    for topic in requested:
        result = ElectLeadersResponse.ReplicaElectionResult(topic=topic.topic)
        response.replica_election_results.append(result)
        for index in topic.partitions:
            error: BrokerError | None = None
            try:
                records.append(_requested(context, topic.topic, index, election_type))
            except ElectionNotNeededError as not_needed:
                if request.topic_partitions is None:
                    continue
                error = not_needed
            except BrokerError as refused:
                error = refused
            result.partition_result.append(_result(index, error))
    return Decision(records, response)


def move_leader(context: Context, topic: str, index: int, broker_id: int) -> PartitionChangeRecord:
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
    return PartitionChangeRecord(known.id, index, leader=broker_id)


def _requested(context: Context, topic: str, index: int, election_type: Election) -> PartitionChangeRecord:
    known, partition = _find(context, topic, index)
    preferred = election_type is Election.PREFERRED
    if partition.leader == partition.preferred_leader if preferred else partition.has_leader:
        raise ElectionNotNeededError("Leader election not needed for topic partition.")
    made = propose(context, known, index, PartitionTarget.of(partition), election_type=election_type)
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
