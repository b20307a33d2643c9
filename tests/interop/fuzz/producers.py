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


def without_epoch(draw: Draw) -> list[FuzzStep]:
    """A producer without an epoch is remembered, and may go on with any sequence, also in its first epoch."""

    def write_in(epoch: int, sequence: int) -> FuzzStep:
        batch = encode_batch(
            [(0, FUTURE, b"k", b"v", [])], producer_id=5_000_005, producer_epoch=epoch, base_sequence=sequence
        )
        words = f"Produce of producer 5000005 epoch {epoch} sequence {sequence}"
        return step(words, 9, lambda world: _produce(world, batch))

    return [write_in(-1, draw.one(0, 5)), write_in(draw.one(-1, 0), draw.one(0, 3, 9)), _describe_first()]


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

    forgotten = FuzzStep(
        f"DescribeProducers until {producer} is forgotten", 0, _first_partition, until=is_forgotten
    )
    return [write_at(0, TIME), forgotten, write_at(draw.one(7, 0, 5), FUTURE)]


def _describe_first() -> FuzzStep:
    return step(f"DescribeProducers {PLAIN}/0", 0, _first_partition)


def _first_partition(_world: World) -> Message:
    return DescribeProducersRequest(
        topics=[DescribeProducersRequest.TopicRequest(name=PLAIN, partition_indexes=[0])]
    )


def _produce(world: World, batch: bytes) -> Message:
    data = ProduceRequest.PartitionProduceData(index=0, records=batch)
    topic = ProduceRequest.TopicProduceData(
        name=PLAIN, topic_id=topic_id(world, PLAIN), partition_data=[data]
    )
    return ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic])
