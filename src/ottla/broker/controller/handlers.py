"""The controller's APIs: each lets the state machine decide, and the node carry the decision out.

Brokers send their own (registration, heartbeats, the metadata log, producer ids) and, in envelopes, what their
clients want changed. Every rule is in the state machine.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.metadata.names import METADATA_TOPIC
from ottla.broker.metadata.snapshots import SnapshotId
from ottla.broker.security.principal import KafkaPrincipal
from ottla.broker.server.refusals import (
    refuse_alter_configs,
    refuse_alter_reassignments,
    refuse_create_partitions,
    refuse_create_topics,
    refuse_delete_topics,
    refuse_elect_leaders,
    refuse_incremental_alter_configs,
)
from ottla.broker.server.registry import Registry
from ottla.errors import (
    BrokerError,
    DecodeError,
    EncodeError,
    PrincipalDeserializationFailureError,
    ProtocolError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from ottla.wire import Message, decode_request, encode_response
from ottla.wire.messages import (
    AllocateProducerIdsRequest,
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    EnvelopeRequest,
    EnvelopeResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
    UpdateFeaturesRequest,
)

if TYPE_CHECKING:
    from ottla.broker.controller.node import ControllerNode
    from ottla.broker.server.call import Call

CONTROLLER = Registry()
handles = CONTROLLER.handles

_BY_NAME: Final = range(12, 13)
"""The metadata log is fetched by name, with the broker's id at the top of the request."""
_UNKNOWN_TOPIC: Final = 3
_INVALID_REQUEST: Final = 42
_UNSUPPORTED_VERSION: Final = 35


@handles(FetchRequest, versions=_BY_NAME)
async def fetch(controller: ControllerNode, request: FetchRequest, call: Call) -> FetchResponse:
    (topic,) = request.topics
    (requested,) = topic.partitions
    partition = FetchResponse.PartitionData(partition_index=requested.partition, high_watermark=-1)
    if topic.topic != METADATA_TOPIC or requested.partition != 0:
        partition.error_code = _UNKNOWN_TOPIC
    elif (snapshot := controller.snapshot_for(requested.fetch_offset)) is not None:
        partition.snapshot_id = FetchResponse.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch)
    else:
        partition.records = await controller.read(
            request.replica_id,
            requested.fetch_offset,
            requested.partition_max_bytes,
            request.max_wait_ms / 1000,
        )
        partition.high_watermark = controller.log_end_offset
    return FetchResponse(
        responses=[FetchResponse.FetchableTopicResponse(topic=topic.topic, partitions=[partition])]
    )


@handles(FetchSnapshotRequest, versions=range(1))
def fetch_snapshot(
    controller: ControllerNode, request: FetchSnapshotRequest, call: Call
) -> FetchSnapshotResponse:
    """For a node that is behind the start of the metadata log (KIP-630)."""
    (topic,) = request.topics
    (requested,) = topic.partitions
    wanted = requested.snapshot_id
    result = FetchSnapshotResponse.PartitionSnapshot(
        index=requested.partition,
        snapshot_id=FetchSnapshotResponse.SnapshotId(end_offset=wanted.end_offset, epoch=wanted.epoch),
        position=requested.position,
        unaligned_records=b"",
    )
    try:
        if topic.name != METADATA_TOPIC or requested.partition != 0:
            raise UnknownTopicOrPartitionError
        result.unaligned_records, result.size = controller.read_snapshot(
            SnapshotId(wanted.end_offset, wanted.epoch), requested.position, request.max_bytes
        )
    except BrokerError as error:
        result.error_code = error.code
    return FetchSnapshotResponse(
        topics=[FetchSnapshotResponse.TopicSnapshot(name=topic.name, partitions=[result])]
    )


@handles(EnvelopeRequest, versions=range(1))
async def envelope(controller: ControllerNode, request: EnvelopeRequest, call: Call) -> EnvelopeResponse:
    """A client's request, as a broker got it, and the principal for whom it forwards it (KIP-590)."""
    try:
        principal = KafkaPrincipal.from_bytes(request.request_principal)
    except DecodeError as error:
        raise PrincipalDeserializationFailureError(
            f"Failed to deserialize client principal from envelope: {error}"
        ) from error
    try:
        header, inner = decode_request(request.request_data)
    except ProtocolError:
        return EnvelopeResponse(error_code=_INVALID_REQUEST)
    handler = controller.dispatcher.handlers.get(header.request_api_key)
    version = header.request_api_version
    if handler is None or version not in handler.versions:
        return EnvelopeResponse(error_code=_UNSUPPORTED_VERSION)
    try:
        result = handler.function(controller, inner, call.enclosed(header, handler, inner, principal))
        response = await result if inspect.isawaitable(result) else result
    except BrokerError as error:
        response = handler.refuse(inner, error)
    assert isinstance(response, Message)
    try:
        encoded = encode_response(response, version, header.correlation_id)
    except EncodeError:
        # An error message that is too long for the protocol, for instance, as a bad value may make it.
        refused = handler.refuse(inner, UnknownServerError())
        assert refused is not None
        encoded = encode_response(refused, version, header.correlation_id)
    return EnvelopeResponse(response_data=b"".join(encoded)[4:])


