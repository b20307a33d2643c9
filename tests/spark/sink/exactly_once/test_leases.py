"""Names of batch writes: taken by one at a time, free again after it, and never more than the pool has."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.server import faults
from ottla.spark.sink.exactly_once.driver import abort_batch, commit_batch
from ottla.spark.sink.exactly_once.errors import TransactionLostError
from ottla.spark.sink.exactly_once.leases import Lease, NoLeaseError, release_lease, take_lease
from ottla.spark.sink.exactly_once.recovery import sink_state
from tests.spark.sink.exactly_once.batches import TIMEOUT_MS, SinkWorld, with_sink

BOTH = pytest.mark.parametrize("version", [1, 2])


async def _take(sink: SinkWorld, most: int = 2) -> Lease:
    return await take_lease(sink.client(), "pool", most=most, timeout_ms=TIMEOUT_MS)


async def _write(sink: SinkWorld, lease: Lease, *rows: str) -> None:
    attempt = await sink.begin(lease.start, lease.batch_id, 0, query_id=lease.query_id)
    outcome = await sink.write(attempt, *rows)
    await commit_batch(sink.client(), lease.query_id, lease.batch_id, [outcome])


@BOTH
def test_writes_have_names_of_their_own_and_give_them_back(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        leases = [await _take(sink), await _take(sink)]
        assert sorted(lease.query_id for lease in leases) == ["pool-0", "pool-1"]
        with pytest.raises(NoLeaseError, match="all 2 names of pool 'pool' are taken"):
            await _take(sink)
        await asyncio.gather(*(_write(sink, lease, lease.query_id) for lease in leases))
        assert await sink.committed() == ["pool-0", "pool-1"]
        assert await sink.open_ids() == []
        again = await _take(sink)
        assert again.batch_id == 1
        await _write(sink, again, "again")
        assert await sink.committed() == ["again", "pool-0", "pool-1"]

    with_sink(scenario, version)


@BOTH
def test_a_write_that_is_given_up_frees_its_name(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        lease = await _take(sink, most=1)
        attempt = await sink.begin(lease.start, lease.batch_id, 0, query_id=lease.query_id)
        await abort_batch(sink.client(), [await sink.write(attempt, "lost")])
        await release_lease(sink.client(), lease.start)
        assert await sink.open_ids() == []
        # One without rows decides nothing, and frees it as well.
        lease = await _take(sink, most=1)
        await _write(sink, lease)
        await release_lease(sink.client(), lease.start)
        await _write(sink, await _take(sink, most=1), "a")
        assert await sink.committed() == ["a"]

    with_sink(scenario, version)


@BOTH
def test_the_timeout_frees_the_name_of_a_write_that_has_crashed(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        crashed = await _take(sink, most=1)
        state = await sink_state(sink.client(), crashed.start.names)
        assert state.driver_is_open
        await sink.world.runtime.clock.sleep(TIMEOUT_MS / 1000 + 5)
        await _write(sink, await _take(sink, most=1), "a")
        assert await sink.committed() == ["a"]

    with_sink(scenario, version)


@BOTH
def test_writes_that_begin_at_once_all_get_a_name_or_are_told(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        taken = await asyncio.gather(*(_take(sink, most=8) for _ in range(4)))
        done = await asyncio.gather(
            *(_write(sink, lease, f"w{number}") for number, lease in enumerate(taken)), return_exceptions=True
        )
        written = sorted(f"w{number}" for number, error in enumerate(done) if error is None)
        # Of two that have taken one name, the one that was fenced is told so, and has written nothing.
        assert await sink.committed() == written
        assert len(written) == len({lease.query_id for lease in taken})

    with_sink(scenario, version)


@BOTH
def test_a_write_whose_rows_are_gone_is_told_also_when_the_next_one_has_used_its_name(version: int) -> None:
    async def scenario(sink: SinkWorld) -> None:
        lease = await _take(sink, most=1)
        attempt = await sink.begin(lease.start, lease.batch_id, 0, query_id=lease.query_id)
        outcome = await sink.write(attempt, "gone")
        slow = sink.client_called("slow")
        sink.cluster.faults.add("EndTxn", client_id="slow", action=faults.delay(0.01), count=1)
        held = sink.cluster.faults.add("EndTxn", client_id="slow", action=faults.delay(1), count=1)
        committing = asyncio.create_task(commit_batch(slow, lease.query_id, lease.batch_id, [outcome]))
        # The decision is committed, and what it lists is on its way; meanwhile a late attempt takes the slot.
        await held.wait()
        await sink.late(0, lease.start.names)
        await _write(sink, await _take(sink, most=1), "next")
        with pytest.raises(TransactionLostError, match=r"the transactions of tasks \[0\] were gone"):
            await committing
        assert await sink.committed() == ["next"]

    with_sink(scenario, version)
