"""DescribeProducers: what a leader remembers of producers."""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker import Cluster
from ottla.wire.messages import DescribeProducersRequest, DescribeProducersResponse
from tests.broker.handlers.asking import TIME, ask, batch, produce


def describe(
    cluster: Cluster, topic: str, *partitions: int, node: int = 1
) -> list[DescribeProducersResponse.PartitionResponse]:
    wanted = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=list(partitions))
    request = DescribeProducersRequest(topics=[wanted])
    (answer,) = ask(cluster, request, 0, DescribeProducersResponse, node=node).topics
    assert answer.name == topic
    assert [part.partition_index for part in answer.partitions] == list(partitions)
    return answer.partitions


def test_a_producer_is_remembered_with_its_last_batch(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, 2)
    produce(kafka, topic, batch([b"a", b"b"], producer=(1234, 0, 0)))
    produce(kafka, topic, batch([b"c"], producer=(1234, 0, 2), time=TIME + 9))
    produce(kafka, topic, batch([b"without an id"]))
    written, unwritten = describe(kafka, topic, 0, 1)
    assert written.error_code == 0
    assert [
        (
            *(state.producer_id, state.producer_epoch, state.last_sequence, state.last_timestamp),
            *(state.coordinator_epoch, state.current_txn_start_offset),
        )
        for state in written.active_producers
    ] == [(1234, 0, 2, TIME + 9, -1, -1)]
    assert (unwritten.error_code, unwritten.active_producers) == (0, [])


def test_what_does_not_exist_is_unknown(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    (part,) = describe(kafka, new_topic(kafka), 5)
    assert (part.error_code, part.error_message) == (3, None)
    (part,) = describe(kafka, "nowhere", 0)
    assert (part.error_code, part.error_message) == (3, "This server does not host this topic-partition.")
    (part,) = describe(kafka, "b b", 0)
    assert part.error_code == 17
    assert (part.error_message or "").startswith("Topic name is invalid: 'b b' contains")


def test_only_the_leader_answers(kafka3: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka3)
    (part,) = describe(kafka3, topic, 0, node=kafka3.leader(topic) % 3 + 1)
    assert (part.error_code, part.error_message) == (6, None)
