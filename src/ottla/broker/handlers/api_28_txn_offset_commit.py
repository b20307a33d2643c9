"""TxnOffsetCommit: offsets of a group that are part of a producer's transaction, at the group's coordinator.

They are pending in the offsets topic, and count when the transaction commits. What the metadata does not have is
refused first, partition by partition: UNKNOWN_TOPIC_OR_PARTITION. If anything is left, the transaction coordinator is
asked whether the group's partition of the offsets topic is part of the transaction, or told so since version 5
(KIP-890), and then the group checks who commits, which producers say since version 3 (KIP-447). A refusal of either
stands at every partition that is left. Versions below 2 know no COORDINATOR_LOAD_IN_PROGRESS: to them it is
COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.coordinator.groups import offset_requests
from ottla.broker.coordinator.internal_topics import OFFSETS_TOPIC
from ottla.broker.coordinator.partition_adds import ProducerSupport, TransactionalProducer
from ottla.broker.coordinator.runtime import TransactionWriter, translate
from ottla.broker.log.batch import NO_SEQUENCE
from ottla.broker.server.registry import handles
from ottla.errors import (
    BrokerError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    InvalidGroupIdError,
    NetworkError,
    UnknownTopicOrPartitionError,
)
from ottla.wire.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

_LOADING_SINCE: Final = 2
_ABORTABLE_SINCE: Final = 4
_ADDED_BY_LEADER_SINCE: Final = 5

RequestedTopic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
RequestedPartition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
CommittedTopic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
CommittedPartition = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition


def _refuse(request: TxnOffsetCommitRequest, error: BrokerError) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[_refused(topic, topic.partitions, error.code) for topic in request.topics]
    )


def _refused(topic: RequestedTopic, partitions: list[RequestedPartition], code: int) -> CommittedTopic:
    return CommittedTopic(
        name=topic.name,
        partitions=[
            CommittedPartition(partition_index=partition.partition_index, error_code=code)
            for partition in partitions
        ],
    )


@handles(TxnOffsetCommitRequest, versions=range(6), refuse=_refuse)
def txn_offset_commit(
    node: NodeContext, request: TxnOffsetCommitRequest, call: Call
) -> TxnOffsetCommitResponse | Coroutine[Any, Any, TxnOffsetCommitResponse]:
    refused: list[CommittedTopic] = []
    known: list[RequestedTopic] = []
    for topic in request.topics:
        partitions: list[RequestedPartition] = []
        missing: list[RequestedPartition] = []
        for each in topic.partitions:
            is_known = node.image.partition(topic.name, each.partition_index) is not None
            (partitions if is_known else missing).append(each)
        if missing:
            refused.append(_refused(topic, missing, UnknownTopicOrPartitionError.code))
        if partitions:
            known.append(RequestedTopic(name=topic.name, partitions=partitions))
    if not known:
        return TxnOffsetCommitResponse(topics=refused)
    request.topics = known
    return _commit(node, request, call.version, refused)


async def _commit(
    node: NodeContext, request: TxnOffsetCommitRequest, version: int, refused: list[CommittedTopic]
) -> TxnOffsetCommitResponse:
    try:
        if not request.group_id:
            raise InvalidGroupIdError
        writer = await _admitted(node, request, version)
        response = await node.groups.write(
            request.group_id,
            lambda shard: offset_requests.commit_transactional(shard, request, version),
            writer,
        )
    except CoordinatorLoadInProgressError as error:
        response = _refuse(request, error if version >= _LOADING_SINCE else CoordinatorNotAvailableError())
    except BrokerError as error:
        response = _refuse(request, error)
    topics = {topic.name: topic for topic in refused}
    for topic in response.topics:
        merged = topics.setdefault(topic.name, topic)
        if merged is not topic:
            merged.partitions += topic.partitions
    return TxnOffsetCommitResponse(topics=list(topics.values()))


async def _admitted(node: NodeContext, request: TxnOffsetCommitRequest, version: int) -> TransactionWriter:
    """The producer as a writer to its group's partition, if the transaction coordinator has nothing against it."""
    support = ProducerSupport.OLD_ERRORS
    if version >= _ADDED_BY_LEADER_SINCE:
        support = ProducerSupport.ADDED_BY_LEADER
    elif version >= _ABORTABLE_SINCE:
        support = ProducerSupport.ABORTABLE
    producer = TransactionalProducer(
        request.transactional_id, request.producer_id, request.producer_epoch, support
    )
    key = (OFFSETS_TOPIC, node.groups.partition_of(request.group_id))
    partitions = {key: NO_SEQUENCE}
    admission = node.partition_adds.begin(producer, partitions)
    if admission.must_ask:
        admission = await node.partition_adds.ask(producer, partitions, admission, patient=False)
    error = admission.errors.get(key)
    if isinstance(error, NetworkError):
        # Clients do not expect that one; with this they try again without looking for another coordinator.
        raise CoordinatorLoadInProgressError
    if error is not None:
        raise translate(error)
    return TransactionWriter(request.producer_id, request.producer_epoch, admission.guards.get(key))
