"""What the core holds can be collected: no cycle through it is hidden from Python's garbage collector."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from ottla.wire.records import Accumulator, TopicAppender, UnknownTopicBuffer
from tests.client.partitioners.support import idle
from tests.native.appender_support import partitioner_of


class Owner:
    """As a client does, it has an accumulator, which calls it back."""

    def __init__(self) -> None:
        self.accumulator = Accumulator(
            batch_size=200, max_bytes=1 << 20, wake=self.wake, wait=self.wait, unlinger=self.unlinger
        )
        self.kept: list[Any] = []

    def wake(self, buffer: object, full: bool) -> None:
        """Called by an appending thread."""

    def wait(self, delivery: object, timeout: float | None) -> None:
        """Called by `Delivery.result`."""

    def unlinger(self, topic: str, partition: int) -> None:
        """Called when a caller waits."""


def with_an_open_batch(owner: Owner) -> None:
    owner.accumulator.append("orders", 0, None, b"1")


def with_full_batches(owner: Owner) -> None:
    for _ in range(10):
        owner.accumulator.append("orders", 0, None, bytes(150))


def with_a_drained_batch(owner: Owner) -> None:
    owner.accumulator.append("orders", 0, None, b"1")
    owner.kept += owner.accumulator.drain("orders", 0, force=True)


def with_a_callback(owner: Owner) -> None:
    owner.accumulator.append("orders", 0, None, b"1").add_done_callback(lambda _: owner.kept)


def with_held_records(owner: Owner) -> None:
    held = UnknownTopicBuffer(owner.accumulator, "orders")
    held.append(None, b"1")
    owner.kept.append(held)


def with_released_records(owner: Owner) -> None:
    held = UnknownTopicBuffer(owner.accumulator, "orders")
    held.append(None, b"1")
    held.release(TopicAppender(owner.accumulator, "orders", partitioner_of(), idle(1)))
    owner.kept.append(held)


def with_failed_records(owner: Owner) -> None:
    held = UnknownTopicBuffer(owner.accumulator, "orders")
    held.append(None, b"1")
    held.fail(RuntimeError("no such topic"))
    owner.kept.append(held)


STATES = [
    with_an_open_batch,
    with_full_batches,
    with_a_drained_batch,
    with_a_callback,
    with_held_records,
    with_released_records,
    with_failed_records,
]


@pytest.mark.parametrize("state", STATES)
def test_an_accumulator_is_collected_with_its_owner(state: Callable[[Owner], None]) -> None:
    owner = Owner()
    state(owner)
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None


def test_the_memory_of_batches_that_nobody_sent_goes_back() -> None:
    from ottla._native.memory import statistics

    gc.collect()
    before = statistics()["in_use"]
    for _ in range(20):
        with_full_batches(Owner())
    gc.collect()
    assert statistics()["in_use"] == before


def test_a_receipt_that_is_kept_does_not_keep_who_has_disconnected_the_accumulator() -> None:
    owner = Owner()
    delivery = owner.accumulator.append("orders", 0, None, b"1")
    batch = owner.accumulator.drain("orders", 0, force=True)[0]
    batch.complete(7)
    owner.accumulator.disconnect()
    gone = weakref.ref(owner)
    del owner, batch
    gc.collect()
    assert gone() is None
    assert delivery.result().offset == 7


def test_a_wait_after_disconnect_says_that_nothing_can_block() -> None:
    owner = Owner()
    delivery = owner.accumulator.append("orders", 0, None, b"1")
    owner.accumulator.disconnect()
    with pytest.raises(RuntimeError, match="await the delivery instead"):
        delivery.result(timeout=0)
