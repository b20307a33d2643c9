"""Elections: how one partition changes, which partitions change when brokers come and go, and elections on request.

Every change of a partition goes through `change`, as every one of KRaft's goes through its partition change
builder, so that the rules about leaders and epochs hold for all of them.

Eligible leader replicas (ELR, KIP-966) have left an ISR that is smaller than min.insync.replicas. No record is
committed to such an ISR, so they have all that is, and lead without a loss when the ISR is empty. Where they are off,
the last member of an ISR stays in it without leading.

Invariant: after a change the leader is an acceptable member of the ISR, or there is none. ISR and ELR have no replica
in common, none that is not the partition's, and there is an ELR only next to an ISR that is too small.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, TypeAlias

from ottla.broker.controller.decision import MIN_ISR, Context, Decision, check_time
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

    ONLINE = "the current leader, or else the first replica that lacks nothing, or else the last known leader"
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
    unclean_shutdown: Replicas = ()
    """Replicas whose logs may have lost their ends, so that they are not eligible any more."""

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
        unclean_shutdown: Iterable[int] = (),
    ) -> PartitionTarget:
        """The partition as it is, but for what is named."""
        return cls(
            replicas=partition.replicas if replicas is None else tuple(replicas),
            isr=partition.isr if isr is None else tuple(isr),
            adding=partition.adding if adding is None else tuple(adding),
            removing=partition.removing if removing is None else tuple(removing),
            recovering=partition.recovering if recovering is None else recovering,
            unclean_shutdown=tuple(unclean_shutdown),
        )


def change(
    topic_id: Uuid,
    index: int,
    partition: PartitionImage,
    target: PartitionTarget,
    acceptable: Acceptable,
    election: Election = Election.ONLINE,
    *,
    min_isr: int | None = None,
) -> PartitionChangeRecord | None:
    """The record that brings a partition to its target; None if it is there already.

    With `min_isr`, its min.insync.replicas, the partition keeps eligible leader replicas.
    """
    target = _complete_reassignment(target)
    isr = target.isr
    elr = () if min_isr is None else _eligible(partition, target, min_isr)
    last_known = partition.last_known_elr
    spare = last_known if min_isr is not None and not isr and not elr else ()
    leader, unclean = _elect(partition.leader, target, isr or elr, spare, acceptable, election)
    if unclean:
        isr, elr = (leader,), ()
    elif leader in elr:
        isr, elr = (leader,), tuple(replica for replica in elr if replica != leader)
    elif not isr and min_isr is None:
        isr = partition.isr
    if min_isr is not None:
        last_known = _last_known(partition, leader)
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
        elr=_if_changed(elr, partition.elr),
        last_known_elr=_if_changed(last_known, partition.last_known_elr),
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
    return replace(target, replicas=replicas, isr=isr, adding=(), removing=())


def _eligible(partition: PartitionImage, target: PartitionTarget, min_isr: int) -> Replicas:
    """The ELR: who has left the ISR since it became too small, but for those whose logs cannot be trusted.

    An ISR of all replicas leaves none, be it smaller than min.insync.replicas. Kafka lowers that to the number of
    replicas of partition 0 instead, and lets replicas stay eligible that are not the partition's any more.
    """
    if len(target.isr) >= min_isr:
        return ()
    candidates = {*partition.elr, *partition.isr} & set(target.replicas)
    return tuple(sorted(candidates - {*target.isr, *target.unclean_shutdown}))


def _elect(
    current: int,
    target: PartitionTarget,
    clean: Replicas,
    last_known: Replicas,
    acceptable: Acceptable,
    election: Election,
) -> tuple[int, bool]:
    """The leader, and whether it was elected at the price of records.

    `clean` lack no record. The `last_known` leader may lack some, but fewer than any other: it needs no permission.
    """
    candidates = [current, *target.replicas]
    if election is Election.PREFERRED:
        candidates.insert(0, target.replicas[0])
    for replica in candidates:
        if replica in clean and acceptable(replica):
            return replica, False
    if len(last_known) == 1 and last_known[0] in target.replicas and acceptable(last_known[0]):
        return last_known[0], True
    if election is Election.UNCLEAN:
        for replica in target.replicas:
            if acceptable(replica):
                return replica, True
    return NO_LEADER, False


def _last_known(partition: PartitionImage, leader: int) -> Replicas:
    """The leader that a partition has lost, remembered until it has one again."""
    if leader != NO_LEADER:
        return ()
    if partition.has_leader and not partition.last_known_elr:
        return (partition.leader,)
    return partition.last_known_elr


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
    found_on: int | None = None,
) -> PartitionChangeRecord | None:
    """The change of one partition, with the cluster's rules filled in.

    `found_on` is a broker whose replica lies in a directory that works, which the image does not know yet.
    """
    is_active = context.image.is_active if acceptable is None else acceptable

    def can_lead(replica: int) -> bool:
        return is_active(replica) and (
            replica == found_on or context.image.has_directory(topic.id, index, replica)
        )

    if election_type is None:
        election_type = Election.UNCLEAN if allows_unclean(context, topic.name) else Election.ONLINE
    min_isr = int(context.topic_config(topic.name, MIN_ISR)) if context.keeps_elr else None
    partition = topic.partitions[index]
    return change(topic.id, index, partition, target, can_lead, election_type, min_isr=min_isr)


def allows_unclean(context: Context, topic: str) -> bool:
    return bool(context.topic_config(topic, "unclean.leader.election.enable"))


def in_directories(
    context: Context, broker_id: int, directories: Collection[Uuid]
) -> frozenset[tuple[Uuid, int]]:
    """The partitions, by topic id and index, whose replica on a broker lies in one of these."""
    return frozenset(
        (topic_id, index)
        for topic_id, places in context.image.directories.items()
        for (index, broker), directory in places.items()
        if broker == broker_id and directory in directories
    )


def departure(
    context: Context,
    broker_id: int,
    *,
    unclean_shutdown: bool = False,
    only: Collection[tuple[Uuid, int]] | None = None,
) -> Iterator[PartitionChangeRecord]:
    """What happens when a broker stops leading: it leaves every ISR, and others take over.

    After an unclean shutdown, where its logs may have lost their ends, it leaves every ELR as well. With `only` it
    stops with these partitions, by topic id and index.
    """

    def acceptable(replica: int) -> bool:
        return replica != broker_id and context.image.is_active(replica)

    for topic, index, partition in context.image.all_partitions():
        if only is not None and (topic.id, index) not in only:
            continue
        if broker_id in partition.isr or (unclean_shutdown and broker_id in partition.elr):
            target = PartitionTarget.of(
                partition,
                isr=[replica for replica in partition.isr if replica != broker_id],
                unclean_shutdown=[broker_id] if unclean_shutdown else [],
            )
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


def found(
    context: Context, broker_id: int, only: Collection[tuple[Uuid, int]]
) -> Iterator[PartitionChangeRecord]:
    """What happens when replicas of a broker turn out to lie in a directory that works: they may lead again."""
    for topic, index, partition in _leaderless(context):
        if (topic.id, index) in only:
            made = propose(context, topic, index, PartitionTarget.of(partition), found_on=broker_id)
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
