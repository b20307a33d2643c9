"""The controller's APIs, over the wire: what brokers send for themselves, and what they forward in envelopes."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from ottla import sim
from ottla.broker.controller.node import ControllerNode
from ottla.broker.metadata.names import METADATA_TOPIC
from ottla.broker.metadata.records import read_records
from ottla.broker.metadata.snapshots import SnapshotId, read_snapshot
from ottla.broker.security.principal import ANONYMOUS, KafkaPrincipal
from ottla.broker.server.call import Call
from ottla.errors import (
    ElectionNotNeededError,
    InconsistentClusterIdError,
    InvalidConfigError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    PositionOutOfRangeError,
    PrincipalDeserializationFailureError,
    RequestTimedOutError,
    SnapshotNotFoundError,
    StaleBrokerEpochError,
    TopicAlreadyExistsError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from ottla.net.channel import Channel
from ottla.wire import Message, decode_response, encode_request
from ottla.wire.apis import api_for_key, api_named
from ottla.wire.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    EnvelopeRequest,
    EnvelopeResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    MetadataRequest,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ottla.wire.resources import ConfigOperation, ConfigResourceType
from tests.broker.controller.lone import (
    beat,
    create,
    join,
    new_topic,
    registration,
    with_controller,
)

_R = TypeVar("_R", bound=Message)

CREATE_TOPICS = api_named("CreateTopics")
ALICE = KafkaPrincipal("User", "alice")

EACH_DECISION_IS_A_SNAPSHOT: dict[str, object] = {
    "metadata_log_max_record_bytes_between_snapshots": 1,
    "metadata_max_retention_bytes": 1,
}


class Broker:
    """A connection to the controller, as a broker has it."""

    def __init__(self, runtime: sim.SimRuntime, controller: ControllerNode, channel: Channel) -> None:
        self.clock = runtime.clock
        self.controller = controller
        self._channel = channel

    async def request(self, request: Message, version: int, expected: type[_R]) -> _R:
        response = await self._channel.request(request, version, 1000.0)
        assert isinstance(response, expected)
        return response

    async def fetch(self, offset: int, topic: str = METADATA_TOPIC, partition: int = 0) -> FetchResponse:
        requested = FetchRequest.FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20
        )
        topics = [FetchRequest.FetchTopic(topic=topic, partitions=[requested])]
        return await self.request(FetchRequest(replica_id=1, max_wait_ms=0, topics=topics), 12, FetchResponse)

    async def fetch_snapshot(
        self, snapshot: SnapshotId, position: int = 0, topic: str = METADATA_TOPIC, most: int = 1 << 20
    ) -> FetchSnapshotResponse.PartitionSnapshot:
        named = FetchSnapshotRequest.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch)
        wanted = FetchSnapshotRequest.PartitionSnapshot(snapshot_id=named, position=position)
        topics = [FetchSnapshotRequest.TopicSnapshot(name=topic, partitions=[wanted])]
        request = FetchSnapshotRequest(replica_id=1, max_bytes=most, topics=topics)
        return (await self.request(request, 0, FetchSnapshotResponse)).topics[0].partitions[0]

    async def heartbeat(self, broker_id: int, **fields: Any) -> BrokerHeartbeatResponse:
        image = self.controller.state.image
        fields.setdefault("broker_epoch", image.brokers[broker_id].epoch)
        request = BrokerHeartbeatRequest(broker_id=broker_id, current_metadata_offset=image.offset, **fields)
        return await self.request(request, 1, BrokerHeartbeatResponse)

    async def enclose(self, principal: bytes | None, data: bytes) -> EnvelopeResponse:
        envelope = EnvelopeRequest(
            request_data=data, request_principal=principal, client_host_address=b"\x7f\0\0\1"
        )
        return await self.request(envelope, 0, EnvelopeResponse)

    async def forward(self, request: Message, version: int, expected: type[_R]) -> _R:
        """The response to a client's request, sent in an envelope."""
        envelope = await self.enclose(ANONYMOUS.to_bytes(), data_of(request, version))
        assert envelope.error_code == 0
        assert envelope.response_data is not None
        response = decode_response(api_for_key(request.API_KEY), version, envelope.response_data)
        assert isinstance(response, expected)
        return response


