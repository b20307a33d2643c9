"""Producer ids: brokers get them in blocks, so that no two producers ever have the same."""

from __future__ import annotations

from typing import Final

from ottla.broker.controller.decision import Context, Decision
from ottla.broker.metadata.records import ProducerIdsRecord
from ottla.errors import BrokerError, UnknownServerError
from ottla.wire.messages import AllocateProducerIdsRequest, AllocateProducerIdsResponse

BLOCK_SIZE: Final = 1000
_MAX_ID: Final = 2**63 - 1


def allocate(context: Context, request: AllocateProducerIdsRequest) -> Decision[AllocateProducerIdsResponse]:
    try:
        context.check_broker_epoch(request.broker_id, request.broker_epoch)
        start = context.image.next_producer_id
        if start > _MAX_ID - BLOCK_SIZE:
            raise UnknownServerError("Exhausted all producer ids: the next block would not fit 64 bits")
    except BrokerError as error:
        return Decision([], AllocateProducerIdsResponse(error_code=error.code))
    record = ProducerIdsRecord(request.broker_id, request.broker_epoch, start + BLOCK_SIZE)
    return Decision(
        [record], AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=BLOCK_SIZE)
    )
