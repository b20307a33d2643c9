"""Calls that wait for metadata: each ends with what it finds, with what it raises, in time, or with the client."""

from __future__ import annotations

import asyncio

import pytest

from ottla.client.metadata.view import BrokerView, ClusterView
from ottla.client.metadata.waiters import Waiters
from ottla.errors import ClientClosedError
from tests.client.worlds import World, in_simulation

ONE = ClusterView(brokers={1: BrokerView(1, "node-1", 9092)})


def first_broker(view: ClusterView) -> BrokerView | None:
    return view.brokers.get(1)


def refused(view: ClusterView) -> None:
    raise ValueError("not in this view")


def test_a_call_ends_with_what_it_finds_in_a_later_view() -> None:
    async def body(world: World) -> None:
        waiters = Waiters(world.clock)
        call = asyncio.ensure_future(waiters.wait("a broker", first_broker, 10.0, TimeoutError))
        await asyncio.sleep(0)
        assert list(waiters.reasons()) == ["call 1 waits for a broker"]
        waiters.notify(ClusterView())
        assert not call.done()
        waiters.notify(ONE)
        assert list(waiters.reasons()) == [], "it has what it wants, before it has woken up"
        assert await call == ONE.brokers[1]

    in_simulation(body)


def test_what_a_condition_raises_is_raised_by_its_call_and_by_no_other() -> None:
    async def body(world: World) -> None:
        waiters = Waiters(world.clock)
        calls = [
            asyncio.ensure_future(waiters.wait("anything", until, 10.0, TimeoutError))
            for until in (refused, first_broker)
        ]
        await asyncio.sleep(0)
        waiters.notify(ONE)
        with pytest.raises(ValueError, match="not in this view"):
            await calls[0]
        assert await calls[1] == ONE.brokers[1]

    in_simulation(body)


def test_a_call_ends_when_its_time_is_up_and_when_the_client_closes() -> None:
    async def body(world: World) -> None:
        waiters = Waiters(world.clock)
        began = world.clock.monotonic()
        with pytest.raises(TimeoutError):
            await waiters.wait("a broker", first_broker, 3.0, TimeoutError)
        assert world.clock.monotonic() - began == pytest.approx(3.0)
        call = asyncio.ensure_future(waiters.wait("a broker", first_broker, 3.0, TimeoutError))
        await asyncio.sleep(0)
        assert list(waiters.reasons()) == ["call 2 waits for a broker"], "each call is a reason of its own"
        waiters.fail(ClientClosedError)
        with pytest.raises(ClientClosedError):
            await call

    in_simulation(body)
