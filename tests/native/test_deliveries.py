"""Receipts: waited for in a loop, in a thread, or by a function that is called."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable
from typing import Any

import pytest

from ottla._native.accumulator import Accumulator
from ottla._native.deliveries import Delivery
from ottla._native.outgoing import EncodedBatch
from tests.native.accumulator_support import accumulator


def one_record(records: Accumulator) -> tuple[Delivery, EncodedBatch]:
    delivery = records.append("orders", 3, b"key", b"value")
    (batch,) = records.drain("orders", 3, force=True)
    return delivery, batch


async def waiting(delivery: Awaitable[Delivery]) -> asyncio.Task[Delivery]:
    """A task that has got as far as it can."""

    async def wait() -> Delivery:
        return await delivery

    task = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    return task


def test_awaiting_gives_the_delivery_itself() -> None:
    async def main() -> None:
        delivery, batch = one_record(accumulator())
        task = await waiting(delivery)
        assert not task.done()
        batch.complete(41)
        assert await task is delivery
        assert delivery.offset == 41

    asyncio.run(main())


def test_awaiting_what_is_done_does_not_give_way_to_others() -> None:
    delivery, batch = one_record(accumulator())
    batch.complete(41)
    steps = delivery.__await__()
    with pytest.raises(StopIteration) as stopped:
        next(steps)
    assert stopped.value.value is delivery  # and no loop was needed


def test_awaiting_raises_the_error_as_often_as_it_is_awaited() -> None:
    async def main() -> None:
        delivery, batch = one_record(accumulator())
        task = await waiting(delivery)
        error = TimeoutError("too late")
        batch.complete(error=error)
        for _ in range(3):
            with pytest.raises(TimeoutError, match="too late") as raised:
                await delivery
            assert raised.value is error
        with pytest.raises(TimeoutError):
            await task

    asyncio.run(main())


def test_the_traceback_of_an_error_does_not_grow_with_the_records_it_is_raised_for() -> None:
    delivery, batch = one_record(accumulator())
    batch.complete(error=TimeoutError("too late"))
    lengths = []
    for _ in range(20):
        with pytest.raises(TimeoutError) as raised:
            delivery.result()
        lengths.append(len(raised.traceback))
    assert len(set(lengths)) == 1


def test_many_tasks_may_await_one_delivery_and_one_may_give_up() -> None:
    async def main() -> None:
        delivery, batch = one_record(accumulator())
        tasks = [await waiting(delivery) for _ in range(5)]
        tasks[2].cancel()
        await asyncio.sleep(0)
        batch.complete(7)
        del tasks[2]
        assert [(await task).offset for task in tasks] == [7] * 4

    asyncio.run(main())


def test_a_delivery_that_is_completed_in_another_thread_wakes_its_loop() -> None:
    async def main() -> None:
        for _ in range(50):
            delivery, batch = one_record(accumulator())
            thread = threading.Thread(target=batch.complete, args=(9,))
            task = await waiting(delivery)
            thread.start()
            assert (await task).offset == 9
            thread.join()

    asyncio.run(asyncio.wait_for(main(), timeout=30))


def test_a_loop_that_is_gone_is_not_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    unraisable: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    delivery, batch = one_record(accumulator())

    async def give_up() -> None:
        (await waiting(delivery)).cancel()

    asyncio.run(give_up())
    assert batch.complete(3)
    assert unraisable == []


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_a_callback_that_ends_the_program_ends_it_behind_the_others(kind: type[BaseException]) -> None:
    """Without a loop for whoever completes the batch, else for who runs the loop; never in the middle."""
    called: list[int] = []

    def ends(_: object) -> None:
        called.append(1)
        raise kind

    def asked() -> Any:
        delivery, batch = one_record(accumulator())
        delivery.add_done_callback(ends)
        delivery.add_done_callback(lambda _: called.append(2))
        return batch

    batch = asked()
    with pytest.raises(kind):
        batch.complete(3)
    assert called == [1, 2]
    assert batch.completed

    async def completes() -> None:
        assert asked().complete(3)
        called.append(3)

    called.clear()
    with pytest.raises(kind):
        asyncio.run(completes())
    assert called == [1, 2, 3]


def test_without_a_loop_there_is_nothing_to_await_in() -> None:
    delivery, _ = one_record(accumulator())
    with pytest.raises(RuntimeError, match=r"no event loop is running in this thread: use result\(\)"):
        next(delivery.__await__())


def test_result_needs_somebody_who_can_block() -> None:
    delivery, batch = one_record(accumulator())
    with pytest.raises(RuntimeError, match="await the delivery instead"):
        delivery.result()
    batch.complete(5)
    assert delivery.result() is delivery


def test_result_blocks_through_the_accumulators_function() -> None:
    asked: list[tuple[Delivery, float | None]] = []

    def wait(delivery: Delivery, timeout: float | None) -> None:
        asked.append((delivery, timeout))
        batch.complete(12)

    delivery, batch = one_record(accumulator(wait=wait))
    assert delivery.result(timeout=2.5) is delivery
    assert delivery.result(timeout=1) is delivery
    assert asked == [(delivery, 2.5)]
    assert delivery.offset == 12


def test_result_says_that_it_was_not_waited_for_any_longer() -> None:
    delivery, _ = one_record(accumulator(wait=lambda delivery, timeout: None))
    with pytest.raises(
        TimeoutError, match=r"orders-3 was not delivered within 0\.5 s; it is still under way"
    ):
        delivery.result(0.5)
    assert not delivery.done()


def test_result_raises_the_error() -> None:
    delivery, batch = one_record(accumulator())
    batch.complete(error=ValueError("refused"))
    with pytest.raises(ValueError, match="refused"):
        delivery.result()


def test_who_waits_urges_the_sender_and_who_finds_it_done_does_not() -> None:
    urged: list[tuple[str, int]] = []

    def wait(delivery: Delivery, timeout: float | None) -> None:
        batch.complete(1)

    async def main() -> None:
        task = await waiting(delivery)
        assert urged == [("orders", 3)]
        task.cancel()

    records = accumulator(wait=wait, unlinger=lambda topic, partition: urged.append((topic, partition)))
    delivery, batch = one_record(records)
    asyncio.run(main())
    delivery.result()
    assert urged == [("orders", 3)] * 2
    delivery.result()
    assert urged == [("orders", 3)] * 2


def test_two_receipts_for_one_record_are_alike() -> None:
    async def main() -> None:
        delivery, batch = one_record(accumulator())
        again = batch.delivery(0)
        assert again is not delivery
        tasks = [await waiting(each) for each in (delivery, again)]
        batch.complete(2)
        assert [(await task).offset for task in tasks] == [2, 2]

    asyncio.run(main())


@pytest.mark.parametrize(
    "timestamps",
    [
        [1_700_000_000_000, 1_700_000_000_001, 1_699_999_999_999],
        [0, 2**31 - 1, 2**31, 2**31 + 1],
        [2**40, 2**40 - 2**31, 2**40 - 2**31 + 1, 0],
        [0, 2**63 - 1, 1],
        [2**63 - 1, 0, 2**63 - 2],
    ],
)
def test_a_timestamp_is_kept_however_far_it_is_from_the_first_of_the_batch(timestamps: list[int]) -> None:
    records = accumulator()
    kept = [records.append("orders", 3, b"key", b"value", timestamp=each) for each in timestamps]
    called: list[int] = []
    for delivery in kept:
        delivery.add_done_callback(lambda done: called.append(done.timestamp))
    (batch,) = records.drain("orders", 3, force=True)
    assert [delivery.timestamp for delivery in kept] == timestamps
    assert [batch.delivery(index).timestamp for index in range(len(kept))] == timestamps
    batch.complete(41)
    assert [delivery.timestamp for delivery in kept] == timestamps
    assert called == timestamps


def test_callbacks_of_many_records_are_called_in_order_each_with_its_own() -> None:
    records = accumulator()
    called: list[tuple[int, int]] = []
    for number in range(1000):
        delivery = records.append("orders", 3, b"key", b"v", timestamp=number)
        delivery.add_done_callback(lambda done: called.append((done.index, done.timestamp)))
        delivery.add_done_callback(lambda done: called.append((done.index, done.offset)))
    offset = 0
    expected: list[tuple[int, int]] = []
    for batch in records.drain("orders", 3, force=True):
        for index in range(batch.count):
            expected += [(index, offset + index), (index, offset + index)]
        batch.complete(offset)
        offset += batch.count
    assert called == expected
    assert offset == 1000


def test_a_receipt_takes_little_since_there_may_be_millions() -> None:
    assert Delivery.__basicsize__ <= object.__basicsize__ + 16
