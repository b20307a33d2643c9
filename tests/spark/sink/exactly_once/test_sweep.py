"""Leftovers: found in every slot that was ever used, and aborted only by the driver that is the current one."""

from __future__ import annotations

import pytest

from ottla.broker.server import faults
from ottla.errors import DeliveryTimeoutError
from ottla.spark.sink.exactly_once.driver import start_batch
from ottla.spark.sink.exactly_once.errors import SinkError, SinkFencedError
from ottla.spark.sink.exactly_once.sweep import sweep
from tests.spark.sink.exactly_once.batches import NAMES, TIMEOUT_MS, SinkWorld, with_sink

BOTH = pytest.mark.parametrize("version", [1, 2])


@BOTH
def test_what_dead_tasks_have_left_is_aborted_also_beyond_the_next_batch(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        start = await sink.start()
        for slot in (0, 3, 11):
            await sink.task(start, 0, slot, f"lost {slot}")
        assert len(await sink.open_ids()) == 3
        await sink.batch(0, ["a"])
        assert await sink.open_ids() == []
        assert await sink.committed() == ["a"]

    with_sink(scenario, version)


@BOTH
def test_a_driver_that_was_replaced_sweeps_nothing(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        old = await sink.start()
        new = await sink.start()
        outcome = await sink.task(new, 0, 0, "a")
        with pytest.raises(SinkFencedError, match="another driver has taken over sink 'billing'"):
            await sweep(sink.client(), NAMES, old.driver, 8)
        await sink.commit(0, [outcome])
        assert await sink.committed() == ["a"]

    with_sink(scenario, version)


def test_leftovers_that_may_be_decided_stay_open_and_the_error_says_why() -> None:
    async def scenario(sink: SinkWorld) -> None:
        start = await sink.start()
        await sink.task(start, 0, 0, "left")
        # The client that sweeps cannot store its own record among the decisions, so a decision may be hidden from it.
        sink.cluster.faults.add("Produce", client_id="sweeps", action=faults.error("NOT_ENOUGH_REPLICAS"))
        with pytest.raises(SinkError, match=r"sink 'billing'.*Nothing is lost: run this again") as raised:
            await start_batch(sink.client_called("sweeps"), NAMES, timeout_ms=TIMEOUT_MS)
        assert isinstance(raised.value.__cause__, DeliveryTimeoutError)
        assert await sink.open_ids() == [NAMES.slot_id(0)]

    with_sink(scenario)


def test_ids_of_other_sinks_are_left_alone() -> None:
    async def scenario(sink: SinkWorld) -> None:
        stranger = sink.world.client(sink.cluster, transactional_id="billing-other")
        await stranger.begin_transaction()
        await stranger.produce("orders", b"x", partition=0)
        await stranger.flush()
        await sink.start()
        assert await sink.open_ids() == ["billing-other"]

    with_sink(scenario)
