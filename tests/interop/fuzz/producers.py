"""Random InitProducerId and DescribeProducers, batches of producers that got their id, and ids that expire."""

from __future__ import annotations

from typing import Any

from ottla.wire import Message
from ottla.wire.batches import encode_batch
from ottla.wire.messages import DescribeProducersRequest, InitProducerIdRequest, ProduceRequest
from tests.interop.comparison.world import World
from tests.interop.fuzz.drawing import FUTURE, PLAIN, TIME, Draw, FuzzStep, plain_step, step, topic_id


def initialise(draw: Draw) -> FuzzStep:
    producer, epoch = draw.mostly(
        (-1, -1), (5_000_000, 0), (5_000_000, -1), (-1, 0), (-2, -2), (5_000_000, 32767), chance=0.6
    )
    request = InitProducerIdRequest(
        transactional_id=draw.mostly(None, "", chance=0.9),
        transaction_timeout_ms=draw.mostly(60_000, 0, -1, 2**31 - 1),
        producer_id=producer,
        producer_epoch=epoch,
    )
    words = f"InitProducerId {request.transactional_id!r} producer {producer} epoch {epoch}"
    return step(words, draw.version("InitProducerId"), lambda _world: request, producer="producer")


def write(draw: Draw) -> FuzzStep:
    """A batch of the producer that InitProducerId gave an id, if it did."""
    epoch, sequence = draw.mostly(0, 1, -1), draw.mostly(0, 1, 2)

    def build(world: World) -> Message:
        batch = encode_batch(
            [(0, FUTURE, b"k", b"v", [])],
            producer_id=world.values.get("producer", -1),
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        return _produce(world, batch)

    return step(f"Produce of the new producer epoch {epoch} sequence {sequence}", 9, build, waits=True)


def describe(draw: Draw) -> FuzzStep:
    topics = [
        DescribeProducersRequest.TopicRequest(
            name=draw.topic(), partition_indexes=[draw.partition() for _ in range(draw.mostly(1, 0, 2))]
        )
        for _ in range(draw.mostly(1, 2))
    ]
    words = "; ".join(f"{topic.name} {topic.partition_indexes}" for topic in topics)
    return plain_step(draw, DescribeProducersRequest(topics=topics), words)


def expire(draw: Draw) -> list[FuzzStep]:
    """A producer whose last record is from 2020 is forgotten, and may then begin with any sequence."""
    producer = draw.expired
    draw.expired += 1

    def write_at(sequence: int, time: int) -> FuzzStep:
        batch = encode_batch(
            [(0, time, b"k", b"v", [])], producer_id=producer, producer_epoch=0, base_sequence=sequence
        )
        words = f"Produce of producer {producer} sequence {sequence} at {time}"
        return step(words, 9, lambda world: _produce(world, batch))

    def is_forgotten(answer: Any) -> bool:
        return producer not in [
            each.producer_id
            for topic in answer.topics
            for partition in topic.partitions
            for each in partition.active_producers
        ]

    request = DescribeProducersRequest(
        topics=[DescribeProducersRequest.TopicRequest(name=PLAIN, partition_indexes=[0])]
    )
    forgotten = FuzzStep(
        f"DescribeProducers until {producer} is forgotten", 0, lambda _world: request, until=is_forgotten
    )
    return [write_at(0, TIME), forgotten, write_at(draw.one(7, 0, 5), FUTURE)]


def _produce(world: World, batch: bytes) -> Message:
    data = ProduceRequest.PartitionProduceData(index=0, records=batch)
    topic = ProduceRequest.TopicProduceData(
        name=PLAIN, topic_id=topic_id(world, PLAIN), partition_data=[data]
    )
    return ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic])