def run(body: Callable[[Broker], Awaitable[None]], **config: object) -> None:
    async def connected(runtime: sim.SimRuntime, controller: ControllerNode) -> None:
        channel = await Channel.open(runtime, controller.host, controller.port, client_id="node-1-forward")
        try:
            await body(Broker(runtime, controller, channel))
        finally:
            channel.close()
            await channel.wait_closed()

    with_controller(connected, **config)


def record_calls(controller: ControllerNode) -> list[Call]:
    """The calls of CreateTopics from now on."""
    calls: list[Call] = []
    handlers: Any = controller.dispatcher.handlers
    original = handlers[CREATE_TOPICS.key]

    def recorded(node: ControllerNode, request: Message, call: Call) -> Any:
        calls.append(call)
        return original.function(node, request, call)

    handlers[CREATE_TOPICS.key] = dataclasses.replace(original, function=recorded)
    return calls


def data_of(request: Message, version: int) -> bytes:
    return b"".join(encode_request(request, version, 1, "client"))[4:]


# What brokers send for themselves


def test_the_metadata_log_is_fetched_by_its_name() -> None:
    async def body(broker: Broker) -> None:
        join(broker.controller, 1)
        (topic,) = (await broker.fetch(0)).responses
        (partition,) = topic.partitions
        assert (topic.topic, partition.error_code) == (METADATA_TOPIC, 0)
        assert partition.high_watermark == broker.controller.log_end_offset
        assert partition.records is not None
        assert len(list(read_records(partition.records, 0))) == broker.controller.log_end_offset

    run(body)


@pytest.mark.parametrize(("topic", "partition"), [("orders", 0), (METADATA_TOPIC, 1)])
def test_no_other_log_is_fetched_from_the_controller(topic: str, partition: int) -> None:
    async def body(broker: Broker) -> None:
        (result,) = (await broker.fetch(0, topic, partition)).responses[0].partitions
        assert result.error_code == UnknownTopicOrPartitionError.code
        assert (result.partition_index, result.high_watermark, result.records) == (partition, -1, None)

    run(body)


def test_a_fetch_from_before_the_log_names_the_snapshot_which_is_fetched_in_parts() -> None:
    async def body(broker: Broker) -> None:
        join(broker.controller, 1, 2)
        (result,) = (await broker.fetch(0)).responses[0].partitions
        assert result.records is None
        named = result.snapshot_id
        assert named is not None
        snapshot = SnapshotId(named.end_offset, named.epoch)
        whole = await broker.fetch_snapshot(snapshot)
        assert (whole.error_code, whole.size) == (0, len(whole.unaligned_records or b""))
        assert read_snapshot(whole.unaligned_records or b"", snapshot.end_offset).brokers.keys() == {1, 2}
        part = await broker.fetch_snapshot(snapshot, position=10, most=5)
        assert (part.unaligned_records, part.size) == ((whole.unaligned_records or b"")[10:15], whole.size)

    run(body, **EACH_DECISION_IS_A_SNAPSHOT)


def test_what_is_no_part_of_a_snapshot_is_refused() -> None:
    async def body(broker: Broker) -> None:
        join(broker.controller, 1, 2)
        snapshot = broker.controller.snapshot_for(0)
        assert snapshot is not None
        size = (await broker.fetch_snapshot(snapshot)).size
        other = SnapshotId(snapshot.end_offset, snapshot.epoch + 1)
        assert (await broker.fetch_snapshot(other)).error_code == SnapshotNotFoundError.code
        for position in (-1, size):
            refused = await broker.fetch_snapshot(snapshot, position)
            assert refused.error_code == PositionOutOfRangeError.code
        elsewhere = await broker.fetch_snapshot(snapshot, topic="orders")
        assert elsewhere.error_code == UnknownTopicOrPartitionError.code

    run(body, **EACH_DECISION_IS_A_SNAPSHOT)


