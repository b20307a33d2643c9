"""What administrators ask about transactions: list, describe (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.groups.regex import compile_regex
from ottla.broker.coordinator.shard import Result
from ottla.broker.coordinator.transactions.records import by_topic
from ottla.broker.coordinator.transactions.state import TransactionalIdStatus
from ottla.errors import TransactionalIdNotFoundError
from ottla.wire.messages import (
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.coordinator.transactions.manager import TransactionShard

_BY_LABEL: Final = {status.label: status for status in TransactionalIdStatus}

ListedTransaction = ListTransactionsResponse.TransactionState
DescribedTransaction = DescribeTransactionsResponse.TransactionState


def unknown_states(request: ListTransactionsRequest) -> list[str]:
    return [name for name in request.state_filters if name not in _BY_LABEL]


def id_pattern(request: ListTransactionsRequest) -> re.Pattern[str] | None:
    """What the whole id has to match; INVALID_REGULAR_EXPRESSION where RE2 would not take the pattern.

    Ids may have any character, and the names that expressions of groups match may not: so what Python understands
    as well is left to it.
    """
    if not request.transactional_id_pattern:
        return None
    translated = compile_regex(request.transactional_id_pattern)
    try:
        return re.compile(request.transactional_id_pattern)
    except re.error:
        return translated


def listed(
    shard: TransactionShard, request: ListTransactionsRequest, pattern: re.Pattern[str] | None
) -> list[ListedTransaction]:
    """Filters of different kinds all have to hold; one that is not given does. No id is in a state that is not known.

    An id without a transaction has been in none for longer than any duration.
    """
    states = {_BY_LABEL[name] for name in request.state_filters if name in _BY_LABEL}
    producer_ids = set(request.producer_id_filters)
    now = shard.context.now_ms()
    return [
        ListedTransaction(
            transactional_id=transactional_id,
            producer_id=state.producer_id,
            transaction_state=state.status.label,
        )
        for transactional_id, state in shard.states.items()
        if (not request.state_filters or state.status in states)
        and (not producer_ids or state.producer_id in producer_ids)
        and (request.duration_filter < 0 or now - state.started_ms > request.duration_filter)
        and (pattern is None or pattern.fullmatch(transactional_id))
    ]


def described(shard: TransactionShard, transactional_id: str) -> Result[DescribedTransaction]:
    """One whose end is prepared has the partitions that still lack their marker."""
    state = shard.states.get(transactional_id)
    if state is None:
        raise TransactionalIdNotFoundError
    partitions = state.partitions
    if state.is_pending and transactional_id in shard.ends:
        partitions = tuple(shard.ends[transactional_id].remaining)
    return Result(
        [],
        DescribedTransaction(
            transactional_id=transactional_id,
            transaction_state=state.status.label,
            transaction_timeout_ms=state.timeout_ms,
            transaction_start_time_ms=state.started_ms,
            producer_id=state.producer_id,
            producer_epoch=state.epoch,
            topics=[
                DescribeTransactionsResponse.TopicData(topic=each.topic, partitions=each.partition_ids)
                for each in by_topic(partitions)
            ],
        ),
    )
