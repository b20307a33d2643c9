"""DescribeTransactions: the state of each id, or why there is none."""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker import Cluster
from ottla.wire.messages import DescribeTransactionsRequest, DescribeTransactionsResponse
from tests.broker.handlers.requests import send
from tests.broker.handlers.transactional_ids import (
    INVALID_REQUEST,
    NOT_FOUND,
    add,
    begin,
    coordinator,
    described,
)


def test_ids_are_described_in_the_order_of_the_request(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    producer = begin(kafka, "described")
    assert add(kafka, "described", producer, (topic, 0)) == [0]
    request = DescribeTransactionsRequest(transactional_ids=["unknown", "described", ""])
    unknown, state, empty = send(kafka, request, 0, DescribeTransactionsResponse).transaction_states
    assert (unknown.transactional_id, unknown.error_code) == ("unknown", NOT_FOUND)
    assert (empty.transactional_id, empty.error_code) == ("", INVALID_REQUEST)
    assert (state.transactional_id, state.error_code) == ("described", 0)
    assert (state.transaction_state, state.transaction_timeout_ms) == ("Ongoing", 60_000)
    assert (state.producer_id, state.producer_epoch) == producer
    assert state.transaction_start_time_ms > 0
    assert [(each.topic, each.partitions) for each in state.topics] == [(topic, [0])]


def test_an_id_without_a_transaction(kafka: Cluster) -> None:
    begin(kafka, "described-empty")
    state = described(kafka, "described-empty")
    assert (state.transaction_state, state.transaction_start_time_ms, state.topics) == ("Empty", -1, [])


def test_another_node_is_not_the_coordinator(kafka3: Cluster) -> None:
    node = coordinator(kafka3, "described")
    request = DescribeTransactionsRequest(transactional_ids=["described"])
    (state,) = send(kafka3, request, 0, DescribeTransactionsResponse, node=node % 3 + 1).transaction_states
    assert state.error_code == 16
