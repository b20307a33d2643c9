"""Random Produce requests: acks, topics, partitions named twice, and batches of every kind."""

from __future__ import annotations

from ottla.wire import ZERO_UUID, Message, Uuid
from ottla.wire.messages import ProduceRequest
from tests.interop.comparison.script import Build
from tests.interop.comparison.world import World
from tests.interop.fuzz.batches import any_batch
from tests.interop.fuzz.drawing import Draw, FuzzStep, step, topic_id

_ATTRIBUTES_AT = 22

Parts = list[tuple[str, list[tuple[int, bytes | None]]]]


def produce(draw: Draw) -> FuzzStep:
    acks = draw.mostly(draw.one(-1, 1), 0, 2, -2, 32767, chance=0.85)
    words, parts = [], []
    for topic in draw.some([draw.topic() for _ in range(3)], draw.mostly(1, 2, 3)):
        partitions = [draw.partition() for _ in range(draw.mostly(1, 2, 3))]
        if draw.often(0.06):
            partitions.append(partitions[0])
        named = []
        for partition in partitions:
            described, records = any_batch(draw, topic, partition)
            words.append(f"{topic or 'an empty name'}/{partition}: {described}")
            named.append((partition, records))
        parts.append((topic, named))
    transactional_id = draw.mostly(None, "fuzz-txn", chance=0.985)
    if any(_is_transactional(records) for _, named in parts for _, records in named):
        # Whether the last transaction has its markers is a matter of time.
        transactional_id = None
    id_instead = draw.mostly(None, ZERO_UUID, chance=0.97)
    return step(
        f"Produce acks={acks} transactional id {transactional_id} {'; '.join(words)}",
        draw.version("Produce"),
        _build(parts, acks, transactional_id, id_instead),
        answered=acks != 0,
    )


def _is_transactional(records: bytes | None) -> bool:
    return records is not None and len(records) > _ATTRIBUTES_AT and bool(records[_ATTRIBUTES_AT] & 0x10)


def _build(parts: Parts, acks: int, transactional_id: str | None, id_instead: Uuid | None) -> Build:
    def build(world: World) -> Message:
        return ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=5_000,
            topic_data=[
                ProduceRequest.TopicProduceData(
                    name=topic,
                    topic_id=topic_id(world, topic) if id_instead is None else id_instead,
                    partition_data=[
                        ProduceRequest.PartitionProduceData(index=index, records=records)
                        for index, records in named
                    ],
                )
                for topic, named in parts
            ],
        )

    return build
