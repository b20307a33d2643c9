"""Produce: which error comes first, and what becomes of a partition that is named twice.

All as Apache Kafka 4.3.1 answers.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable

import pytest

from ottla.broker import Cluster
from ottla.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidRequiredAcksError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from ottla.wire.batches import encode_batch
from ottla.wire.messages import ProduceRequest, ProduceResponse
from tests.broker import worlds
from tests.broker.handlers.groups import coordinator
from tests.broker.handlers.requests import TIME, batch, send
from tests.interop.comparison.damage import with_a_flipped_bit, with_attributes, with_magic
from tests.interop.plain import Connection

GOOD = batch([b"good"])
OLD = with_magic(GOOD, 1)
DAMAGED = with_magic(GOOD, 3)

Answer = ProduceResponse.PartitionProduceResponse


def produce(
    cluster: Cluster, topic: str, *parts: tuple[int, bytes], acks: int = -1, version: int = 9
) -> dict[int, Answer]:
    """The answers by partition: each partition has one."""
    data = [ProduceRequest.PartitionProduceData(index=index, records=records) for index, records in parts]
    request = ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=1000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=data)],
    )
    (answered,) = send(cluster, request, version, ProduceResponse).responses
    answers = {response.index: response for response in answered.partition_responses}
    assert len(answers) == len(answered.partition_responses)
    return answers


def codes(answers: dict[int, Answer]) -> dict[int, int]:
    return {index: response.error_code for index, response in answers.items()}


def end(cluster: Cluster, topic: str, partition: int = 0) -> int:
    return len(cluster.dump(topic, partition))


@pytest.mark.parametrize(
    ("records", "acks"),
    [(OLD, -1), (with_a_flipped_bit(GOOD), -1), (GOOD, 2)],
    ids=["an old batch", "a flipped bit", "acks of 2"],
)
def test_that_there_is_no_such_partition_comes_before_what_is_wrong_with_the_rest(
    kafka: Cluster, new_topic: Callable[..., str], records: bytes, acks: int
) -> None:
    topic = new_topic(kafka)
    assert codes(produce(kafka, topic, (7, records), acks=acks)) == {7: UnknownTopicOrPartitionError.code}


def test_the_form_of_a_batch_comes_before_acks(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, 2)
    answers = produce(kafka, topic, (0, OLD), (1, with_a_flipped_bit(GOOD)), acks=-2)
    assert codes(answers) == {0: InvalidRecordError.code, 1: InvalidRequiredAcksError.code}


def test_a_damaged_batch_fails_every_partition(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, 2)
    answers = produce(kafka, topic, (0, GOOD), (1, DAMAGED), (7, GOOD))
    assert set(codes(answers).values()) == {CorruptMessageError.code}
    assert {response.error_message for response in answers.values()} == {"Invalid magic found in record: 3"}
    assert end(kafka, topic) == 0


def test_of_two_batches_for_a_partition_the_last_one_is_appended(
    kafka: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(kafka)
    answers = produce(kafka, topic, (0, batch([b"first", b"batch"])), (0, batch([b"second"])))
    assert codes(answers) == {0: 0}
    assert [record.value for record in kafka.dump(topic)] == [b"second"]


def test_a_bad_batch_is_heard_of_while_the_good_one_for_its_partition_is_appended(
    kafka: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(kafka)
    answers = produce(kafka, topic, (0, OLD), (0, GOOD))
    assert (answers[0].error_code, answers[0].base_offset) == (InvalidRecordError.code, -1)
    assert end(kafka, topic) == 1


def test_what_kafka_fails_over_inside_fails_every_partition(
    kafka: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(kafka, 2)
    endless = GOOD[:8] + struct.pack(">i", 2**31 - 1) + GOOD[12:]
    unknown_codec = with_attributes(GOOD, 5)
    for bad, version in ((endless, 9), (unknown_codec, 6)):
        answers = produce(kafka, topic, (0, GOOD), (1, bad), version=version)
        assert codes(answers) == {0: UnknownServerError.code, 1: UnknownServerError.code}
    assert end(kafka, topic) == 0
    # Newer clients may use any codec that there is: it is the batch alone that is refused.
    assert codes(produce(kafka, topic, (0, GOOD), (1, unknown_codec))) == {0: 0, 1: UnknownServerError.code}


@pytest.mark.parametrize(("client_id", "code"), [("anyone", 17), ("__admin_client", 0)])
def test_only_the_admin_client_of_kafka_writes_to_internal_topics(
    kafka: Cluster, client_id: str, code: int
) -> None:
    coordinator(kafka, "g")  # whose topic is made for it
    data = ProduceRequest.PartitionProduceData(index=0, records=keyed_batch())
    topic = ProduceRequest.TopicProduceData(name="__consumer_offsets", partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])
    with Connection(kafka.bootstrap, client_id) as connection:
        response = connection.ask(request, 9)
    assert isinstance(response, ProduceResponse)
    assert response.responses[0].partition_responses[0].error_code == code


def keyed_batch() -> bytes:
    """A record of a kind that no coordinator knows: it is passed over when the partition is loaded."""
    return encode_batch([(0, TIME, b"\x7f\xff", b"", [])])


@pytest.mark.parametrize("loses_leader", [False, True], ids=["too slow", "no leader any more"])
def test_what_fails_after_the_append_says_where_it_is(loses_leader: bool) -> None:
    """By the offset a producer tells such a failure from one that has stored nothing."""

    async def body(world: worlds.World) -> None:
        async with world.cluster(3, topics={"orders": 1}) as cluster:
            leader = cluster.leader("orders")
            for other in {1, 2, 3} - {leader}:
                cluster.cut_link(leader, other)
            client = await world.client(cluster, leader)
            answering = asyncio.ensure_future(client.produce("orders", GOOD))
            if loses_leader:
                partition = cluster.partition("orders")
                await cluster.wait_for(lambda: partition.log.log_end_offset == 1)
                await cluster.move_leader("orders", 0, leader % 3 + 1)
            answer = await answering
            error = NotLeaderOrFollowerError if loses_leader else RequestTimedOutError
            assert (answer.error_code, answer.base_offset) == (error.code, 0)

    worlds.in_simulation(body)
