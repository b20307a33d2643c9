"""AddPartitionsToTxn: by producers one transaction at a time, by leaders many, to add or to verify."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker import Cluster
from ottla.wire.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from tests.broker.handlers.requests import send
from tests.broker.handlers.transactional_ids import (
    FENCED,
    INVALID_EPOCH,
    INVALID_REQUEST,
    MAPPING,
    add,
    begin,
    coordinator,
    described,
    topics,
)

UNKNOWN_PARTITION, NOT_ATTEMPTED, ABORTABLE = 3, 55, 120

RequestedTransaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction


def transaction(
    name: str, producer: tuple[int, int], *partitions: tuple[str, int], verify: bool = False
) -> RequestedTransaction:
    return RequestedTransaction(
        transactional_id=name,
        producer_id=producer[0],
        producer_epoch=producer[1],
        verify_only=verify,
        topics=topics(*partitions),
    )


def ask(cluster: Cluster, *transactions: RequestedTransaction, version: int = 5) -> list[list[int]]:
    """The codes of the partitions of each."""
    coordinator(cluster, "any")
    request = AddPartitionsToTxnRequest(transactions=list(transactions))
    response = send(cluster, request, version, AddPartitionsToTxnResponse)
    assert response.error_code == 0
    assert [each.transactional_id for each in response.results_by_transaction] == [
        each.transactional_id for each in transactions
    ]
    return [
        [part.partition_error_code for topic in each.topic_results for part in topic.results_by_partition]
        for each in response.results_by_transaction
    ]


@pytest.mark.parametrize("version", range(4))
def test_a_producer_adds_partitions(kafka: Cluster, new_topic: Callable[..., str], version: int) -> None:
    topic, name = new_topic(kafka, 2), f"adding-{version}"
    producer = begin(kafka, name)
    assert add(kafka, name, producer, (topic, 0), (topic, 1), version=version) == [0, 0]
    assert add(kafka, name, producer, (topic, 1), version=version) == [0]
    state = described(kafka, name)
    assert state.transaction_state == "Ongoing"
    assert [(each.topic, each.partitions) for each in state.topics] == [(topic, [0, 1])]


@pytest.mark.parametrize(("version", "fenced"), [(1, INVALID_EPOCH), (2, FENCED), (3, FENCED)])
def test_producers_that_may_not(
    kafka: Cluster, new_topic: Callable[..., str], version: int, fenced: int
) -> None:
    topic, name = new_topic(kafka), f"fenced-adding-{version}"
    producer_id, _ = begin(kafka, name)
    assert add(kafka, name, (producer_id, 7), (topic, 0), version=version) == [fenced]
    assert add(kafka, name, (producer_id + 1, 0), (topic, 0), version=version) == [MAPPING]
    assert add(kafka, "never-begun", (producer_id, 0), (topic, 0), version=version) == [MAPPING]
    assert add(kafka, "", (producer_id, 0), (topic, 0), version=version) == [INVALID_REQUEST]


def test_a_partition_that_is_not_there_fails_all_of_them(
    kafka: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(kafka)
    producer = begin(kafka, "wrong")
    missing = [UNKNOWN_PARTITION, NOT_ATTEMPTED, UNKNOWN_PARTITION]
    wanted = [("no-such-topic", 0), (topic, 0), (topic, 4)]
    assert add(kafka, "wrong", producer, *wanted) == missing
    assert ask(kafka, transaction("wrong", producer, *wanted)) == [missing]
    assert described(kafka, "wrong").transaction_state == "Empty"


@pytest.mark.parametrize("verifies", [True, False])
def test_a_topic_without_partitions_is_in_the_response_unless_each_partition_has_its_code(
    kafka: Cluster, new_topic: Callable[..., str], verifies: bool
) -> None:
    topic, name = new_topic(kafka), f"nothing-added-{verifies}"
    nothing = transaction(name, begin(kafka, name), verify=verifies)
    nothing.topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=[])]
    for transactional_id in (name, ""):
        nothing.transactional_id = transactional_id
        request = AddPartitionsToTxnRequest(transactions=[nothing])
        (result,) = send(kafka, request, 5, AddPartitionsToTxnResponse).results_by_transaction
        assert [each.name for each in result.topic_results] == ([] if verifies else [topic])


@pytest.mark.parametrize("version", [4, 5])
def test_leaders_add_and_verify_partitions_of_many_transactions(
    kafka: Cluster, new_topic: Callable[..., str], version: int
) -> None:
    topic = new_topic(kafka, 2)
    one, two = f"led-1-{version}", f"led-2-{version}"
    first, second = begin(kafka, one), begin(kafka, two)
    assert ask(
        kafka,
        transaction(one, first, (topic, 0)),
        transaction(two, second, (topic, 0), verify=True),
        transaction("never-begun", first, (topic, 0)),
        version=version,
    ) == [[0], [ABORTABLE], [MAPPING]]
    assert ask(kafka, transaction(one, first, (topic, 0), (topic, 1), verify=True), version=version) == [
        [0, ABORTABLE]
    ]
    fenced = (first[0], 9)
    assert ask(
        kafka,
        transaction(one, fenced, (topic, 0), verify=True),
        transaction(one, fenced, (topic, 0)),
        transaction("", first, (topic, 0), verify=True),
        version=version,
    ) == [[FENCED], [FENCED], [INVALID_REQUEST]]
    assert described(kafka, two).transaction_state == "Empty"


def test_a_node_that_is_not_the_coordinator_says_so(kafka3: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka3)
    node = coordinator(kafka3, "moved")
    request = AddPartitionsToTxnRequest(transactions=[transaction("moved", (1, 0), (topic, 0))])
    response = send(kafka3, request, 5, AddPartitionsToTxnResponse, node=node % 3 + 1)
    (result,) = response.results_by_transaction
    assert result.topic_results[0].results_by_partition[0].partition_error_code == 16
