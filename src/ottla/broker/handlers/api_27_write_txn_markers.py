"""WriteTxnMarkers: end transactions in the partitions that this node leads, as their coordinator has decided.

For transaction coordinators, and for an administrator who aborts a transaction that hangs. Each marker is a control
batch, and is answered when it is on all replicas in sync, or request.timeout.ms have passed; a coordinator writes it
again until it is. A partition that is not on this node is UNKNOWN_TOPIC_OR_PARTITION. An older coordinator is
TRANSACTION_COORDINATOR_FENCED, an older producer INVALID_PRODUCER_EPOCH; with the transaction version of 2, which
version 2 of the request can say (KIP-1228), each transaction has an epoch of its own, and the marker a later one.

In partitions of the offsets topic the marker ends what the group coordinator has pending as well. Its own errors,
that it is not there or still loads, are NOT_LEADER_OR_FOLLOWER here: the transaction coordinator tries again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from ottla._native.record_batch import Batch, whole_batch
from ottla.broker.coordinator.internal_topics import OFFSETS_TOPIC
from ottla.broker.log.producers import Origin
from ottla.broker.replication.acknowledged import AwaitedAppend
from ottla.broker.replication.partition import ACKS_ALL, PartitionKey
from ottla.broker.server.registry import handles
from ottla.errors import (
    BrokerError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    NotLeaderOrFollowerError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from ottla.wire.batches import ControlType, end_transaction_marker
from ottla.wire.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

_NOT_LEADING: Final = (CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError)

_NO_ID: Final = -1

RequestedMarker = WriteTxnMarkersRequest.WritableTxnMarker
MarkedProducers = dict[int, dict[PartitionKey, int]]
"""The codes of all partitions, by producer."""


def _refuse(request: WriteTxnMarkersRequest, error: BrokerError) -> WriteTxnMarkersResponse:
    return _response(
        {marker.producer_id: dict.fromkeys(_partitions(marker), error.code) for marker in request.markers}
    )


@handles(WriteTxnMarkersRequest, versions=range(1, 3), refuse=_refuse)
def write_txn_markers(
    node: NodeContext, request: WriteTxnMarkersRequest, call: Call
) -> WriteTxnMarkersResponse | Coroutine[Any, Any, WriteTxnMarkersResponse]:
    if any(_NO_ID in (marker.producer_id, marker.producer_epoch) for marker in request.markers):
        # Kafka fails inside, where it makes the batch.
        raise UnknownServerError
    codes: MarkedProducers = {}
    waiting: list[tuple[dict[PartitionKey, int], AwaitedAppend]] = []
    groups: list[tuple[dict[PartitionKey, int], RequestedMarker, PartitionKey]] = []
    for marker in request.markers:
        results = codes.setdefault(marker.producer_id, {})
        for key in _partitions(marker):
            results[key] = 0
            try:
                call.check(*key)
                if key not in node.replicas.partitions:
                    raise UnknownTopicOrPartitionError(topic=key[0], partition=key[1], broker=node.id)
                if key[0] == OFFSETS_TOPIC:
                    groups.append((results, marker, key))
                    continue
                appended = _append(node, marker, key)
            except BrokerError as error:
                results[key] = error.code
            else:
                if not appended.is_over:
                    waiting.append((results, appended))
    if not waiting and not groups:
        return _response(codes)
    return _until_written(node, codes, waiting, groups)


def _partitions(marker: RequestedMarker) -> list[PartitionKey]:
    return [(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]


def control_batch(marker: RequestedMarker, now_ms: int) -> Batch:
    """The batch that a marker is in the log."""
    data = end_transaction_marker(
        ControlType.COMMIT if marker.transaction_result else ControlType.ABORT,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        timestamp=now_ms,
        coordinator_epoch=marker.coordinator_epoch,
    )
    batch = whole_batch(bytearray(data))
    assert batch is not None
    return batch


def _append(node: NodeContext, marker: RequestedMarker, key: PartitionKey) -> AwaitedAppend:
    partition = node.replicas.hosted(*key)
    now_ms = node.now_ms()
    appended = node.replicas.append(
        partition,
        control_batch(marker, now_ms),
        ACKS_ALL,
        now_ms,
        origin=Origin.COORDINATOR,
        transaction_version=marker.transaction_version,
    )
    return AwaitedAppend(partition, appended.last_offset + 1)


async def _until_written(
    node: NodeContext,
    codes: MarkedProducers,
    waiting: list[tuple[dict[PartitionKey, int], AwaitedAppend]],
    groups: list[tuple[dict[PartitionKey, int], RequestedMarker, PartitionKey]],
) -> WriteTxnMarkersResponse:
    # All are waited for at once: one that is slow holds up no other.
    errors, _ = await asyncio.gather(
        asyncio.gather(*(_end_in_groups(node, marker, key) for _, marker, key in groups)),
        _until_replicated(node, [appended for _, appended in waiting]),
    )
    for (results, _, key), error in zip(groups, errors, strict=True):
        results[key] = 0 if error is None else error.code
    for results, appended in waiting:
        error = appended.error()
        results[appended.partition.key] = 0 if error is None else error.code
    return _response(codes)


async def _end_in_groups(node: NodeContext, marker: RequestedMarker, key: PartitionKey) -> BrokerError | None:
    try:
        await node.groups.end_transaction(
            key[1],
            marker.producer_id,
            is_commit=marker.transaction_result,
            marker=control_batch(marker, node.now_ms()),
            transaction_version=marker.transaction_version,
        )
    except BrokerError as error:
        if isinstance(error, _NOT_LEADING):
            return NotLeaderOrFollowerError(topic=key[0], partition=key[1], broker=node.id)
        return error
    return None


async def _until_replicated(node: NodeContext, appended: list[AwaitedAppend]) -> None:
    # Several producers may have ended their transactions in one partition: the last of their markers counts.
    furthest = {each.partition.key: each for each in appended if not each.is_over}
    if furthest:
        await node.replicas.produces.park(
            furthest,
            timeout=node.configs.value("request.timeout.ms") / 1000,
            has_come=lambda key: furthest[key].is_over,
            complete=lambda: None,
        )


def _response(codes: MarkedProducers) -> WriteTxnMarkersResponse:
    response = WriteTxnMarkersResponse()
    for producer_id, results in codes.items():
        topics: dict[str, WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = {}
        for (topic, index), code in results.items():
            topics.setdefault(
                topic, WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(name=topic)
            ).partitions.append(
                WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(
                    partition_index=index, error_code=code
                )
            )
        response.markers.append(
            WriteTxnMarkersResponse.WritableTxnMarkerResult(
                producer_id=producer_id, topics=list(topics.values())
            )
        )
    return response
