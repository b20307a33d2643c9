"""AddOffsetsToTxn: a transaction gets the partition of the offsets topic in which a group has its offsets.

Producers send it before TxnOffsetCommit, up to transaction.version 1. A producer that is fenced is
INVALID_PRODUCER_EPOCH up to version 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.internal_topics import OFFSETS_TOPIC, coordinator_partition
from ottla.broker.coordinator.transactions.state import ProducerIdAndEpoch
from ottla.broker.server.registry import handles
from ottla.errors import InvalidProducerEpochError, InvalidRequestError, ProducerFencedError
from ottla.wire.messages import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

_FENCED_SINCE: Final = 2
_CLIENT_VERSION: Final = 0


@handles(AddOffsetsToTxnRequest, versions=range(5))
async def add_offsets_to_txn(
    node: NodeContext, request: AddOffsetsToTxnRequest, call: Call
) -> AddOffsetsToTxnResponse:
    if request.transactional_id == "":
        raise InvalidRequestError("a transactional id is not empty")
    topic = node.image.topics.get(OFFSETS_TOPIC)
    count = len(topic.partitions) if topic is not None else node.configs.value("offsets.topic.num.partitions")
    partition = (OFFSETS_TOPIC, coordinator_partition(request.group_id, count))
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    try:
        await node.transactions.write(
            request.transactional_id,
            lambda shard: shard.add(request.transactional_id, producer, [partition], _CLIENT_VERSION),
        )
    except ProducerFencedError:
        raise (ProducerFencedError if call.version >= _FENCED_SINCE else InvalidProducerEpochError) from None
    return AddOffsetsToTxnResponse()
