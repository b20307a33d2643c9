"""Requests to the nodes of an embedded cluster, one connection each, and the records that tests put there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ottla.broker import Cluster
from ottla.wire import Message
from ottla.wire.batches import PlainRecord, encode_batch
from ottla.wire.messages import ProduceRequest, ProduceResponse
from tests.interop.plain import Connection

_Response = TypeVar("_Response", bound=Message)

TIME = 1_600_000_000_000
"""The timestamp of the first record of a batch; the others follow, one each millisecond."""


def connect(cluster: Cluster, node: int = 1) -> Connection:
    addresses = dict(zip(cluster.nodes, cluster.bootstrap.split(","), strict=True))
    return Connection(addresses[node])


def send(
    cluster: Cluster, request: Message, version: int, expected: type[_Response], *, node: int = 1
) -> _Response:
    """The response of one node, over a connection of its own."""
    with connect(cluster, node) as connection:
        response = connection.ask(request, version)
    assert isinstance(response, expected)
    return response


def batch(
    values: Sequence[bytes], *, time: int = TIME, producer: tuple[int, int, int] | None = None
) -> bytes:
    """Records without keys; `producer` is id, epoch and first sequence."""
    records: list[PlainRecord] = [
        (index, time + index, None, value, []) for index, value in enumerate(values)
    ]
    if producer is None:
        return encode_batch(records)
    producer_id, epoch, sequence = producer
    return encode_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def produce(cluster: Cluster, topic: str, records: bytes, *, partition: int = 0) -> int:
    """Appends a batch through the partition's leader; the offset of its first record."""
    data = ProduceRequest.PartitionProduceData(index=partition, records=records)
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
    )
    response = send(cluster, request, 9, ProduceResponse, node=cluster.leader(topic, partition))
    (result,) = response.responses[0].partition_responses
    assert result.error_code == 0, result
    return result.base_offset


def await_fenced(cluster: Cluster, node: int) -> None:
    """Until every node that runs knows that this one does not."""
    running = cluster._cluster.nodes
    cluster.wait_for(
        lambda: not any(each.image.brokers[node].alive for each in running.values()),
        f"the end of node {node}",
    )


def await_topic(cluster: Cluster, topic: str) -> None:
    """Until every node knows a topic that comes by itself."""
    running = cluster._cluster.nodes
    cluster.wait_for(lambda: all(topic in each.image.topics for each in running.values()), f"topic {topic}")
