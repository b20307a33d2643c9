"""The receipt of a table: ranges of offsets, the first error, and whoever waits for it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from ottla.client.produce.batch_delivery import BatchDelivery, PartlySentError
from tests.client.produce.batches import batch_of


def test_ranges_of_offsets_grow_together_and_gaps_stay() -> None:
    delivery = BatchDelivery("orders")
    batches = [batch_of(3, partition=number)[0] for number in (1, 0, 1, 1)]
    for batch in batches:
        delivery.watch(batch)
    delivery.complete()
    for batch, offset in zip(batches, (10, 0, 13, 20), strict=True):
        assert not delivery.done()
        batch.complete(offset, -1, None)
    assert delivery.done()
    assert delivery.count == 12
    assert delivery.offsets() == {0: [(0, 2)], 1: [(10, 15), (20, 22)]}
    assert repr(delivery) == "<BatchDelivery of 12 records to orders: delivered>"


def test_the_first_error_counts_and_what_was_delivered_is_known() -> None:
    delivery = BatchDelivery("orders")
    first, second, third = (batch_of(2)[0] for _ in range(3))
    for batch in (first, second, third):
        delivery.watch(batch)
    delivery.complete()
    error = ValueError("refused")
    first.complete(5, -1, None)
    second.complete(-1, -1, error)
    third.complete(-1, -1, ValueError("later"))
    assert delivery.error is error
    assert delivery.offsets() == {0: [(5, 6)]}
    with pytest.raises(ValueError, match="refused"):
        delivery.result()
    assert "refused" in repr(delivery)


def test_an_error_with_receipts_says_how_many_rows_they_are_for_and_why_not_more() -> None:
    orders, bills = BatchDelivery("orders"), BatchDelivery("bills")
    orders.watch(batch_of(3)[0])
    bills.watch(batch_of(2)[0])
    error = PartlySentError({"orders": orders, "bills": bills}, ValueError("no room"))
    assert str(error) == (
        "the first 3 rows for orders, the first 2 rows for bills have been handed over to be sent, and the rest has "
        "not: no room"
    )
    assert error.sent["bills"] is bills


def test_every_part_of_a_split_batch_belongs_to_it() -> None:
    delivery = BatchDelivery("orders")
    batch, _ = batch_of(4)
    delivery.watch(batch)
    delivery.complete()
    offset = 0
    for part in batch.split():
        assert not delivery.done()
        part.complete(offset, -1, None)
        offset += part.encoded.count
    assert delivery.done()
    assert delivery.offsets() == {0: [(0, 3)]}


def test_rows_by_themselves_are_parts_too() -> None:
    delivery = BatchDelivery("orders")
    batch, receipts = batch_of(3, partition=2)
    for receipt in receipts:
        receipt.add_done_callback(delivery.add_row())
    delivery.complete()
    batch.complete(4, -1, None)
    assert delivery.count == 3
    assert delivery.offsets() == {2: [(4, 6)]}


def test_it_can_be_awaited_by_several_and_in_another_loop_than_the_one_that_completes_it() -> None:
    delivery = BatchDelivery("orders")
    batch, _ = batch_of(1)
    delivery.watch(batch)
    delivery.complete()

    async def wait() -> BatchDelivery:
        return await delivery

    async def main() -> None:
        waiting = [asyncio.ensure_future(wait()) for _ in range(2)]
        given_up = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        given_up.cancel()
        thread = threading.Thread(target=batch.complete, args=(0, -1, None))
        thread.start()
        assert [await each for each in waiting] == [delivery, delivery]
        thread.join()
        assert await delivery is delivery

    asyncio.run(main())


def test_a_callback_is_called_once_and_at_once_if_it_is_late() -> None:
    delivery = BatchDelivery("orders")
    called: list[BatchDelivery] = []
    delivery.add_done_callback(called.append)
    delivery.complete()
    delivery.add_done_callback(called.append)
    assert called == [delivery, delivery]


def test_blocking_goes_through_whoever_can_and_says_so_otherwise() -> None:
    with pytest.raises(RuntimeError, match="await the delivery"):
        BatchDelivery("orders").result()
    waited: list[float | None] = []
    delivery = BatchDelivery("orders", lambda delivery, timeout: waited.append(timeout))
    with pytest.raises(
        TimeoutError, match="the table for orders was not delivered within 2 s; it is still under way"
    ):
        delivery.result(2)
    assert waited == [2]
    assert BatchDelivery("orders", lambda delivery, timeout: delivery.complete()).result().done()