def test_a_broker_is_registered_fenced_and_unfenced_by_its_heartbeat() -> None:
    async def body(broker: Broker) -> None:
        brokers = broker.controller.state.image.brokers
        response = await broker.request(registration(1, rack="a"), 4, BrokerRegistrationResponse)
        assert (response.error_code, response.broker_epoch) == (0, brokers[1].epoch)
        assert (brokers[1].fenced, brokers[1].rack, brokers[1].port) == (True, "a", 9001)
        assert not (await broker.heartbeat(1)).is_fenced
        assert not brokers[1].fenced

    run(body)


def test_a_registration_or_a_heartbeat_that_is_refused_changes_nothing() -> None:
    async def body(broker: Broker) -> None:
        join(broker.controller, 1)
        end = broker.controller.log_end_offset
        response = await broker.request(registration(2, cluster_id="another"), 4, BrokerRegistrationResponse)
        assert (response.error_code, response.broker_epoch) == (InconsistentClusterIdError.code, -1)
        assert (await broker.heartbeat(1, broker_epoch=0)).error_code == StaleBrokerEpochError.code
        assert broker.controller.log_end_offset == end

    run(body)


def test_a_broker_that_leads_may_go_when_the_others_know_who_leads_instead() -> None:
    async def body(broker: Broker) -> None:
        controller = broker.controller
        join(controller, 1, 2)
        await create(controller, "orders", 1, 2)
        beat(controller, 2)
        end = controller.log_end_offset
        following = asyncio.ensure_future(controller.read(2, end, 1 << 20, 60))
        leaving = asyncio.ensure_future(broker.heartbeat(1, want_shut_down=True))
        await following
        await broker.clock.sleep(0.5)
        assert not leaving.done(), "node 2 has not said that it has the news"
        following = asyncio.ensure_future(controller.read(2, controller.log_end_offset, 1 << 20, 60))
        assert (await leaving).should_shut_down
        await following
        assert controller.state.image.brokers[1].fenced
        assert controller.state.image.topics["orders"].partitions[0].leader == 2

    run(body)


def test_a_broker_that_leads_stays_while_another_does_not_hear_of_it() -> None:
    async def body(broker: Broker) -> None:
        join(broker.controller, 1, 2)
        await create(broker.controller, "orders", 1, 2)
        began = broker.clock.monotonic()
        following = asyncio.ensure_future(
            broker.controller.read(2, broker.controller.log_end_offset, 1 << 20, 60)
        )
        assert not (await broker.heartbeat(1, want_shut_down=True)).should_shut_down
        assert broker.clock.monotonic() - began >= 1
        await following

    run(body)


def test_every_block_of_producer_ids_is_handed_out_once() -> None:
    async def body(broker: Broker) -> None:
        join(broker.controller, 1)
        epoch = broker.controller.state.image.brokers[1].epoch
        request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
        blocks = [await broker.request(request, 0, AllocateProducerIdsResponse) for _ in range(3)]
        starts = [(block.error_code, block.producer_id_start, block.producer_id_len) for block in blocks]
        assert starts == [(0, 0, 1000), (0, 1000, 1000), (0, 2000, 1000)]

    run(body)


