"""What the controller makes of brokers that are killed, stopped, paused, cut off and moved: one table per story.

Unless a story says otherwise t-0 has the replicas 1, 2 and 3, all of them in sync, led by 1, with min.insync.replicas
2; broker 4 is alive. A follower that is cut off from its leader is seen here as the ISR that the leader reports.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import pytest

from ottla.broker.controller.decision import MIN_ISR
from ottla.broker.metadata.image import PartitionImage
from ottla.broker.metadata.records import NO_LEADER
from ottla.wire.messages import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    UnregisterBrokerRequest,
)
from tests.broker.controller.support import UNCLEAN, Controller

NONE = 0
INVALID_REPLICA_ASSIGNMENT = 39
PREFERRED_LEADER_NOT_AVAILABLE = 80
ELECTION_NOT_NEEDED = 84
NO_REASSIGNMENT_IN_PROGRESS = 85
INVALID_UPDATE_VERSION = 95
INELIGIBLE_REPLICA = 107
NEW_LEADER_ELECTED = 108

PREFERRED, UNCLEAN_ELECTION = 0, 1


class State(NamedTuple):
    """A partition as a table shows it."""

    leader: int
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()
    leader_epoch: int = 0
    partition_epoch: int = 0
    recovering: bool = False

    @classmethod
    def of(cls, partition: PartitionImage) -> State:
        return cls(
            partition.leader,
            partition.isr,
            partition.elr,
            partition.last_known_elr,
            partition.leader_epoch,
            partition.partition_epoch,
            partition.recovering,
        )


Step: TypeAlias = Callable[[Controller], None]
Story: TypeAlias = Sequence[tuple[Step, State]]


def cluster(
    replicas: Sequence[int] = (1, 2, 3), *, min_isr: int = 2, unclean: bool = False, elr: bool = True
) -> Controller:
    controller = Controller([1, 2, 3, 4], elr=elr)
    configs = {MIN_ISR: str(min_isr), UNCLEAN: str(unclean).lower()}
    controller.create("t", [replicas], configs=configs)
    return controller


def kill(broker_id: int) -> Step:
    def step(controller: Controller) -> None:
        controller.fence(broker_id)

    return step


def stop(broker_id: int) -> Step:
    """A controlled shutdown, all the way."""

    def step(controller: Controller) -> None:
        while not controller.heartbeat(broker_id, want_shut_down=True).should_shut_down:
            for broker in controller.state.image.alive_brokers():
                controller.state.has_read(broker.id, controller.state.image.offset)

    return step


def start(broker_id: int, *, clean: bool = False) -> Step:
    def step(controller: Controller) -> None:
        controller.start(broker_id, clean=clean)

    return step


def wake(broker_id: int) -> Step:
    """The same incarnation sends a heartbeat again."""

    def step(controller: Controller) -> None:
        epoch = controller.epoch(broker_id)
        assert not controller.heartbeat(broker_id).is_fenced
        assert controller.epoch(broker_id) == epoch

    return step


def report(*isr: int, code: int = NONE) -> Step:
    def step(controller: Controller) -> None:
        assert controller.report_isr("t", isr).error_code == code

    return step


def unregister(broker_id: int) -> Step:
    def step(controller: Controller) -> None:
        request = UnregisterBrokerRequest(broker_id=broker_id)
        assert not controller.carry_out(controller.state.unregister_broker(request)).error_code

    return step


def reassign(*replicas: int, code: int = NONE) -> Step:
    """To these replicas; without any, back to those of before."""

    def step(controller: Controller) -> None:
        wanted = AlterPartitionReassignmentsRequest.ReassignablePartition(
            partition_index=0, replicas=list(replicas) or None
        )
        topic = AlterPartitionReassignmentsRequest.ReassignableTopic(name="t", partitions=[wanted])
        request = AlterPartitionReassignmentsRequest(topics=[topic])
        response = controller.carry_out(controller.state.alter_partition_reassignments(request))
        assert response.responses[0].partitions[0].error_code == code

    return step


def elect(election_type: int, code: int = NONE) -> Step:
    def step(controller: Controller) -> None:
        wanted = ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0])
        request = ElectLeadersRequest(election_type=election_type, topic_partitions=[wanted])
        response = controller.carry_out(controller.state.elect_leaders(request))
        assert response.replica_election_results[0].partition_result[0].error_code == code

    return step


def tell(controller: Controller, story: Story) -> None:
    for number, (step, expected) in enumerate(story, 1):
        step(controller)
        assert State.of(controller.partition("t")) == expected, f"after step {number}"


STORIES: dict[str, Story] = {
    "a follower that lags leaves the ISR, and its leader keeps its epoch": [
        (report(1, 2), State(1, (1, 2), partition_epoch=1)),
    ],
    "followers that lag together are eligible, and are so no more when one of them is back": [
        (report(1), State(1, (1,), (2, 3), partition_epoch=1)),
        (report(1, 2), State(1, (1, 2), partition_epoch=2)),
    ],
    "a follower that left a large ISR is not eligible, though the next one is": [
        (report(1, 2), State(1, (1, 2), partition_epoch=1)),
        (report(1), State(1, (1,), (2,), partition_epoch=2)),
        (report(1, 3), State(1, (1, 3), partition_epoch=3)),
    ],
    "a paused follower is fenced, and in sync again only when its leader says so": [
        (kill(3), State(1, (1, 2), partition_epoch=1)),
        (wake(3), State(1, (1, 2), partition_epoch=1)),
        (report(1, 2, 3), State(1, (1, 2, 3), partition_epoch=2)),
    ],
    "the leader is killed": [
        (kill(1), State(2, (2, 3), leader_epoch=1, partition_epoch=1)),
    ],
    "a replica is moved away from the leader": [
        (reassign(4, 2, 3), State(1, (1, 2, 3), partition_epoch=1)),
        (report(1, 2, 3), State(1, (1, 2, 3), partition_epoch=1)),
        (
            report(1, 2, 3, 4, code=NEW_LEADER_ELECTED),
            State(4, (2, 3, 4), leader_epoch=1, partition_epoch=2),
        ),
    ],
    "a move is cancelled, and cannot be cancelled twice": [
        (reassign(4, 2, 3), State(1, (1, 2, 3), partition_epoch=1)),
        (reassign(), State(1, (1, 2, 3), leader_epoch=1, partition_epoch=2)),
        (
            reassign(code=NO_REASSIGNMENT_IN_PROGRESS),
            State(1, (1, 2, 3), leader_epoch=1, partition_epoch=2),
        ),
    ],
    "the preferred leader is elected if it is in sync": [
        (elect(PREFERRED, ELECTION_NOT_NEEDED), State(1, (1, 2, 3))),
        (kill(1), State(2, (2, 3), leader_epoch=1, partition_epoch=1)),
        (start(1), State(2, (2, 3), leader_epoch=1, partition_epoch=1)),
        (
            elect(PREFERRED, PREFERRED_LEADER_NOT_AVAILABLE),
            State(2, (2, 3), leader_epoch=1, partition_epoch=1),
        ),
        (report(2, 3, 1), State(2, (2, 3, 1), leader_epoch=1, partition_epoch=2)),
        (elect(PREFERRED), State(1, (2, 3, 1), leader_epoch=2, partition_epoch=3)),
        (elect(UNCLEAN_ELECTION, ELECTION_NOT_NEEDED), State(1, (2, 3, 1), (), (), 2, 3)),
    ],
    "a broker is stopped and started": [
        (stop(1), State(2, (2, 3), leader_epoch=1, partition_epoch=1)),
        (start(1, clean=True), State(2, (2, 3), leader_epoch=1, partition_epoch=1)),
        (report(2, 3, 1), State(2, (2, 3, 1), leader_epoch=1, partition_epoch=2)),
    ],
    "all are killed, and the last leader leads again, at the price of what it has not flushed": [
        (kill(3), State(1, (1, 2), partition_epoch=1)),
        (kill(2), State(1, (1,), (2,), partition_epoch=2)),
        (kill(1), State(NO_LEADER, (), (1, 2), (1,), leader_epoch=1, partition_epoch=3)),
        (start(2), State(NO_LEADER, (), (1,), (1,), leader_epoch=1, partition_epoch=4)),
        (start(1), State(1, (1,), leader_epoch=2, partition_epoch=6, recovering=True)),
        (report(1), State(1, (1,), leader_epoch=2, partition_epoch=7)),
    ],
    "all are killed, and the last known leader does not return: the others wait": [
        (kill(3), State(1, (1, 2), partition_epoch=1)),
        (kill(2), State(1, (1,), (2,), partition_epoch=2)),
        (kill(1), State(NO_LEADER, (), (1, 2), (1,), leader_epoch=1, partition_epoch=3)),
        (start(3), State(NO_LEADER, (), (1, 2), (1,), leader_epoch=1, partition_epoch=3)),
        (start(2), State(NO_LEADER, (), (1,), (1,), leader_epoch=1, partition_epoch=4)),
        (
            elect(UNCLEAN_ELECTION),
            State(2, (2,), leader_epoch=2, partition_epoch=5, recovering=True),
        ),
    ],
    "a stopped broker is eligible and leads without a loss": [
        (kill(3), State(1, (1, 2), partition_epoch=1)),
        (stop(2), State(1, (1,), (2,), partition_epoch=2)),
        (kill(1), State(NO_LEADER, (), (1, 2), (1,), leader_epoch=1, partition_epoch=3)),
        (start(2, clean=True), State(2, (2,), (1,), leader_epoch=2, partition_epoch=4)),
        (start(1), State(2, (2,), leader_epoch=2, partition_epoch=5)),
        (report(2, 1), State(2, (2, 1), leader_epoch=2, partition_epoch=6)),
    ],
    "brokers that only lost their link lead again as they are": [
        (kill(3), State(1, (1, 2), partition_epoch=1)),
        (kill(2), State(1, (1,), (2,), partition_epoch=2)),
        (kill(1), State(NO_LEADER, (), (1, 2), (1,), leader_epoch=1, partition_epoch=3)),
        (wake(2), State(2, (2,), (1,), leader_epoch=2, partition_epoch=4)),
    ],
    "a broker that is unregistered is eligible until it registers again": [
        (report(1), State(1, (1,), (2, 3), partition_epoch=1)),
        (unregister(2), State(1, (1,), (2, 3), partition_epoch=1)),
        (start(2), State(1, (1,), (3,), partition_epoch=2)),
    ],
    "replicas that are moved away are not eligible": [
        (report(1), State(1, (1,), (2, 3), partition_epoch=1)),
        (reassign(1, 4), State(1, (1,), (2, 3), partition_epoch=2)),
        (report(1, 4), State(1, (1, 4), leader_epoch=1, partition_epoch=3)),
    ],
    "a move cannot be cancelled while no one is in sync": [
        (reassign(4, 2, 3), State(1, (1, 2, 3), partition_epoch=1)),
        (kill(1), State(2, (2, 3), leader_epoch=1, partition_epoch=2)),
        (kill(2), State(3, (3,), (2,), leader_epoch=2, partition_epoch=3)),
        (kill(3), State(NO_LEADER, (), (2, 3), (3,), leader_epoch=3, partition_epoch=4)),
        (
            reassign(code=INVALID_REPLICA_ASSIGNMENT),
            State(NO_LEADER, (), (2, 3), (3,), leader_epoch=3, partition_epoch=4),
        ),
    ],
}


@pytest.mark.parametrize("name", STORIES)
def test_the_controller_decides(name: str) -> None:
    tell(cluster(), STORIES[name])


WITHOUT_ELR: dict[str, Story] = {
    "followers that lag are not eligible": [
        (report(1), State(1, (1,), partition_epoch=1)),
    ],
    "the last member of the ISR stays in it, and leads when it is back, however it was shut down": [
        (kill(3), State(1, (1, 2), partition_epoch=1)),
        (kill(2), State(1, (1,), partition_epoch=2)),
        (kill(1), State(NO_LEADER, (1,), leader_epoch=1, partition_epoch=3)),
        (start(2), State(NO_LEADER, (1,), leader_epoch=1, partition_epoch=3)),
        (start(1), State(1, (1,), leader_epoch=2, partition_epoch=4)),
    ],
}


@pytest.mark.parametrize("name", WITHOUT_ELR)
def test_the_controller_decides_without_eligible_leader_replicas(name: str) -> None:
    tell(cluster(elr=False), WITHOUT_ELR[name])


def test_an_unclean_election_follows_at_once_where_the_topic_allows_it() -> None:
    controller = cluster([1, 2], min_isr=1, unclean=True)
    story: Story = [
        (report(1), State(1, (1,), partition_epoch=1)),
        (kill(1), State(2, (2,), leader_epoch=1, partition_epoch=2, recovering=True)),
        (start(1), State(2, (2,), leader_epoch=1, partition_epoch=2, recovering=True)),
        (report(2, 1), State(2, (2, 1), leader_epoch=1, partition_epoch=3)),
    ]
    tell(controller, story)


def test_a_move_adds_replicas_first_and_drops_them_last() -> None:
    controller = cluster()
    reassign(4, 2, 3)(controller)
    partition = controller.partition("t")
    assert (partition.replicas, partition.adding, partition.removing) == ((4, 2, 3, 1), (4,), (1,))
    reassign()(controller)
    assert controller.partition("t").replicas == (2, 3, 1)
    reassign(4, 2, 3)(controller)
    report(1, 2, 3, 4, code=NEW_LEADER_ELECTED)(controller)
    assert controller.partition("t").replicas == (4, 2, 3)


def test_a_replica_is_counted_in_only_in_its_latest_incarnation() -> None:
    controller = cluster()
    before = controller.epoch(2)
    kill(2)(controller)
    start(2)(controller)
    known = controller.partition("t")
    assert controller.report_isr("t", [1, 3, 2], broker_epochs={2: before}).error_code == INELIGIBLE_REPLICA
    assert controller.partition("t") == known
    assert controller.report_isr("t", [1, 3, 2]).error_code == NONE
    assert controller.partition("t").isr == (1, 3, 2)


def test_a_report_that_crosses_a_fencing_is_too_late() -> None:
    controller = cluster()
    kill(3)(controller)
    assert controller.report_isr("t", [1], partition_epoch=0).error_code == INVALID_UPDATE_VERSION
    assert controller.partition("t").isr == (1, 2)


def test_eligible_leader_replicas_that_are_turned_off_go_with_the_next_change() -> None:
    controller = cluster()
    tell(controller, [(report(1), State(1, (1,), (2, 3), partition_epoch=1))])
    controller.state.image.features.clear()
    tell(controller, [(report(1), State(1, (1,), partition_epoch=2))])
