"""AddPartitionsToTxn: partitions that belong to a transaction from now on, told to its coordinator.

Up to version 3 a producer sends it, before it writes to a partition. Since version 4 the leaders of partitions do,
for many transactions at once: to learn whether a transaction has a partition (`verify_only`), or to add one with its
first record (KIP-890). One partition that the metadata does not have fails all of its transaction: the others are
OPERATION_NOT_ATTEMPTED. A producer that is fenced is INVALID_PRODUCER_EPOCH up to version 1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.transactions.state import (
    EPOCH_BUMP_SINCE,
    ProducerIdAndEpoch,
    TopicPartition,
)
from ottla.broker.server.registry import handles
from ottla.errors import (
    BrokerError,
    InvalidProducerEpochError,
    InvalidRequestError,
    OperationNotAttemptedError,
    ProducerFencedError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from ottla.wire.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

_FENCED_SINCE: Final = 2
_MANY_SINCE: Final = 4

RequestedTransaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
RequestedTopic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
PartitionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult


def _refuse(request: AddPartitionsToTxnRequest, error: BrokerError) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        error_code=error.code,
        results_by_topic_v3_and_below=_results(request.v3_and_below_topics, error.code),
    )


def _results(topics: Sequence[RequestedTopic], codes: dict[TopicPartition, int] | int) -> list[TopicResult]:
    """With one code for all, or one for each: then, as in Kafka, without topics that have no partitions."""
    return [
        TopicResult(
            name=topic.name,
            results_by_partition=[
                PartitionResult(
                    partition_index=index,
                    partition_error_code=codes if isinstance(codes, int) else codes[topic.name, index],
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
        if topic.partitions or isinstance(codes, int)
    ]


@handles(AddPartitionsToTxnRequest, versions=range(6), refuse=_refuse)
async def add_partitions_to_txn(
    node: NodeContext, request: AddPartitionsToTxnRequest, call: Call
) -> AddPartitionsToTxnResponse:
    if call.version < _MANY_SINCE:
        transaction = RequestedTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=await _added(node, transaction, call.version)
        )
    added = await asyncio.gather(*(_added(node, each, call.version) for each in request.transactions))
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResponse.AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id, topic_results=results
            )
            for transaction, results in zip(request.transactions, added, strict=True)
        ]
    )


async def _added(node: NodeContext, transaction: RequestedTransaction, version: int) -> list[TopicResult]:
    partitions = [(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    missing = {each for each in partitions if node.image.partition(*each) is None}
    if missing:
        codes = {
            each: UnknownTopicOrPartitionError.code if each in missing else OperationNotAttemptedError.code
            for each in partitions
        }
        return _results(transaction.topics, codes)
    transactional_id = transaction.transactional_id
    producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
    try:
        if transactional_id == "":
            raise InvalidRequestError("a transactional id is not empty")
        if transaction.verify_only:
            verified = await node.transactions.write(
                transactional_id, lambda shard: shard.verify(transactional_id, producer, partitions)
            )
            return _results(transaction.topics, verified)
        # Only leaders that serve producers of transaction.version 2 add partitions since version 4.
        client_version = EPOCH_BUMP_SINCE if version >= _MANY_SINCE else 0
        await node.transactions.write(
            transactional_id, lambda shard: shard.add(transactional_id, producer, partitions, client_version)
        )
    except UnsupportedVersionError:
        raise  # for the whole request: these are leaders of a cluster at another transaction.version
    except ProducerFencedError:
        code = (ProducerFencedError if version >= _FENCED_SINCE else InvalidProducerEpochError).code
    except BrokerError as error:
        code = error.code
    else:
        code = 0
    return _results(transaction.topics, dict.fromkeys(partitions, code) if transaction.verify_only else code)
