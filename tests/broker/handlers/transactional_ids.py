"""Transactional ids for the tests of handlers: their coordinators, and producers that send plain requests."""

from __future__ import annotations

from ottla.broker import Cluster
from ottla.errors import BrokerError
from ottla.wire.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tests.broker.handlers.requests import send
from tests.interop.waiting import eventually

INVALID_REQUEST, INVALID_EPOCH, INVALID_STATE, MAPPING, INVALID_TIMEOUT = 42, 47, 48, 49, 50
CONCURRENT, FENCED, NOT_FOUND = 51, 90, 105
_TRANSACTION = 1

Answer = tuple[int, int, int]
"""Error code, producer id and epoch."""


def coordinator(cluster: Cluster, transactional_id: str) -> int:
    """The node that coordinates an id, once it has loaded what there is of it."""
    found: list[int] = []

    def is_found() -> bool:
        request = FindCoordinatorRequest(key=transactional_id, key_type=_TRANSACTION)
        response = send(cluster, request, 3, FindCoordinatorResponse)
        if response.error_code:
            return False
        found[:] = [response.node_id]
        node = cluster._cluster.nodes[response.node_id]

        def is_loaded() -> bool:
            try:
                node.transactions.read(transactional_id, lambda shard: None)
            except BrokerError:
                return False
            return True

        return bool(cluster.call(is_loaded))

    eventually(is_found, f"the coordinator of {transactional_id}", 10, every=0.02)
    return found[0]


def init(
    cluster: Cluster,
    transactional_id: str,
    producer: tuple[int, int] = (-1, -1),
    *,
    version: int = 5,
    timeout_ms: int = 60_000,
) -> Answer:
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer[0],
        producer_epoch=producer[1],
    )
    node = coordinator(cluster, transactional_id)
    response = send(cluster, request, version, InitProducerIdResponse, node=node)
    return response.error_code, response.producer_id, response.producer_epoch


def begin(cluster: Cluster, transactional_id: str) -> tuple[int, int]:
    """A producer."""
    code, producer_id, epoch = init(cluster, transactional_id)
    assert code == 0
    return producer_id, epoch


def topics(*partitions: tuple[str, int]) -> list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]:
    named: dict[str, AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = {}
    for topic, index in partitions:
        named.setdefault(
            topic, AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic)
        ).partitions.append(index)
    return list(named.values())


def add(
    cluster: Cluster,
    transactional_id: str,
    producer: tuple[int, int],
    *partitions: tuple[str, int],
    version: int = 3,
) -> list[int]:
    """The code of each partition, as a producer adds them."""
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=topics(*partitions),
    )
    node = coordinator(cluster, transactional_id)
    response = send(cluster, request, version, AddPartitionsToTxnResponse, node=node)
    return [
        partition.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    ]


def end(
    cluster: Cluster, transactional_id: str, producer: tuple[int, int], *, commit: bool, version: int = 5
) -> Answer:
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        committed=commit,
    )
    node = coordinator(cluster, transactional_id)
    response = send(cluster, request, version, EndTxnResponse, node=node)
    return response.error_code, response.producer_id, response.producer_epoch


def described(cluster: Cluster, transactional_id: str) -> DescribeTransactionsResponse.TransactionState:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    node = coordinator(cluster, transactional_id)
    (state,) = send(cluster, request, 0, DescribeTransactionsResponse, node=node).transaction_states
    return state


def settled(cluster: Cluster, transactional_id: str) -> str:
    """The state of an id, once no marker is on its way."""
    states: list[str] = []

    def is_settled() -> bool:
        states[:] = [described(cluster, transactional_id).transaction_state]
        return not states[0].startswith("Prepare")

    eventually(is_settled, f"the markers of {transactional_id}", 20, every=0.02)
    return states[0]
