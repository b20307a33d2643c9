"""Parked requests: what ends their wait, and that nothing is left of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ottla import sim
from ottla.broker.replication.delayed import DelayedRequest, FetchPurgatory, ProgressPurgatory
from ottla.broker.replication.partition import PartitionKey
from ottla.broker.server.faults import delay
from ottla.runtime import MovableClock
from ottla.sim.runtime import SimRuntime
from tests.broker.worlds import Body, World, batch

Run = Callable[[Body], object]

ORDERS, OTHERS = ("orders", 0), ("others", 0)
TIMEOUT = 30.0


class Parked:
    """A fetch in a purgatory of its own, and the task that awaits it."""

    def __init__(self, runtime: SimRuntime, is_follower: bool = False) -> None:
        self.purgatory = FetchPurgatory(runtime.clock)
        self.completed: list[float] = []
        self.request: DelayedRequest[str] = self.purgatory.park(
            [ORDERS, OTHERS],
            missing_bytes=100,
            timeout=TIMEOUT,
            complete=self._complete,
            is_follower=is_follower,
        )
        self._clock = runtime.clock

    def _complete(self) -> str:
        self.completed.append(self._clock.monotonic())
        return "the response"

    async def response(self) -> str:
        return await self.request


def run_parked(body: Callable[[Parked], object], is_follower: bool = False) -> float:
    """Lets `body` happen while the request waits; how long it waited."""

    async def main(runtime: SimRuntime) -> float:
        begin = runtime.clock.monotonic()
        parked = Parked(runtime, is_follower)
        waiting = asyncio.ensure_future(parked.response())
        await asyncio.sleep(1)
        body(parked)
        assert not parked.completed, "the handler looks again on the task of its connection only"
        assert await waiting == "the response"
        assert len(parked.purgatory) == 0
        (at,) = parked.completed
        return at - begin

    return sim.run(main, seed=1)


def test_a_consumers_wait_ends_when_enough_bytes_are_committed_in_all_partitions_together() -> None:
    def enough(parked: Parked) -> None:
        parked.purgatory.committed(ORDERS, 60)
        parked.purgatory.committed(OTHERS, 40)

    assert run_parked(enough) == pytest.approx(1)


def test_a_followers_wait_ends_when_enough_bytes_are_appended() -> None:
    def enough(parked: Parked) -> None:
        parked.purgatory.appended(ORDERS, 60)
        parked.purgatory.appended(OTHERS, 40)

    assert run_parked(enough, is_follower=True) == pytest.approx(1)


def test_what_is_appended_is_nothing_to_a_consumer_and_what_is_committed_nothing_to_a_follower() -> None:
    assert run_parked(lambda parked: parked.purgatory.appended(ORDERS, 1000)) == pytest.approx(TIMEOUT)
    assert run_parked(
        lambda parked: parked.purgatory.committed(ORDERS, 1000), is_follower=True
    ) == pytest.approx(TIMEOUT)


@pytest.mark.parametrize("is_follower", [False, True], ids=["consumer", "follower"])
def test_too_few_bytes_and_other_partitions_do_not_end_it(is_follower: bool) -> None:
    def too_few(parked: Parked) -> None:
        for come in (parked.purgatory.appended, parked.purgatory.committed):
            come(ORDERS, 99)
            come(("payments", 0), 1000)
        parked.purgatory.changed(("orders", 1))

    assert run_parked(too_few, is_follower) == pytest.approx(TIMEOUT)


def test_a_reader_of_committed_data_counts_what_has_become_stable() -> None:
    stable = {ORDERS: 10, OTHERS: 0}
    looked_at: list[PartitionKey] = []

    def stable_size(key: PartitionKey) -> int:
        looked_at.append(key)
        return stable[key]

    async def main(runtime: SimRuntime) -> None:
        purgatory = FetchPurgatory(runtime.clock)
        request = purgatory.park(
            [ORDERS, OTHERS],
            missing_bytes=90,
            timeout=TIMEOUT,
            complete=runtime.clock.monotonic,
            seen=dict(stable),
            stable_size=stable_size,
        )
        begin = runtime.clock.monotonic()
        waiting = asyncio.ensure_future(until_over(request))
        purgatory.committed(ORDERS, 1000)  # all of it in a transaction that is open
        stable[OTHERS] = 50
        purgatory.committed(OTHERS, 1)
        purgatory.committed(OTHERS, 1)  # the same bytes do not count twice
        await asyncio.sleep(1)
        assert not waiting.done()
        stable[ORDERS] = 50  # 40 more
        purgatory.committed(ORDERS, 1)
        assert await waiting - begin == pytest.approx(1)
        assert looked_at == [ORDERS, OTHERS, OTHERS, ORDERS]

    sim.run(main, seed=1)


async def until_over(request: DelayedRequest[float]) -> float:
    return await request


@pytest.mark.parametrize("is_follower", [False, True], ids=["consumer", "follower"])
def test_any_other_change_of_a_partition_ends_it_at_once(is_follower: bool) -> None:
    assert run_parked(lambda parked: parked.purgatory.changed(OTHERS), is_follower) == pytest.approx(1)


def test_what_comes_before_the_task_begins_is_not_missed() -> None:
    async def main(runtime: SimRuntime) -> None:
        begin = runtime.clock.monotonic()
        parked = Parked(runtime)
        parked.purgatory.changed(ORDERS)
        parked.purgatory.committed(OTHERS, 100)
        assert await parked.request == "the response"
        assert runtime.clock.monotonic() == begin

    sim.run(main, seed=1)


def test_a_request_that_is_given_up_is_gone_whether_or_not_it_was_awaited() -> None:
    async def main(runtime: SimRuntime) -> None:
        unawaited = Parked(runtime)
        assert len(unawaited.purgatory) == 1
        unawaited.request.close()
        unawaited.request.close()
        assert len(unawaited.purgatory) == 0
        awaited = Parked(runtime)
        waiting = asyncio.ensure_future(awaited.response())
        await asyncio.sleep(1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (len(awaited.purgatory), awaited.completed) == (0, [])

    sim.run(main, seed=1)


def test_requests_are_counted_once_however_many_partitions_they_wait_for() -> None:
    async def main(runtime: SimRuntime) -> None:
        purgatory = FetchPurgatory(runtime.clock)
        requests = [
            purgatory.park(partitions, missing_bytes=1, timeout=TIMEOUT, complete=lambda: None)
            for partitions in ([ORDERS, OTHERS], [ORDERS])
        ]
        assert len(purgatory) == 2
        requests[0].close()
        assert len(purgatory) == 1
        requests[1].close()
        assert len(purgatory) == 0

    sim.run(main, seed=1)


class Progress:
    """A request that waits until both partitions have come far enough; `asked` are those that were looked at."""

    def __init__(self, runtime: SimRuntime) -> None:
        self.purgatory = ProgressPurgatory(runtime.clock)
        self.far: set[PartitionKey] = set()
        self.asked: list[PartitionKey] = []
        self.request = self.purgatory.park(
            [ORDERS, OTHERS], timeout=TIMEOUT, has_come=self._has_come, complete=runtime.clock.monotonic
        )

    def _has_come(self, partition: PartitionKey) -> bool:
        self.asked.append(partition)
        return partition in self.far

    async def response(self) -> float:
        return await self.request


def test_a_request_waits_until_all_of_its_partitions_have_come_far_enough_at_any_time() -> None:
    async def main(runtime: SimRuntime) -> None:
        begin = runtime.clock.monotonic()
        waits = Progress(runtime)
        waiting = asyncio.ensure_future(waits.response())
        waits.purgatory.changed(ORDERS)
        waits.far = {ORDERS}
        waits.purgatory.changed(ORDERS)
        # It has been far enough once: what becomes of it later is no matter.
        waits.far = {OTHERS}
        waits.purgatory.changed(ORDERS)
        await asyncio.sleep(1)
        assert not waiting.done()
        waits.purgatory.changed(OTHERS)
        assert await waiting == pytest.approx(begin + 1)
        assert waits.asked == [ORDERS, ORDERS, OTHERS]
        assert len(waits.purgatory) == 0

    sim.run(main, seed=1)


def test_a_request_for_progress_ends_with_its_time_and_not_with_other_partitions() -> None:
    async def main(runtime: SimRuntime) -> None:
        begin = runtime.clock.monotonic()
        waits = Progress(runtime)
        waits.far = {ORDERS, OTHERS, ("payments", 0)}
        waiting = asyncio.ensure_future(waits.response())
        await asyncio.sleep(1)
        waits.purgatory.changed(("payments", 0))
        waits.purgatory.changed(ORDERS)
        assert await waiting == pytest.approx(begin + TIMEOUT)
        assert waits.asked == [ORDERS]
        assert len(waits.purgatory) == 0

    sim.run(main, seed=1)


def test_a_long_poll_ends_when_records_come_and_holds_up_no_other_connection(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            reader, writer = await world.client(cluster), await world.client(cluster)
            polling = asyncio.ensure_future(reader.fetch("orders", max_wait=60_000))
            await cluster.wait_for(lambda: cluster.node(1).dispatcher.pending_requests == 1)
            await writer.produce("orders", batch(b"1"))
            found = await polling
            assert found.high_watermark == 1
            assert found.records

    run(body)


def test_a_long_poll_ends_with_its_time(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            client = await world.client(cluster)
            polling = asyncio.ensure_future(client.fetch("orders", max_wait=60_000))
            await cluster.wait_for(lambda: cluster.node(1).dispatcher.pending_requests == 1)
            cluster.clock.advance(61)
            found = await polling
            assert (found.error_code, bytes(found.records or b"")) == (0, b"")

    run(body)


@pytest.mark.parametrize("faults", [False, True], ids=["", "with faults"])
def test_a_long_poll_ends_with_its_connection(run: Run, faults: bool) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            if faults:
                cluster.faults.add("Produce", action=delay(1))
            purgatory = cluster.node(1).replicas.fetches
            client = await world.client(cluster)
            polling = asyncio.ensure_future(client.fetch("orders", max_wait=60_000))
            await cluster.wait_for(lambda: len(purgatory) == 1, "the long poll")
            client.channel.close()
            await cluster.wait_for(lambda: len(purgatory) == 0, "its end")
            await asyncio.gather(polling, return_exceptions=True)

    run(body)


def test_a_long_poll_ends_with_its_node(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            purgatory = cluster.node(1).replicas.fetches
            client = await world.client(cluster)
            polling = asyncio.ensure_future(client.fetch("orders", max_wait=60_000))
            await cluster.wait_for(lambda: len(purgatory) == 1, "the long poll")
            await cluster.stop_node(1)
            assert len(purgatory) == 0
            await asyncio.gather(polling, return_exceptions=True)

    run(body)


def test_a_long_poll_on_a_paused_node_is_answered_when_the_node_goes_on(run: Run) -> None:
    async def body(world: World) -> None:
        config = {"broker.session.timeout.ms": 600_000}
        async with world.cluster(topics=["orders"], config=config) as cluster:
            purgatory = cluster.node(1).replicas.fetches
            client = await world.client(cluster)
            polling = asyncio.ensure_future(client.fetch("orders", max_wait=60_000))
            await cluster.wait_for(lambda: len(purgatory) == 1, "the long poll")
            cluster.pause_node(1)
            cluster.clock.advance(61)
            await cluster.wait_for(lambda: len(purgatory) == 0, "the end of the wait")
            assert not polling.done()
            cluster.resume_node(1)
            assert (await polling).error_code == 0

    run(body)


def test_a_long_poll_ends_when_another_node_leads(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(2, topics=["orders"]) as cluster:
            leader = cluster.leader("orders")
            purgatory = cluster.node(leader).replicas.fetches
            client = await world.client(cluster, leader)
            polling = asyncio.ensure_future(client.fetch("orders", max_wait=600_000))
            await cluster.wait_for(lambda: len(purgatory) == 1, "the long poll")
            await cluster.move_leader("orders", 0, 3 - leader)
            # Since version 11 a follower serves consumers as well: without an error, and at once.
            assert (await polling).error_code == 0

    run(body)


def test_records_that_are_seeded_end_a_long_poll(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            purgatory = cluster.node(1).replicas.fetches
            client = await world.client(cluster)
            polling = asyncio.ensure_future(client.fetch("orders", max_wait=600_000))
            await cluster.wait_for(lambda: len(purgatory) == 1, "the long poll")
            cluster.seed("orders", [b"1"])
            assert (await polling).records

    run(body)


def test_a_watcher_hears_of_every_change_of_its_partition_until_it_goes() -> None:
    purgatory = ProgressPurgatory(MovableClock())
    heard: list[PartitionKey] = []
    purgatory.watch(ORDERS, lambda: heard.append(ORDERS))
    for partition in (ORDERS, OTHERS, ORDERS):
        purgatory.changed(partition)
    purgatory.unwatch(ORDERS)
    purgatory.unwatch(ORDERS)
    purgatory.changed(ORDERS)
    assert heard == [ORDERS, ORDERS]
