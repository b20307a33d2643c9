"""The receipts of a task: no failure is forgotten, and nothing is kept that is stored."""

from __future__ import annotations

import pytest

from ottla.client.produce.batch_delivery import BatchDelivery
from ottla.errors import InvalidRecordError
from ottla.spark.sink.row_sender import Receipts
from tests.client.produce.batches import batch_of


class FailsWhileItIsLookedAt(BatchDelivery):
    """The client's thread comes in between: at the first look all is well, at the next one it has failed."""

    @property
    def error(self) -> BaseException | None:
        seen = super().error
        if not super().done():
            fail(self)
        return seen


def fail(delivery: BatchDelivery) -> None:
    batch, _ = batch_of(1)
    delivery.watch(batch)
    delivery.complete()
    batch.complete(-1, -1, InvalidRecordError())


def stored(topic: str = "orders") -> BatchDelivery:
    delivery = BatchDelivery(topic)
    delivery.complete()
    return delivery


def test_a_failure_that_comes_while_receipts_are_looked_at_is_not_forgotten() -> None:
    receipts = Receipts()
    receipts.add([FailsWhileItIsLookedAt("orders")])
    found = receipts.first_failed() or receipts.first_failed()
    assert found is not None
    assert isinstance(found.error, InvalidRecordError)


def test_one_that_stays_open_does_not_keep_those_behind_it() -> None:
    receipts = Receipts()
    receipts.add([open_one := BatchDelivery("slow"), *(stored() for _ in range(1000))])
    assert receipts.first_failed() is None
    assert len(receipts) == 1
    assert receipts.oldest is open_one


def test_the_first_failure_is_found_also_behind_open_ones() -> None:
    failed = BatchDelivery("orders")
    fail(failed)
    receipts = Receipts()
    receipts.add([BatchDelivery("slow"), stored(), failed])
    assert receipts.first_failed() is failed


@pytest.mark.parametrize("count", [0, 3])
def test_they_are_as_many_as_are_open(count: int) -> None:
    receipts = Receipts()
    receipts.add([BatchDelivery("orders") for _ in range(count)])
    assert len(receipts) == count
    assert receipts.rows == 0
