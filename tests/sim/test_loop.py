"""The virtual loop: time that jumps, an order that repeats, and deadlocks that are told."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from ottla.sim import SimulationOverranError, SimulationStalledError, VirtualLoop, run
from ottla.sim.runtime import SimRuntime


def test_a_year_passes_in_no_time() -> None:
    async def main(runtime: SimRuntime) -> float:
        for _ in range(1000):
            await asyncio.sleep(365 * 86.4)
        return asyncio.get_running_loop().time()

    began = time.perf_counter()
    assert run(main, seed=1) == pytest.approx(365 * 86_400)
    assert time.perf_counter() - began < 300


def test_time_stands_still_while_there_is_something_to_do() -> None:
    async def main(runtime: SimRuntime) -> float:
        for _ in range(1000):
            await asyncio.sleep(0)
        return asyncio.get_running_loop().time()

    assert run(main, seed=1) == 0.0


def test_timers_of_one_deadline_run_in_the_order_of_their_making() -> None:
    async def main(runtime: SimRuntime) -> None:
        loop = asyncio.get_running_loop()
        called: list[int] = []
        deadlines = [Random(1).choice([1.0, 2.0, 3.0]) for _ in range(500)]
        timers = [loop.call_at(deadline, called.append, number) for number, deadline in enumerate(deadlines)]
        for timer in timers[::3]:
            timer.cancel()
        await asyncio.sleep(4)
        kept = [number for number in range(500) if number % 3]
        assert called == sorted(kept, key=lambda number: (deadlines[number], number))

    run(main, seed=1)


def test_many_cancelled_timers_are_forgotten() -> None:
    async def main(runtime: SimRuntime) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        for _ in range(10_000):
            loop.call_later(3600, print).cancel()
            await asyncio.sleep(0)
        assert len(loop._scheduled) < 1000

    run(main, seed=1)


def test_a_deadlock_is_told_with_the_tasks_that_wait_and_where() -> None:
    async def waits_for_nothing() -> None:
        await asyncio.Event().wait()

    async def main(runtime: SimRuntime) -> None:
        await asyncio.sleep(5)
        await asyncio.create_task(waits_for_nothing(), name="the waiter")

    with pytest.raises(SimulationStalledError) as caught:
        run(main, seed=1)
    assert str(caught.value).startswith("nothing is left to happen at 5.0 seconds, 2 tasks wait: main in ")
    assert "; the waiter in Event.wait, line " in str(caught.value)


def test_a_simulation_that_takes_too_long_is_ended() -> None:
    async def main(runtime: SimRuntime) -> None:
        for _ in range(1000):
            await asyncio.sleep(1)

    with pytest.raises(
        SimulationOverranError, match="not over after 100 seconds, 1 tasks wait: main in sleep"
    ):
        run(main, seed=1, limit=100)


def test_work_for_an_executor_is_done_on_the_loop() -> None:
    async def main(runtime: SimRuntime) -> None:
        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(None, divmod, 17, 5) == (3, 2)
        assert await asyncio.to_thread(asyncio.get_running_loop) is loop
        assert await runtime.run(divmod, 9, 4) == (2, 1)
        with pytest.raises(ZeroDivisionError):
            await runtime.run(divmod, 1, 0)

    run(main, seed=1)


def test_a_call_from_another_thread_is_refused() -> None:
    async def main(runtime: SimRuntime) -> None:
        loop = asyncio.get_running_loop()
        called: list[str] = []
        with ThreadPoolExecutor(1) as other, pytest.raises(RuntimeError, match="has one thread"):
            other.submit(loop.call_soon_threadsafe, called.append, "from elsewhere").result()
        loop.call_soon_threadsafe(called.append, "from here")
        await asyncio.sleep(0)
        assert called == ["from here"]

    run(main, seed=1)


def test_tasks_have_names_that_repeat() -> None:
    async def nothing() -> None:
        await asyncio.sleep(1)

    async def main(runtime: SimRuntime) -> list[str]:
        tasks = [asyncio.create_task(nothing()), asyncio.create_task(nothing(), name="mine")]
        await asyncio.gather(*tasks)
        return [task.get_name() for task in tasks]

    assert run(main, seed=1) == run(main, seed=1) == ["task 1", "mine"]


def test_a_closed_loop_takes_no_timers() -> None:
    loop = VirtualLoop()
    loop.close()
    with pytest.raises(RuntimeError, match="the simulation is over"):
        loop.call_later(1, print)
