"""Waiting with a bound."""

from __future__ import annotations

import asyncio

import pytest

from ottla.client.waiting import within
from ottla.runtime import MovableClock


def test_what_is_in_time_comes_through_with_its_result_or_its_error() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    async def main() -> None:
        clock = MovableClock()
        assert await within(clock, 3600, asyncio.sleep(0, 7)) == 7
        with pytest.raises(ValueError, match="broken"):
            await within(clock, 3600, fail())
        assert not clock._timers

    asyncio.run(main())


def test_what_is_late_is_cancelled_by_the_runtimes_clock() -> None:
    async def main() -> None:
        clock = MovableClock()
        started, ended = asyncio.Event(), asyncio.Event()

        async def work() -> None:
            try:
                started.set()
                await asyncio.Event().wait()
            finally:
                ended.set()

        waiting = asyncio.ensure_future(within(clock, 3600, work()))
        await started.wait()
        clock.advance(3601)
        with pytest.raises(TimeoutError):
            await waiting
        assert ended.is_set()

    asyncio.run(main())


def test_a_waiter_that_is_cancelled_takes_the_work_with_it() -> None:
    async def main() -> None:
        started, ended = asyncio.Event(), asyncio.Event()

        async def work() -> None:
            try:
                started.set()
                await asyncio.Event().wait()
            finally:
                ended.set()

        waiting = asyncio.ensure_future(within(MovableClock(), 3600, work()))
        await started.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert ended.is_set()

    asyncio.run(main())
