"""InitProducerId: an id and an epoch for a producer (KIP-98).

Without a transactional id every request gets an id that no producer has had, in epoch 0, whatever the producer was
before. With one, the coordinator of the id fences the producers before this one and ends what they have begun: while
that goes on it is CONCURRENT_TRANSACTIONS, and the producer sends it again. Since version 3 a producer can say who it
was, to go on after an error (KIP-360): id and epoch or neither, else INVALID_REQUEST. A producer that is fenced is
PRODUCER_FENCED since version 4, before it INVALID_PRODUCER_EPOCH. Version 6 (KIP-939) is not stable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.transactions.state import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdAndEpoch,
)
from ottla.broker.server.registry import handles
from ottla.errors import (
    BrokerError,
    InvalidProducerEpochError,
    InvalidRequestError,
    InvalidTransactionTimeoutError,
    ProducerFencedError,
)
from ottla.wire.messages import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

_FENCED_SINCE: Final = 4


def _refuse(request: InitProducerIdRequest, error: BrokerError) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=error.code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )


@handles(InitProducerIdRequest, versions=range(6), refuse=_refuse)
async def init_producer_id(
    node: NodeContext, request: InitProducerIdRequest, call: Call
) -> InitProducerIdResponse:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise InvalidRequestError("a producer has an id and an epoch, or neither")
    if request.transactional_id is None:
        return InitProducerIdResponse(producer_id=await node.producer_ids.next(), producer_epoch=0)
    try:
        producer = await _init(node, request, request.transactional_id)
    except ProducerFencedError:
        raise (ProducerFencedError if call.version >= _FENCED_SINCE else InvalidProducerEpochError) from None
    return InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)


async def _init(
    node: NodeContext, request: InitProducerIdRequest, transactional_id: str
) -> ProducerIdAndEpoch:
    if transactional_id == "":
        raise InvalidRequestError("a transactional id is not empty")
    if not 0 < request.transaction_timeout_ms <= node.configs.value("transaction.max.timeout.ms"):
        raise InvalidTransactionTimeoutError
    expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    return await node.transactions.init(
        transactional_id,
        request.transaction_timeout_ms,
        None if expected == (NO_PRODUCER_ID, NO_PRODUCER_EPOCH) else expected,
    )
