from __future__ import annotations

from ottla.broker.metadata.records import (
    NO_LEADER,
    AssignReplicaRecord,
    BrokerChangeRecord,
    RemoveTopicRecord,
)
from ottla.broker.metadata.snapshots import read_snapshot, write_snapshot
from ottla.wire import Uuid
from ottla.wire.messages import AssignReplicasToDirsRequest
from tests.broker.controller.support import Controller, state_of

STALE_BROKER_EPOCH = 77
UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER = 100, 3, 6
A, B = Uuid(b"a" * 16), Uuid(b"b" * 16)

Directory = AssignReplicasToDirsRequest.DirectoryData
Topic = AssignReplicasToDirsRequest.TopicData
Partition = AssignReplicasToDirsRequest.PartitionData


def with_directories() -> Controller:
    """Two brokers, of which the first has two directories, and a topic with two partitions."""
    controller = Controller()
    controller.register(1, log_dirs=[A, B])
    controller.heartbeat(1)
    controller.start(2)
    controller.create("t", [[1, 2], [1, 2]])
    return controller


def assign(controller: Controller, *places: tuple[Uuid, Uuid, int], broker_id: int = 1) -> list[int]:
    """Says where replicas lie, each by directory, topic and index; the error codes."""
    request = AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=controller.epoch(broker_id),
        directories=[
            Directory(
                id=directory, topics=[Topic(topic_id=topic, partitions=[Partition(partition_index=index)])]
            )
            for directory, topic, index in places
        ],
    )
    response = controller.carry_out(controller.state.assign_replicas(request))
    assert response.error_code == 0
    return [response.directories[n].topics[0].partitions[0].error_code for n in range(len(places))]


def test_the_controller_remembers_where_replicas_lie() -> None:
    controller = with_directories()
    topic = controller.state.image.topics["t"].id
    assert assign(controller, (A, topic, 0), (B, topic, 1)) == [0, 0]
    image = controller.state.image
    assert image.brokers[1].log_dirs == (A, B)
    assert [image.directory_of(topic, index, 1) for index in (0, 1)] == [A, B]
    assert image.directory_of(topic, 0, 2) is None
    assert controller.log[-1] == AssignReplicaRecord(topic, 1, 1, B)


def test_what_is_no_replica_of_the_broker_is_refused() -> None:
    controller = with_directories()
    controller.create("u", [[2]])
    known, other = (controller.state.image.topics[name].id for name in ("t", "u"))
    codes = assign(controller, (A, A, 0), (A, known, 7), (A, other, 0))
    assert codes == [UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER]
    assert controller.state.image.directories == {}


def test_an_old_incarnation_has_nothing_to_say() -> None:
    controller = with_directories()
    request = AssignReplicasToDirsRequest(broker_id=1, broker_epoch=99)
    assert controller.state.assign_replicas(request).response.error_code == STALE_BROKER_EPOCH


def test_others_lead_what_lay_in_a_directory_that_is_lost_and_nothing_else() -> None:
    controller = with_directories()
    topic = controller.state.image.topics["t"].id
    assign(controller, (A, topic, 0), (B, topic, 1))
    answer = controller.heartbeat(1, offline_log_dirs=[A])
    assert (answer.error_code, answer.is_fenced) == (0, False)
    assert state_of(controller.partition("t", 0)) == (2, (2,))
    assert state_of(controller.partition("t", 1)) == (1, (1, 2))
    assert controller.state.image.brokers[1].log_dirs == (B,)


def test_a_directory_is_lost_once() -> None:
    controller = with_directories()
    controller.heartbeat(1, offline_log_dirs=[A])
    assert controller.log[-1] == BrokerChangeRecord(1, controller.epoch(1), log_dirs=(B,))
    written = len(controller.log)
    controller.heartbeat(1, offline_log_dirs=[A])
    assert len(controller.log) == written


def test_a_replica_that_is_lost_does_not_lead_again() -> None:
    controller = with_directories()
    topic = controller.state.image.topics["t"].id
    assign(controller, (A, topic, 0), (B, topic, 1))
    controller.heartbeat(1, offline_log_dirs=[A])
    controller.heartbeat(2, want_shut_down=True)
    assert controller.partition("t", 0).leader == NO_LEADER
    assert controller.partition("t", 1).leader == 1


def test_a_replica_whose_directory_was_lost_before_it_was_named_is_led_by_others() -> None:
    controller = with_directories()
    topic = controller.state.image.topics["t"].id
    controller.heartbeat(1, offline_log_dirs=[A])
    assert state_of(controller.partition("t", 0)) == (1, (1, 2))
    assign(controller, (A, topic, 0))
    assert state_of(controller.partition("t", 0)) == (2, (2,))


def test_a_deleted_topic_takes_its_places_with_it() -> None:
    controller = with_directories()
    topic = controller.state.image.topics["t"].id
    assign(controller, (A, topic, 0))
    controller.commit([RemoveTopicRecord(topic)])
    assert controller.state.image.directories == {}


def test_a_snapshot_has_the_directories() -> None:
    controller = with_directories()
    topic = controller.state.image.topics["t"].id
    assign(controller, (A, topic, 0), (B, topic, 1))
    image = controller.state.image
    assert read_snapshot(write_snapshot(image, 0), image.offset + 1) == image


def test_a_replica_that_turns_out_to_be_in_another_directory_leads_again() -> None:
    controller = with_directories()
    controller.create("alone", [[1]])
    topic = controller.state.image.topics["alone"].id
    assign(controller, (A, topic, 0))
    controller.heartbeat(1, offline_log_dirs=[A])
    assert controller.state.image.topics["alone"].partitions[0].leader == NO_LEADER
    assign(controller, (B, topic, 0))
    assert controller.state.image.topics["alone"].partitions[0].leader == 1
