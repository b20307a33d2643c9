"""ListTransactions: the transactional ids that this node coordinates; a client asks every node (KIP-664).

COORDINATOR_LOAD_IN_PROGRESS while one of its partitions is not loaded. Filters: states and producer ids, since
version 1 how long a transaction has been going on, in milliseconds (KIP-994), since version 2 a pattern for the
transactional id (KIP-1152); a pattern that is none is INVALID_REGULAR_EXPRESSION. States that do not exist are named
in the response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinator.transactions import overview
from ottla.broker.server.registry import handles
from ottla.wire.messages import ListTransactionsRequest, ListTransactionsResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call


@handles(ListTransactionsRequest, versions=range(3))
def list_transactions(
    node: NodeContext, request: ListTransactionsRequest, call: Call
) -> ListTransactionsResponse:
    pattern = overview.id_pattern(request)
    shards = node.transactions.read_all(lambda shard: overview.listed(shard, request, pattern))
    return ListTransactionsResponse(
        unknown_state_filters=overview.unknown_states(request),
        transaction_states=[state for states in shards for state in states],
    )
