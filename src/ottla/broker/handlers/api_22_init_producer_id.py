"""InitProducerId: an id for an idempotent producer (KIP-98).

Without a transactional id every request gets an id that no producer has had, in epoch 0, whatever the producer was
before (KIP-360 sends its old id and epoch along: both of them or none, else INVALID_REQUEST). Transactions are not
served: a transactional id is INVALID_REQUEST and a line in the log.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from ottla.broker.server.registry import handles
from ottla.errors import BrokerError, InvalidRequestError
from ottla.wire.messages import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

_log = logging.getLogger("ottla.broker.handlers.init_producer_id")

_NO_ID: Final = -1
_NO_EPOCH: Final = -1


def _refuse(request: InitProducerIdRequest, error: BrokerError) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error.code, producer_id=_NO_ID, producer_epoch=_NO_EPOCH)


@handles(InitProducerIdRequest, versions=range(6), refuse=_refuse)
async def init_producer_id(
    node: NodeContext, request: InitProducerIdRequest, call: Call
) -> InitProducerIdResponse:
    if (request.producer_id == _NO_ID) != (request.producer_epoch == _NO_EPOCH):
        raise InvalidRequestError("a producer has an id and an epoch, or neither")
    if request.transactional_id == "":
        raise InvalidRequestError("a transactional id is not empty")
    if request.transactional_id is not None:
        _log.warning(
            "node %s: %s wants to use the transactional id %r; the embedded cluster does not serve transactions",
            *(node.id, call.client_id, request.transactional_id),
        )
        raise InvalidRequestError("the embedded cluster does not serve transactions")
    return InitProducerIdResponse(producer_id=await node.producer_ids.next(), producer_epoch=0)
