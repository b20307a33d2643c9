"""Deadline: cancelled when time is up, never mistaken for the caller's own cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ottla.client.deadline import Deadline, DeadlinePassed, within
from ottla.runtime import MovableClock
from tests.client.worlds import Body, World

Run = Callable[[Body], object]


def test_what_ends_in_time_gives_its_result_or_its_error(run: Run) -> None:
    async def body(world: World) -> None:
        async def value() -> int:
            return 7

        async def failure() -> int:
            raise LookupError("inside")

        deadline = Deadline(world.runtime.clock, 5)
        assert await deadline.bound(value()) == 7
        with pytest.raises(LookupError, match="inside"):
            await deadline.bound(failure())
        assert 0 < deadline.left() <= 5

    run(body)


def test_what_takes_too_long_is_cancelled(run: Run) -> None:
    async def body(world: World) -> None:
        ended: list[str] = []

        async def waits() -> None:
            try:
                await world.clock.sleep(1000)
            finally:
                ended.append("cancelled")

        deadline = Deadline(world.runtime.clock, 60)
        task = asyncio.ensure_future(deadline.bound(waits()))
        await asyncio.sleep(0)
        world.clock.advance(61)
        with pytest.raises(DeadlinePassed):
            await task
        assert ended == ["cancelled"]
        assert deadline.left() == 0
        with pytest.raises(DeadlinePassed):
            await deadline.bound(waits())

    run(body)


def test_the_callers_own_cancellation_stays_one_and_reaches_the_work(run: Run) -> None:
    async def body(world: World) -> None:
        ended: list[str] = []

        async def waits() -> None:
            try:
                await world.clock.sleep(1000)
            finally:
                ended.append("cancelled")

        task = asyncio.ensure_future(Deadline(world.runtime.clock, 60).bound(waits()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["cancelled"]

    run(body)


def test_work_that_cancels_itself_is_cancelled_not_late(run: Run) -> None:
    async def body(world: World) -> None:
        async def gives_up() -> None:
            raise asyncio.CancelledError

        with pytest.raises(asyncio.CancelledError):
            await Deadline(world.runtime.clock, 60).bound(gives_up())

    run(body)


def test_within_a_bound_what_is_in_time_comes_through_with_its_result_or_its_error() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    async def main() -> None:
        clock = MovableClock()
        assert await within(clock, 3600, asyncio.sleep(0, 7)) == 7
        with pytest.raises(ValueError, match="broken"):
            await within(clock, 3600, fail())
        assert not clock._timers

    asyncio.run(main())


def test_within_a_bound_what_is_late_is_cancelled_by_the_runtimes_clock() -> None:
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


def test_a_coroutine_runs_in_the_task_of_its_caller_and_leaves_it_uncancelled(run: Run) -> None:
    async def body(world: World) -> None:
        async def waits() -> None:
            tasks.append(asyncio.current_task())
            await world.clock.sleep(1000)

        async def caller() -> None:
            with pytest.raises(DeadlinePassed):
                await Deadline(world.runtime.clock, 60).bound(waits())
            mine = asyncio.current_task()
            assert mine is not None
            assert tasks == [mine]
            assert mine.cancelling() == 0

        tasks: list[asyncio.Task[None] | None] = []
        task = asyncio.ensure_future(caller())
        await asyncio.sleep(0)
        world.clock.advance(61)
        await task

    run(body)


def test_of_two_deadlines_that_pass_together_the_outer_one_ends_the_work(run: Run) -> None:
    async def body(world: World) -> None:
        inner_passed: list[str] = []

        async def waits() -> None:
            try:
                await Deadline(world.runtime.clock, 60).bound(world.clock.sleep(1000))
            except DeadlinePassed:
                inner_passed.append("inner")
                raise

        async def caller() -> None:
            with pytest.raises(DeadlinePassed):
                await Deadline(world.runtime.clock, 60).bound(waits())
            mine = asyncio.current_task()
            assert mine is not None
            assert mine.cancelling() == 0

        task = asyncio.ensure_future(caller())
        await asyncio.sleep(0)
        world.clock.advance(61)
        await task
        assert not inner_passed

    run(body)


def test_a_future_that_is_done_as_its_deadline_passes_keeps_its_result(run: Run) -> None:
    async def body(world: World) -> None:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(Deadline(world.runtime.clock, 60).bound(future))
        await asyncio.sleep(0)
        future.set_result(7)
        world.clock.advance(61)
        assert await task == 7

    run(body)
