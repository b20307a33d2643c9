"""RebalanceCallbacks: plain and asynchronous ones, what they raise, and which is called when there is no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ottla.client.group.callbacks import RebalanceCallbacks, RebalanceListeners, run_on_loop
from ottla.client.group.consumer import AsyncGroupConsumer
from ottla.client.group.member import CLOSING_S
from ottla.client.group.reactions import Reaction
from ottla.client.topic_partition import TopicPartition
from ottla.errors import ClientClosedError, ConfigurationError
from tests.client.group.grouping import EAGER, QUICK, until, until_shared
from tests.client.worlds import Body, World

Run = Callable[[Body], object]

PARTITIONS = [TopicPartition("orders", 1), TopicPartition("orders", 0)]


def call(listeners: RebalanceListeners, *what: str) -> list[Exception]:
    failed: list[Exception] = []

    async def main() -> None:
        callbacks = RebalanceCallbacks(listeners, partial(run_on_loop, "consumer"), failed.append)
        for each in what:
            await getattr(callbacks, each)(PARTITIONS)
            assert not callbacks.is_running
            await callbacks.returned()

    asyncio.run(main())
    return failed


def test_plain_and_asynchronous_functions_get_the_consumer_and_its_partitions_in_order() -> None:
    log: list[Any] = []

    async def revoked(consumer: object, partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(0)
        log.append(("revoked", consumer, partitions))

    def assigned(consumer: object, partitions: list[TopicPartition]) -> None:
        log.append(("assigned", consumer, partitions))

    assert call(RebalanceListeners(assigned, revoked), "assigned", "revoked") == []
    both = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
    assert log == [("assigned", "consumer", both), ("revoked", "consumer", both)]


def test_what_is_lost_is_revoked_for_a_program_that_does_not_tell_them_apart() -> None:
    log: list[str] = []
    listeners = RebalanceListeners(on_revoked=lambda *_: log.append("revoked"))
    call(listeners, "lost")
    call(RebalanceListeners(on_revoked=listeners.on_revoked, on_lost=lambda *_: log.append("lost")), "lost")
    assert log == ["revoked", "lost"]


def test_what_one_raises_goes_to_the_program_and_the_group_goes_on() -> None:
    def fails(*_: object) -> None:
        raise ValueError("out of my depth")

    failed = call(RebalanceListeners(fails, fails), "assigned", "revoked")
    assert [str(error) for error in failed] == ["out of my depth"] * 2


def test_nothing_is_called_for_no_partitions() -> None:
    async def main() -> None:
        called: list[object] = []
        listeners = RebalanceListeners(on_assigned=lambda *given: called.append(given))
        await RebalanceCallbacks(listeners, partial(run_on_loop, None), called.append).assigned([])
        assert called == []

    asyncio.run(main())


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="on_lost='x'"):
        RebalanceListeners(on_lost="x")  # type: ignore[arg-type]


def test_it_is_known_who_asks_a_callback_or_the_program_beside_it() -> None:
    async def main() -> None:
        began, ends = asyncio.Event(), asyncio.Event()
        asked: list[bool] = []
        failed: list[Exception] = []

        async def assigned(*_: object) -> None:
            asked.append(callbacks.call_now)
            later.append(asyncio.create_task(asks_later()))
            began.set()
            await ends.wait()

        async def asks_later() -> None:
            await callbacks.returned()
            asked.append(callbacks.call_now)

        later: list[asyncio.Task[None]] = []
        callbacks = RebalanceCallbacks(
            RebalanceListeners(assigned), partial(run_on_loop, None), failed.append
        )
        other = RebalanceCallbacks(RebalanceListeners(), partial(run_on_loop, None), failed.append)
        calling = asyncio.create_task(callbacks.assigned(PARTITIONS))
        await began.wait()
        assert (callbacks.is_running, callbacks.call_now, other.call_now) == (True, False, False)
        ends.set()
        await asyncio.gather(calling, *later)
        # What a callback has begun is not called back any more when that has returned.
        assert (asked, failed) == ([True, False], [])

    asyncio.run(main())


# Of whole members

CALLBACKS = ["on_assigned", "on_revoked", "on_lost"]


async def provoked(world: World, consumer: AsyncGroupConsumer, callback: str) -> None:
    """Has this one called."""
    await until(world, lambda: bool(consumer.assignment()) or consumer.is_closed)
    if callback != "on_assigned":
        await until_shared(world, consumer, count=1)
        reaction = Reaction.REJOIN if callback == "on_revoked" else Reaction.LOSE
        consumer._member.interrupt(reaction, "a test wants it")


@pytest.mark.parametrize("callback", CALLBACKS)
def test_a_callback_that_closes_its_consumer_has_it_closed_when_it_has_returned(
    callback: str, run: Run
) -> None:
    async def body(world: World) -> None:
        log: list[object] = []

        async def close(consumer: AsyncGroupConsumer, partitions: list[TopicPartition]) -> None:
            await consumer.close()
            await consumer.close()
            log.append((callback, consumer.is_closed))

        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            callbacks: dict[str, Any] = {callback: close}
            consumer = world.client(cluster, **EAGER).consume("orders", group="billing", **callbacks)
            began = world.runtime.clock.monotonic()
            consumer.begin()
            await provoked(world, consumer, callback)
            with pytest.raises(ClientClosedError):
                await consumer.poll(timeout=60)
            await consumer.close()
            assert log[0] == (callback, False)
            assert len(log) == 1 or callback == "on_revoked"
            if world.simulated:
                # It has not waited for itself.
                assert world.runtime.clock.monotonic() - began < CLOSING_S
            # It has left, and not just fallen silent.
            group = await world.client(cluster).admin.describe_group("billing")
            assert group.members == ()

    run(body)


@pytest.mark.parametrize("callback", CALLBACKS)
def test_a_callback_that_reads_or_closes_the_client_is_refused(callback: str, run: Run) -> None:
    async def body(world: World) -> None:
        refused: list[str] = []

        async def called(consumer: AsyncGroupConsumer, partitions: list[TopicPartition]) -> None:
            for use in (
                lambda: consumer.poll(),
                lambda: anext(aiter(consumer)),
                lambda: consumer.process(print),
                lambda: kafka.close(),
            ):
                with pytest.raises(RuntimeError, match="a callback of a rebalance has") as raised:
                    await use()
                refused.append(str(raised.value).partition(":")[0])

        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", [b"1"])
            kafka = world.client(cluster, **EAGER)
            callbacks: dict[str, Any] = {callback: called}
            async with kafka.consume("orders", group="billing", **callbacks) as consumer:
                await provoked(world, consumer, callback)
                await until(world, lambda: len(refused) == 4)
                assert len(await consumer.poll(timeout=60)) == 1
            records = "a callback of a rebalance has asked for records"
            closed = "a callback of a rebalance has closed its client, which waits for the callback"
            assert refused[:4] == [records] * 3 + [closed]

    run(body)
