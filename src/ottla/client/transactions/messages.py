"""The requests of a transactional producer, and which error code of a response counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from ottla.client.produce.producer_id import NO_PRODUCER, ProducerIdentity
from ottla.client.requests.coordinators import CoordinatorType
from ottla.client.topic_partition import TopicPartition
from ottla.client.transactions.calls import CoordinatorRequest
from ottla.client.transactions.error_table import TransactionalCall, consequence_of
from ottla.errors import OperationNotAttemptedError
from ottla.wire import Message
from ottla.wire.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

if TYPE_CHECKING:
    from ottla.client.group.membership import GroupMetadata
    from ottla.client.group.offsets import OffsetAndMetadata

REPLACED_SINCE: Final = 3
"""InitProducerId can name the identity that it replaces (KIP-360)."""
_BATCHED_SINCE: Final = 4
"""From here on AddPartitionsToTxn is what brokers say to one another."""
_END_OF_CLIENT: Final = 4
_OFFSETS_OF_CLIENT: Final = 4
"""The versions above belong to transaction.version 2, and brokers offer them before that is finalized."""
GROUPS_CHECKED_SINCE: Final = 3
"""TxnOffsetCommit names the member, which the coordinator checks (KIP-447)."""


def init_producer(
    transactional_id: str, timeout_ms: int, replaced: ProducerIdentity
) -> CoordinatorRequest[InitProducerIdResponse]:
    def build(version: int) -> Message:
        return InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=replaced.producer_id,
            producer_epoch=replaced.epoch,
        )

    return CoordinatorRequest(
        TransactionalCall.INIT,
        CoordinatorType.TRANSACTION,
        transactional_id,
        InitProducerIdRequest,
        build,
        InitProducerIdResponse,
        lambda response: response.error_code,
        least=0 if replaced == NO_PRODUCER else REPLACED_SINCE,
    )


def add_partitions(
    transactional_id: str, identity: ProducerIdentity, partitions: Iterable[TopicPartition]
) -> CoordinatorRequest[AddPartitionsToTxnResponse]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)

    def build(version: int) -> Message:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=numbers)
                for name, numbers in topics.items()
            ],
        )

    return CoordinatorRequest(
        TransactionalCall.ADD_PARTITIONS,
        CoordinatorType.TRANSACTION,
        transactional_id,
        AddPartitionsToTxnRequest,
        build,
        AddPartitionsToTxnResponse,
        _code_of_partitions,
        most=_BATCHED_SINCE - 1,
    )


def _code_of_partitions(response: AddPartitionsToTxnResponse) -> int:
    codes = [
        partition.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    ]
    # One bad partition keeps all from being added, and it is that one that says why.
    reasons = [code for code in codes if code != OperationNotAttemptedError.code]
    return _worst(TransactionalCall.ADD_PARTITIONS, reasons or codes)


def add_offsets(
    transactional_id: str, identity: ProducerIdentity, group_id: str
) -> CoordinatorRequest[AddOffsetsToTxnResponse]:
    def build(version: int) -> Message:
        return AddOffsetsToTxnRequest(
            transactional_id=transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=group_id,
        )

    return CoordinatorRequest(
        TransactionalCall.ADD_OFFSETS,
        CoordinatorType.TRANSACTION,
        transactional_id,
        AddOffsetsToTxnRequest,
        build,
        AddOffsetsToTxnResponse,
        lambda response: response.error_code,
    )


def commit_offsets(
    transactional_id: str,
    identity: ProducerIdentity,
    group: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    adds: bool,
) -> CoordinatorRequest[TxnOffsetCommitResponse]:
    """`adds`: the request puts the group into the transaction, too."""
    topics: dict[str, list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition]] = {}
    for tp, each in offsets.items():
        topics.setdefault(tp.topic, []).append(
            TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=each.offset,
                committed_leader_epoch=each.leader_epoch,
                committed_metadata=each.metadata,
            )
        )

    def build(version: int) -> Message:
        request = TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=group.group_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=name, partitions=partitions)
                for name, partitions in topics.items()
            ],
        )
        if version >= GROUPS_CHECKED_SINCE:
            request.generation_id = group.generation
            request.member_id = group.member_id
            request.group_instance_id = group.instance_id
        return request

    return CoordinatorRequest(
        TransactionalCall.COMMIT_OFFSETS,
        CoordinatorType.GROUP,
        group.group_id,
        TxnOffsetCommitRequest,
        build,
        TxnOffsetCommitResponse,
        _code_of_offsets,
        most=None if adds else _OFFSETS_OF_CLIENT,
    )


def _code_of_offsets(response: TxnOffsetCommitResponse) -> int:
    codes = [partition.error_code for topic in response.topics for partition in topic.partitions]
    return _worst(TransactionalCall.COMMIT_OFFSETS, codes)


def end_transaction(
    transactional_id: str, identity: ProducerIdentity, *, commit: bool, bumps: bool
) -> CoordinatorRequest[EndTxnResponse]:
    """`bumps`: the epoch grows with it (transaction.version 2)."""

    def build(version: int) -> Message:
        return EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=commit,
        )

    return CoordinatorRequest(
        TransactionalCall.COMMIT if commit else TransactionalCall.ABORT,
        CoordinatorType.TRANSACTION,
        transactional_id,
        EndTxnRequest,
        build,
        EndTxnResponse,
        lambda response: response.error_code,
        most=None if bumps else _END_OF_CLIENT,
    )


def _worst(call: TransactionalCall, codes: Iterable[int]) -> int:
    """The code with the hardest consequence; the first of those."""
    worst = 0
    for code in codes:
        if consequence_of(call, worst) < consequence_of(call, code):
            worst = code
    return worst
