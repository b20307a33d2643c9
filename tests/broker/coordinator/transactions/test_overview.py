"""What administrators see of transactions."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.coordinator.transactions import overview
from ottla.broker.coordinator.transactions.overview import DescribedTransaction
from ottla.errors import InvalidRegularExpressionError, TransactionalIdNotFoundError
from ottla.wire.messages import ListTransactionsRequest
from tests.broker.coordinator.transactions.shards import LoneTransactions

ORDERS_0, ORDERS_1, PAYMENTS_0 = ("orders", 0), ("orders", 1), ("payments", 0)


@pytest.fixture
def world() -> LoneTransactions:
    """Four ids: new, in a transaction for ten seconds, in one for a second, and with one that is aborted."""
    world = LoneTransactions().begin()
    world.first(name="app-new")
    world.add(world.first(name="app-old"), ORDERS_0, PAYMENTS_0, ORDERS_1, name="app-old")
    world.timers.advance(9)
    world.add(world.first(name="job/1"), ORDERS_0, name="job/1")
    world.end(world.first(name="job/2"), False, name="job/2")
    world.markers.write_all()
    world.timers.advance(1)
    return world


def names(world: LoneTransactions, **filters: Any) -> list[str]:
    request = ListTransactionsRequest(**filters)
    return [
        each.transactional_id for each in overview.listed(world.shard, request, overview.id_pattern(request))
    ]


def described(world: LoneTransactions, name: str) -> DescribedTransaction:
    return world.write(lambda shard: overview.described(shard, name))


ALL = ["app-new", "app-old", "job/1", "job/2"]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, ALL),
        ({"state_filters": ["Ongoing"]}, ["app-old", "job/1"]),
        ({"state_filters": ["Ongoing", "Empty", "Bogus"]}, ["app-new", "app-old", "job/1"]),
        ({"state_filters": ["Bogus"]}, []),
        ({"state_filters": ["ongoing"]}, []),
        ({"producer_id_filters": [1001, 1003, 5]}, ["app-old", "job/2"]),
        ({"duration_filter": 10_000}, ["app-new"]),
        ({"duration_filter": 9_999}, ["app-new", "app-old"]),
        ({"duration_filter": 0}, ALL),
        ({"transactional_id_pattern": "app"}, []),
        ({"transactional_id_pattern": "app-.*"}, ["app-new", "app-old"]),
        ({"transactional_id_pattern": "[^a].*"}, ["job/1", "job/2"]),
        ({"transactional_id_pattern": ""}, ALL),
        ({"transactional_id_pattern": ".*1", "state_filters": ["Ongoing"]}, ["job/1"]),
    ],
)
def test_filters(world: LoneTransactions, filters: dict[str, Any], found: list[str]) -> None:
    assert names(world, **filters) == found


def test_a_pattern_that_is_none() -> None:
    with pytest.raises(InvalidRegularExpressionError):
        overview.id_pattern(ListTransactionsRequest(transactional_id_pattern="("))


def test_states_that_do_not_exist_are_named() -> None:
    request = ListTransactionsRequest(state_filters=["Empty", "Bogus", "Dead"])
    assert overview.unknown_states(request) == ["Bogus"]


def test_a_transaction_is_described(world: LoneTransactions) -> None:
    found = described(world, "app-old")
    assert (found.transaction_state, found.producer_id, found.producer_epoch) == ("Ongoing", 1001, 0)
    assert (found.transaction_timeout_ms, found.transaction_start_time_ms) == (60_000, 1_000_000)
    assert [(topic.topic, topic.partitions) for topic in found.topics] == [
        ("orders", [0, 1]),
        ("payments", [0]),
    ]
    with pytest.raises(TransactionalIdNotFoundError):
        described(world, "unknown")


def test_a_transaction_that_ends_is_described_with_what_it_waits_for(world: LoneTransactions) -> None:
    world.end(world.state("app-old").producer, True, name="app-old")
    world.markers.sent[0].remaining.pop(ORDERS_1)
    found = described(world, "app-old")
    assert found.transaction_state == "PrepareCommit"
    assert [(topic.topic, topic.partitions) for topic in found.topics] == [
        ("orders", [0]),
        ("payments", [0]),
    ]
    world.markers.write_all()
    found = described(world, "app-old")
    assert (found.transaction_state, found.topics) == ("CompleteCommit", [])