@handles(BrokerRegistrationRequest, versions=range(5))
async def register(controller: ControllerNode, request: BrokerRegistrationRequest, call: Call) -> Any:
    decision = controller.state.register_broker(request, controller.now())
    controller.commit(decision.records)
    return decision.response


@handles(BrokerHeartbeatRequest, versions=range(3))
async def heartbeat(controller: ControllerNode, request: BrokerHeartbeatRequest, call: Call) -> Any:
    decision = controller.state.broker_heartbeat(request, controller.now())
    offset = controller.commit(decision.records)
    if request.want_shut_down and not decision.response.error_code and not decision.response.should_shut_down:
        # The others learn who leads instead, and then it may go: with the next heartbeat, which is this one.
        await controller.known_to_nodes(offset)
        decision = controller.state.broker_heartbeat(request, controller.now())
        controller.commit(decision.records)
    return decision.response


@handles(AssignReplicasToDirsRequest, versions=range(1))
def assign_replicas_to_dirs(
    controller: ControllerNode, request: AssignReplicasToDirsRequest, call: Call
) -> Any:
    decision = controller.state.assign_replicas(request)
    controller.commit(decision.records)
    return decision.response


@handles(AllocateProducerIdsRequest, versions=range(1))
def allocate_producer_ids(controller: ControllerNode, request: AllocateProducerIdsRequest, call: Call) -> Any:
    decision = controller.state.allocate_producer_ids(request)
    controller.commit(decision.records)
    return decision.response


@handles(AlterPartitionRequest, versions=range(2, 4))
async def alter_partition(controller: ControllerNode, request: AlterPartitionRequest, call: Call) -> Any:
    """Answers at once: a leader's high watermark waits for it, and only that leader has to know."""
    decision = controller.state.alter_partition(request, call.version)
    controller.commit(decision.records)
    return decision.response


@handles(CreateTopicsRequest, versions=range(2, 8), refuse=refuse_create_topics)
async def create_topics(controller: ControllerNode, request: CreateTopicsRequest, call: Call) -> Any:
    return await controller.carry_out(controller.state.create_topics(request, call.version))


@handles(DeleteTopicsRequest, versions=range(1, 7), refuse=refuse_delete_topics)
async def delete_topics(controller: ControllerNode, request: DeleteTopicsRequest, call: Call) -> Any:
    return await controller.carry_out(controller.state.delete_topics(request, call.version))


@handles(CreatePartitionsRequest, versions=range(4), refuse=refuse_create_partitions)
async def create_partitions(controller: ControllerNode, request: CreatePartitionsRequest, call: Call) -> Any:
    return await controller.carry_out(controller.state.create_partitions(request))


@handles(AlterConfigsRequest, versions=range(3), refuse=refuse_alter_configs)
async def alter_configs(controller: ControllerNode, request: AlterConfigsRequest, call: Call) -> Any:
    return await controller.carry_out(controller.state.alter_configs(request))


@handles(IncrementalAlterConfigsRequest, versions=range(2), refuse=refuse_incremental_alter_configs)
async def incremental_alter_configs(
    controller: ControllerNode, request: IncrementalAlterConfigsRequest, call: Call
) -> Any:
    return await controller.carry_out(controller.state.incremental_alter_configs(request))


@handles(ElectLeadersRequest, versions=range(3), refuse=refuse_elect_leaders)
async def elect_leaders(controller: ControllerNode, request: ElectLeadersRequest, call: Call) -> Any:
    return await controller.carry_out(controller.state.elect_leaders(request))


@handles(AlterPartitionReassignmentsRequest, versions=range(2), refuse=refuse_alter_reassignments)
async def alter_partition_reassignments(
    controller: ControllerNode, request: AlterPartitionReassignmentsRequest, call: Call
) -> Any:
    return await controller.carry_out(controller.state.alter_partition_reassignments(request))


@handles(ListPartitionReassignmentsRequest, versions=range(1))
def list_partition_reassignments(
    controller: ControllerNode, request: ListPartitionReassignmentsRequest, call: Call
) -> Any:
    return controller.state.list_partition_reassignments(request)


@handles(UpdateFeaturesRequest, versions=range(3))
async def update_features(controller: ControllerNode, request: UpdateFeaturesRequest, call: Call) -> Any:
    return await controller.carry_out(controller.state.update_features(request, call.version))
