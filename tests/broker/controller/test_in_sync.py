from collections.abc import Sequence
from typing import Any

import pytest

from ottla.broker.metadata.records import PartitionChangeRecord
from ottla.wire import Uuid
from ottla.wire.messages import AlterPartitionRequest, AlterPartitionResponse
from tests.broker.controller.support import UNCLEAN, Controller, state_of

NONE = 0
UNKNOWN_TOPIC_OR_PARTITION = 3
NOT_CONTROLLER = 41
INVALID_REQUEST = 42
FENCED_LEADER_EPOCH = 74
STALE_BROKER_EPOCH = 77
INVALID_UPDATE_VERSION = 95
UNKNOWN_TOPIC_ID = 100
INELIGIBLE_REPLICA = 107
NEW_LEADER_ELECTED = 108


@pytest.fixture
def controller() -> Controller:
    """t-0 is led by 1 at leader epoch 0 and partition epoch 1, in sync with 2; 3 and 4 are alive."""
    controller = Controller([1, 2, 3, 4])
    controller.create("t", [[1, 2, 3]])
    controller.commit([PartitionChangeRecord(controller.topic_id("t"), 0, isr=(1, 2))])
    return controller


def alter(
    controller: Controller, isr: Sequence[int], *, leader: int = 1, version: int = 3, **fields: Any
) -> AlterPartitionResponse.PartitionData:
    broker_epochs = fields.pop("broker_epochs", {})
    topic_id = fields.pop("topic_id", controller.topic_id("t"))
    data = AlterPartitionRequest.PartitionData(
        partition_index=fields.pop("index", 0),
        leader_epoch=fields.pop("leader_epoch", 0),
        partition_epoch=fields.pop("partition_epoch", 1),
        **fields,
    )
    if version < 3:
        data.new_isr = list(isr)
    else:
        data.new_isr_with_epochs = [
            AlterPartitionRequest.BrokerState(
                broker_id=broker_id, broker_epoch=broker_epochs.get(broker_id, controller.epoch(broker_id))
            )
            for broker_id in isr
        ]
    request = AlterPartitionRequest(
        broker_id=leader,
        broker_epoch=controller.epoch(leader),
        topics=[AlterPartitionRequest.TopicData(topic_id=topic_id, partitions=[data])],
    )
    response = controller.carry_out(controller.state.alter_partition(request, version))
    assert response.error_code == NONE
    (topic,) = response.topics
    assert topic.topic_id == topic_id
    return topic.partitions[0]


@pytest.mark.parametrize("version", [2, 3])
def test_the_leader_counts_a_replica_in(controller: Controller, version: int) -> None:
    assert alter(controller, [1, 2, 3], version=version) == AlterPartitionResponse.PartitionData(
        partition_index=0, leader_id=1, leader_epoch=0, isr=[1, 2, 3], partition_epoch=2
    )
    assert state_of(controller.partition("t")) == (1, (1, 2, 3))


def test_the_leader_counts_a_replica_out_and_keeps_its_epoch(controller: Controller) -> None:
    answer = alter(controller, [1])
    assert (answer.isr, answer.leader_epoch, answer.partition_epoch) == ([1], 0, 2)


def test_an_isr_that_is_the_same_changes_nothing(controller: Controller) -> None:
    assert alter(controller, [1, 2]).partition_epoch == 1
    assert controller.partition("t").partition_epoch == 1


@pytest.mark.parametrize(
    ("isr", "fields", "code"),
    [
        ([1, 3], {"topic_id": Uuid(b"x" * 16)}, UNKNOWN_TOPIC_ID),
        ([1, 3], {"index": 5}, UNKNOWN_TOPIC_OR_PARTITION),
        ([1, 3], {"leader_epoch": 1}, NOT_CONTROLLER),
        ([1, 3], {"partition_epoch": 2}, NOT_CONTROLLER),
        ([1, 3], {"partition_epoch": 0}, INVALID_UPDATE_VERSION),
        ([1, 3], {"leader": 2}, INVALID_REQUEST),
        ([2, 3], {}, INVALID_REQUEST),
        ([1, 1], {}, INVALID_REQUEST),
        ([1, 4], {}, INVALID_REQUEST),
        ([1], {"leader_recovery_state": 1}, INVALID_REQUEST),
        ([1, 2, 3], {"broker_epochs": {3: 77}}, INELIGIBLE_REPLICA),
        ([1, 2, 3], {"broker_epochs": {3: -1}}, NONE),
    ],
)
def test_whoever_does_not_know_the_partition_is_refused(
    controller: Controller, isr: list[int], fields: dict[str, Any], code: int
) -> None:
    before = controller.partition("t")
    assert alter(controller, isr, **fields).error_code == code
    assert (controller.partition("t") == before) is (code != NONE)


def test_the_leader_of_before_is_fenced(controller: Controller) -> None:
    controller.commit(controller.state.move_leader("t", 0, 2))
    assert alter(controller, [1, 2, 3]).error_code == FENCED_LEADER_EPOCH


def test_a_broker_that_is_fenced_or_leaving_cannot_be_in_sync(controller: Controller) -> None:
    controller.fence(3)
    assert alter(controller, [1, 2, 3]).error_code == INELIGIBLE_REPLICA
    controller.start(3)
    controller.create("u", [[3, 1]])
    controller.heartbeat(3, want_shut_down=True)
    assert alter(controller, [1, 2, 3]).error_code == INELIGIBLE_REPLICA


def test_an_old_incarnation_of_the_leader_is_stale(controller: Controller) -> None:
    request = AlterPartitionRequest(broker_id=1, broker_epoch=99)
    assert controller.state.alter_partition(request, 3).response.error_code == STALE_BROKER_EPOCH


def test_a_leader_that_has_recovered_says_so_before_others_join() -> None:
    controller = Controller([1, 2])
    controller.create("t", [[1, 2]], configs={UNCLEAN: "true"})
    controller.fence(2)
    controller.fence(1)
    controller.start(2)
    partition = controller.partition("t")
    assert (state_of(partition), partition.recovering) == ((2, (2,)), True)
    known = {"leader_epoch": partition.leader_epoch, "partition_epoch": partition.partition_epoch}
    controller.start(1)
    assert alter(controller, [2, 1], leader=2, leader_recovery_state=1, **known).error_code == INVALID_REQUEST
    answer = alter(controller, [2, 1], leader=2, leader_recovery_state=0, **known)
    assert (answer.isr, answer.leader_recovery_state) == ([2, 1], 0)
    assert not controller.partition("t").recovering


def test_a_leader_whose_report_completes_a_move_away_from_it_learns_that_it_leads_no_more(
    controller: Controller,
) -> None:
    topic_id = controller.topic_id("t")
    controller.commit(
        [PartitionChangeRecord(topic_id, 0, replicas=(2, 3, 1), adding=(), removing=(1,), isr=(1, 2))]
    )
    answer = alter(controller, [1, 2, 3], partition_epoch=2)
    assert answer.error_code == NEW_LEADER_ELECTED
    assert state_of(controller.partition("t")) == (2, (2, 3))
    assert controller.partition("t").replicas == (2, 3)
