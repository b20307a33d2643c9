"""Batches without a producer around them, for the tests of what is told about batches."""

from __future__ import annotations

from ottla.client.produce.batch import ProducerBatch
from ottla.wire.records import Accumulator, Delivery


def batch_of(count: int, topic: str = "orders", partition: int = 0) -> tuple[ProducerBatch, list[Delivery]]:
    """A batch of so many records, and their receipts."""
    accumulator = Accumulator(batch_size=1 << 16, max_bytes=1 << 20)
    receipts = [accumulator.append(topic, partition, None, b"%d" % number) for number in range(count)]
    (encoded,) = accumulator.drain(topic, partition, force=True)
    encoded.seal()
    return ProducerBatch(encoded, encoded.opened_at), receipts
