"""DescribeTransactions: the state of transactional ids, by their coordinator (KIP-664).

An id that it does not know is TRANSACTIONAL_ID_NOT_FOUND, an empty one INVALID_REQUEST. While the markers of a
transaction are on their way, its partitions are those that still lack one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.coordinator.transactions import overview
from ottla.broker.server.registry import handles
from ottla.errors import BrokerError, InvalidRequestError
from ottla.wire.messages import DescribeTransactionsRequest, DescribeTransactionsResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

DescribedTransaction = DescribeTransactionsResponse.TransactionState


def _refuse(request: DescribeTransactionsRequest, error: BrokerError) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_refused(each, error) for each in request.transactional_ids]
    )


def _refused(transactional_id: str, error: BrokerError) -> DescribedTransaction:
    return DescribedTransaction(transactional_id=transactional_id, error_code=error.code)


@handles(DescribeTransactionsRequest, versions=range(1), refuse=_refuse)
async def describe_transactions(
    node: NodeContext, request: DescribeTransactionsRequest, call: Call
) -> DescribeTransactionsResponse:
    described = await asyncio.gather(*(_described(node, each) for each in request.transactional_ids))
    return DescribeTransactionsResponse(transaction_states=list(described))


async def _described(node: NodeContext, transactional_id: str) -> DescribedTransaction:
    try:
        if transactional_id == "":
            raise InvalidRequestError("a transactional id is not empty")
        return await node.transactions.write(
            transactional_id, lambda shard: overview.described(shard, transactional_id)
        )
    except BrokerError as error:
        return _refused(transactional_id, error)