def test_a_leader_alters_its_partition_without_waiting_for_other_nodes() -> None:
    async def body(broker: Broker) -> None:
        controller = broker.controller
        join(controller, 1, 2)
        await create(controller, "orders", 1, 2)
        topic = controller.state.image.topics["orders"]
        partition = topic.partitions[0]
        state = AlterPartitionRequest.BrokerState(
            broker_id=1, broker_epoch=controller.state.image.brokers[1].epoch
        )
        altered = AlterPartitionRequest.PartitionData(
            partition_index=0,
            leader_epoch=partition.leader_epoch,
            new_isr_with_epochs=[state],
            partition_epoch=partition.partition_epoch,
        )
        request = AlterPartitionRequest(
            broker_id=1,
            broker_epoch=state.broker_epoch,
            topics=[AlterPartitionRequest.TopicData(topic_id=topic.id, partitions=[altered])],
        )
        await broker.fetch(0)  # as broker 1, which so becomes a node that other responses wait for
        began = broker.clock.monotonic()
        response = await broker.request(request, 3, AlterPartitionResponse)
        assert response.topics[0].partitions[0].error_code == 0
        assert topic.partitions[0].isr == (1,)
        assert broker.clock.monotonic() - began < 0.5, "it waits for no node to read the decision"

    run(body)


# What brokers forward


def test_an_envelope_has_the_request_of_a_client_and_gets_the_response_to_it() -> None:
    async def body(broker: Broker) -> None:
        join(broker.controller, 1)
        calls = record_calls(broker.controller)
        response = await broker.enclose(ALICE.to_bytes(), data_of(new_topic("orders", 1), 7))
        assert response.error_code == 0
        (call,) = calls
        assert (call.principal, call.client_id, call.version) == (ALICE, "client", 7)
        assert call.listener == "CONTROLLER"
        assert response.response_data is not None
        created = decode_response(CREATE_TOPICS, 7, response.response_data)
        assert isinstance(created, CreateTopicsResponse)
        assert [(topic.name, topic.error_code) for topic in created.topics] == [("orders", 0)]

    run(body)


@pytest.mark.parametrize("principal", [None, b"", b"\0\1", b"\0\0\x05User", b"\0\0\x05User\xffalice"])
def test_a_principal_that_cannot_be_read_fails_the_envelope(principal: bytes | None) -> None:
    async def body(broker: Broker) -> None:
        join(broker.controller, 1)
        calls = record_calls(broker.controller)
        response = await broker.enclose(principal, data_of(new_topic("orders", 1), 7))
        assert response.error_code == PrincipalDeserializationFailureError.code == 97
        assert response.response_data is None
        # As in Kafka, the principal is read before the request.
        response = await broker.enclose(principal, b"no request")
        assert response.error_code == PrincipalDeserializationFailureError.code
        assert not calls
        assert "orders" not in broker.controller.state.image.topics

    run(body)


def test_what_is_no_request_or_none_for_the_controller_fails_the_envelope() -> None:
    async def body(broker: Broker) -> None:
        principal = ANONYMOUS.to_bytes()
        response = await broker.enclose(principal, b"no request")
        assert response.error_code == InvalidRequestError.code
        response = await broker.enclose(principal, data_of(MetadataRequest(), 12))
        assert response.error_code == UnsupportedVersionError.code

    run(body)


def test_a_refused_request_is_a_response_inside_of_the_envelope() -> None:
    async def body(broker: Broker) -> None:
        join(broker.controller, 1)
        await create(broker.controller, "orders", 1)
        response = await broker.forward(new_topic("orders", 1), 7, CreateTopicsResponse)
        assert response.topics[0].error_code == TopicAlreadyExistsError.code
        out_of_time = new_topic("late", 1)
        out_of_time.timeout_ms = 0
        response = await broker.forward(out_of_time, 7, CreateTopicsResponse)
        results = [(topic.name, topic.error_code) for topic in response.topics]
        assert results == [("late", RequestTimedOutError.code)]

    run(body)


def test_a_response_that_has_no_room_for_its_error_message_is_an_unknown_error() -> None:
    async def body(broker: Broker) -> None:
        join(broker.controller, 1)
        for length, code in ((100, InvalidConfigError.code), (32_760, UnknownServerError.code)):
            config = CreateTopicsRequest.CreatableTopicConfig(name="retention.ms", value="x" * length)
            request = new_topic("orders", 1, configs=[config])
            (topic,) = (await broker.forward(request, 7, CreateTopicsResponse)).topics
            assert (topic.name, topic.error_code) == ("orders", code)

    run(body)


