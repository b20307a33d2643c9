"""EndTxn: a transaction is committed or aborted. The coordinator responds when that is decided, before the markers.

Up to version 4 the producer keeps its epoch. Since version 5, at transaction.version 1 as well as 2, every end bumps
it, and the response says with which id and epoch the producer goes on (KIP-890): so the same request, sent again,
gets the same response, and an old one that comes late cannot end the next transaction. A producer that is fenced is
INVALID_PRODUCER_EPOCH up to version 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.transactions.state import ProducerIdAndEpoch
from ottla.broker.server.registry import handles
from ottla.errors import InvalidProducerEpochError, InvalidRequestError, ProducerFencedError
from ottla.wire.messages import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

_FENCED_SINCE: Final = 2
_BUMPS_SINCE: Final = 5


@handles(EndTxnRequest, versions=range(6))
async def end_txn(node: NodeContext, request: EndTxnRequest, call: Call) -> EndTxnResponse:
    if request.transactional_id == "":
        raise InvalidRequestError("a transactional id is not empty")
    bumps = call.version >= _BUMPS_SINCE
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    try:
        following = await node.transactions.end(
            request.transactional_id, producer, is_commit=request.committed, bumps=bumps
        )
    except ProducerFencedError:
        raise (ProducerFencedError if call.version >= _FENCED_SINCE else InvalidProducerEpochError) from None
    if not bumps:
        return EndTxnResponse()
    return EndTxnResponse(producer_id=following.producer_id, producer_epoch=following.epoch)
