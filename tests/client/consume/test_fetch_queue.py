"""FetchQueue: what is put in comes out once and in order, and the loop learns what was taken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ottla.client.consume.fetch_queue import Failure, FetchQueue, PositionReset
from ottla.client.topic_partition import TopicPartition

ORDERS = TopicPartition("orders", 0)


def test_things_come_out_in_order_and_their_callback_is_called_once() -> None:
    queue, taken = FetchQueue(), []
    first, second = (
        Failure(ValueError(), on_taken=lambda: taken.append("first")),
        PositionReset(ORDERS, 5, generation=0),
    )
    queue.put(first, second)
    assert len(queue) == 2
    assert queue.take_nowait() is first
    assert taken == ["first"]
    assert queue.take_nowait() is second
    assert queue.take_nowait() is None
    assert taken == ["first"]


def test_a_waiter_is_called_when_there_is_something_again_and_at_the_end() -> None:
    async def body() -> None:
        queue, told = FetchQueue(), []
        queue.waiters.append(lambda: told.append("first"))
        queue.put(PositionReset(ORDERS, 5, generation=0))
        assert told == ["first"]
        queue.waiters[:] = [lambda: told.append("second")]
        queue.put(PositionReset(ORDERS, 6, generation=0))
        assert told == ["first"], "there was something all the time"
        queue.complete(True)
        assert told == ["first", "second"]
        queue.complete(False)
        assert not queue.is_complete

    asyncio.run(body())


def test_what_is_discarded_is_given_back_and_not_notified() -> None:
    queue, taken = FetchQueue(), []
    failure = Failure(ValueError(), on_taken=lambda: taken.append("failure"))
    queue.put(failure)
    assert queue.discard() == [failure]
    assert len(queue) == 0
    assert not taken


def test_what_was_to_be_taken_stays_if_the_wake_is_interrupted() -> None:
    woken: list[Callable[[], None]] = []

    def wake(function: Callable[[], None]) -> None:
        woken.append(function)
        raise KeyboardInterrupt

    queue = FetchQueue(wake)
    failure = Failure(ValueError(), on_taken=lambda: None)
    queue.put(failure)
    with pytest.raises(KeyboardInterrupt):
        queue.take_nowait()
    assert queue.take_nowait() is failure
    assert len(woken) == 1
