"""ListTransactions: every node has its own, and filters select among them."""

from __future__ import annotations

import pytest

from ottla.broker import Cluster
from ottla.wire.messages import ListTransactionsRequest, ListTransactionsResponse
from tests.broker.handlers.requests import send
from tests.broker.handlers.transactional_ids import begin, coordinator, end, settled

INVALID_REGULAR_EXPRESSION = 128


@pytest.mark.parametrize("version", range(3))
def test_the_ids_of_a_node(kafka: Cluster, version: int) -> None:
    producer = begin(kafka, "listed")
    response = send(kafka, ListTransactionsRequest(), version, ListTransactionsResponse)
    (found,) = (each for each in response.transaction_states if each.transactional_id == "listed")
    assert (found.producer_id, found.transaction_state) == (producer[0], "Empty")


def test_filters(kafka: Cluster) -> None:
    producer = begin(kafka, "filtered/1")
    begin(kafka, "filtered/2")
    assert end(kafka, "filtered/2", begin(kafka, "filtered/2"), commit=False)[0] == 0
    settled(kafka, "filtered/2")
    request = ListTransactionsRequest(
        state_filters=["Empty", "Bogus"],
        producer_id_filters=[producer[0]],
        duration_filter=5,
        transactional_id_pattern="filtered/.",
    )
    response = send(kafka, request, 2, ListTransactionsResponse)
    assert response.unknown_state_filters == ["Bogus"]
    assert [each.transactional_id for each in response.transaction_states] == ["filtered/1"]


def test_a_pattern_that_is_none(kafka: Cluster) -> None:
    coordinator(kafka, "any")
    request = ListTransactionsRequest(transactional_id_pattern="(")
    response = send(kafka, request, 2, ListTransactionsResponse)
    assert (response.error_code, response.transaction_states) == (INVALID_REGULAR_EXPRESSION, [])


def test_each_node_has_those_that_it_coordinates(kafka3: Cluster) -> None:
    names = [f"spread-{number}" for number in range(12)]
    coordinators = {name: coordinator(kafka3, name) for name in names}
    for name in names:
        begin(kafka3, name)
    request = ListTransactionsRequest(transactional_id_pattern="spread-.*")
    for node in (1, 2, 3):
        response = send(kafka3, request, 2, ListTransactionsResponse, node=node)
        assert {each.transactional_id for each in response.transaction_states} == {
            name for name in names if coordinators[name] == node
        }