def test_topics_are_created_grown_configured_moved_and_deleted() -> None:
    """Each of these requests lets the state machine decide, and what it decides is in the image."""

    async def body(broker: Broker) -> None:
        controller, image = broker.controller, broker.controller.state.image
        join(controller, 1, 2)
        created = await broker.forward(new_topic("orders", 1, 2), 7, CreateTopicsResponse)
        assert created.topics[0].error_code == 0

        growth = CreatePartitionsRequest.CreatePartitionsTopic(name="orders", count=2, assignments=None)
        grown = await broker.forward(
            CreatePartitionsRequest(topics=[growth], timeout_ms=1000), 3, CreatePartitionsResponse
        )
        assert grown.results[0].error_code == 0
        assert len(image.topics["orders"].partitions) == 2

        kind = ConfigResourceType.TOPIC
        whole = AlterConfigsRequest.AlterConfigsResource(
            resource_type=kind,
            resource_name="orders",
            configs=[AlterConfigsRequest.AlterableConfig(name="retention.ms", value="7")],
        )
        replaced = await broker.forward(AlterConfigsRequest(resources=[whole]), 2, AlterConfigsResponse)
        assert replaced.responses[0].error_code == 0
        assert image.config_overrides(kind, "orders") == {"retention.ms": "7"}

        change = IncrementalAlterConfigsRequest.AlterableConfig(
            name="segment.ms", config_operation=ConfigOperation.SET, value="9"
        )
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=kind, resource_name="orders", configs=[change]
        )
        changed = await broker.forward(
            IncrementalAlterConfigsRequest(resources=[resource]), 1, IncrementalAlterConfigsResponse
        )
        assert changed.responses[0].error_code == 0
        assert image.config_overrides(kind, "orders") == {"retention.ms": "7", "segment.ms": "9"}

        topics = [ElectLeadersRequest.TopicPartitions(topic="orders", partitions=[0])]
        elected = await broker.forward(
            ElectLeadersRequest(topic_partitions=topics, timeout_ms=1000), 2, ElectLeadersResponse
        )
        (result,) = elected.replica_election_results[0].partition_result
        assert result.error_code == ElectionNotNeededError.code

        moved = AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=0, replicas=[2, 1])
        reassigned = await broker.forward(
            AlterPartitionReassignmentsRequest(
                timeout_ms=1000,
                topics=[
                    AlterPartitionReassignmentsRequest.ReassignableTopic(name="orders", partitions=[moved])
                ],
            ),
            1,
            AlterPartitionReassignmentsResponse,
        )
        assert reassigned.responses[0].partitions[0].error_code == 0
        assert image.topics["orders"].partitions[0].replicas == (2, 1)
        listed = await broker.forward(
            ListPartitionReassignmentsRequest(timeout_ms=1000), 0, ListPartitionReassignmentsResponse
        )
        assert (listed.error_code, listed.topics) == (0, [])

        state = [DeleteTopicsRequest.DeleteTopicState(name="orders")]
        deleted = await broker.forward(
            DeleteTopicsRequest(topics=state, timeout_ms=1000), 6, DeleteTopicsResponse
        )
        assert deleted.responses[0].error_code == 0
        assert image.topics == {}

    run(body)


@pytest.mark.parametrize(("level", "error"), [(30, 0), (31, InvalidUpdateVersionError.code)])
def test_features_are_updated_to_levels_that_are_supported(level: int, error: int) -> None:
    async def body(broker: Broker) -> None:
        update = UpdateFeaturesRequest.FeatureUpdateKey(
            feature="metadata.version", max_version_level=level, upgrade_type=1
        )
        request = UpdateFeaturesRequest(timeout_ms=1000, feature_updates=[update])
        end = broker.controller.log_end_offset
        assert (await broker.forward(request, 1, UpdateFeaturesResponse)).error_code == error
        assert broker.controller.log_end_offset == end + (not error)
        assert broker.controller.state.image.features["metadata.version"] == 30

    run(body)
