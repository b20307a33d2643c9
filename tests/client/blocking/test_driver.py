"""The loop of the blocking client is run by the calling thread, and by one thread at a time."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType
from typing import Any

import pytest

import ottla.client.blocking.driver as driver_module
from ottla.client.blocking.driver import Driver
from ottla.errors import ClientClosedError
from ottla.runtime import SystemClock


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver("test")
    yield driver
    driver.close()


@contextmanager
def another_thread_running(driver: Driver) -> Iterator[threading.Thread]:
    """A thread that runs the loop for a call of its own, until the end of the block."""
    entered, left = threading.Event(), asyncio.Event()

    async def hold() -> None:
        entered.set()
        await left.wait()

    runner = threading.Thread(target=lambda: driver.call(hold()))
    runner.start()
    assert entered.wait(10)
    yield runner
    driver.loop.call_soon_threadsafe(left.set)
    runner.join(10)


async def thread() -> threading.Thread:
    return threading.current_thread()


def test_a_call_runs_in_the_thread_that_makes_it(driver: Driver) -> None:
    assert driver.call(thread()) is threading.current_thread()


def test_what_is_posted_runs_before_post_returns_if_nobody_runs_the_loop(driver: Driver) -> None:
    driver.call(thread())
    ran: list[threading.Thread] = []
    driver.post(lambda: ran.append(threading.current_thread()))
    assert ran == [threading.current_thread()]


def test_what_waits_for_nothing_is_called_on_the_loop_whichever_thread_runs_it(driver: Driver) -> None:
    assert driver.now(threading.current_thread) is threading.current_thread()
    assert driver.now(asyncio.get_running_loop) is driver.loop
    with pytest.raises(ZeroDivisionError):
        driver.now(lambda: 1 / 0)
    with another_thread_running(driver) as runner:
        assert driver.now(threading.current_thread) is runner


@pytest.mark.parametrize("is_held", [False, True])
def test_what_is_begun_is_waited_for_until_it_is_done_or_time_is_up(driver: Driver, is_held: bool) -> None:
    def begin(delay: float) -> asyncio.Future[str]:
        future = driver.loop.create_future()
        driver.loop.call_later(delay, future.set_result, "done")
        return future

    with another_thread_running(driver) if is_held else nullcontext():
        ended = driver.begin_and_wait(lambda: begin(0.002), 10.0, SystemClock())
        assert ended is not None
        assert ended.result() == "done"
        late = driver.begin_and_wait(lambda: begin(60.0), 0.002, SystemClock())
        assert late is not None
        assert not late.done()
        nothing: asyncio.Future[str] | None = driver.begin_and_wait(lambda: None, None, SystemClock())
        assert nothing is None


def test_a_closed_driver_begins_nothing() -> None:
    driver = Driver("test")
    driver.close()
    with pytest.raises(ClientClosedError):
        driver.now(threading.current_thread)
    with pytest.raises(ClientClosedError):
        driver.begin_and_wait(lambda: None, None, SystemClock())


def test_a_task_that_was_left_behind_goes_on_in_the_background(driver: Driver) -> None:
    done = threading.Event()
    tasks = []

    async def work() -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        done.set()

    driver.post(lambda: tasks.append(driver.loop.create_task(work())))
    assert done.wait(10)


def test_calls_of_several_threads_do_not_wait_for_each_other(driver: Driver) -> None:
    released = threading.Event()
    results: list[str] = []

    async def first() -> None:
        gate = asyncio.get_running_loop().create_future()
        gates.append(gate)
        ready.set()
        await gate

    gates: list[asyncio.Future[None]] = []
    ready = threading.Event()

    def calls() -> None:
        driver.call(first())
        released.set()

    one = threading.Thread(target=calls)
    one.start()
    assert ready.wait(10)

    async def second() -> str:
        gates[0].set_result(None)
        return "second"

    results.append(driver.call(second()))
    assert released.wait(10)
    one.join()
    assert results == ["second"]


def test_calls_that_wait_are_served_when_the_thread_that_runs_the_loop_leaves(driver: Driver) -> None:
    """One thread's call ends while another still waits: the background thread goes on for it."""
    started = threading.Event()
    gate: list[asyncio.Future[None]] = []

    async def short() -> None:
        gate.append(asyncio.get_running_loop().create_future())
        started.set()
        await gate[0]

    async def long() -> str:
        gate[0].set_result(None)
        for _ in range(5):
            await asyncio.sleep(0.01)
        return "long"

    one = threading.Thread(target=lambda: driver.call(short()))
    one.start()
    assert started.wait(10)
    assert driver.call(long()) == "long"
    one.join()


def test_many_threads_at_once_get_their_own_results(driver: Driver) -> None:
    wrong: list[object] = []

    async def echo(number: int) -> int:
        await asyncio.sleep(0)
        return number

    def work(base: int) -> None:
        for number in range(base, base + 200):
            result = driver.call(echo(number))
            if result != number:
                wrong.append((number, result))
            driver.post(lambda: None)

    threads = [threading.Thread(target=work, args=(base * 1000,)) for base in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert wrong == []
    assert not any(one.is_alive() for one in threads)


def test_an_error_reaches_the_caller(driver: Driver) -> None:
    async def work() -> None:
        raise ValueError("as expected")

    with pytest.raises(ValueError, match="as expected"):
        driver.call(work())


def test_ctrl_c_ends_the_call_and_cancels_its_work(driver: Driver) -> None:
    cancelled: list[bool] = []

    async def forever() -> None:
        asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    with pytest.raises(KeyboardInterrupt):
        driver.call(forever())
    assert cancelled == [True]
    assert driver.call(thread()) is threading.current_thread()


def test_a_coroutine_that_blocks_inside_of_another_loop_is_served_by_the_background(driver: Driver) -> None:
    async def main() -> threading.Thread:
        return driver.call(thread())

    assert asyncio.run(main()) is not threading.current_thread()


def test_a_closed_driver_says_so(driver: Driver) -> None:
    driver.close()
    with pytest.raises(ClientClosedError):
        driver.call(thread())
    with pytest.raises(ClientClosedError):
        driver.post(lambda: None)


def test_a_call_from_inside_of_the_loop_is_refused_because_it_would_wait_for_itself(driver: Driver) -> None:
    async def inside() -> None:
        with pytest.raises(RuntimeError, match="wait for itself"):
            driver.call(thread())
        with pytest.raises(RuntimeError, match="wait for itself"):
            driver.close()

    driver.call(inside())


def test_closing_ends_the_calls_of_other_threads(driver: Driver) -> None:
    started, ended = threading.Event(), threading.Event()

    async def forever() -> None:
        started.set()
        await asyncio.Event().wait()

    def call() -> None:
        with pytest.raises(ClientClosedError):
            driver.call(forever())
        ended.set()

    threads = [threading.Thread(target=call) for _ in range(3)]
    for one in threads:
        one.start()
    assert started.wait(10)
    driver.close()
    for one in threads:
        one.join(10)
        assert not one.is_alive()
    assert ended.is_set()


def test_a_coroutine_may_close_it(driver: Driver) -> None:
    async def main() -> None:
        driver.call(thread())
        driver.close()

    asyncio.run(main())
    assert driver.loop.is_closed()


def test_what_a_callback_raises_to_end_the_program_in_the_background_is_raised_by_the_next_call(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    ran = threading.Event()

    async def main() -> None:
        # In a running loop of another kind, so that only the background can serve.
        driver.post(_exit)
        driver.post(ran.set)
        assert ran.wait(10)

    asyncio.run(main())
    assert "the client's next call raises this" in caplog.text
    with pytest.raises(SystemExit) as raised:
        driver.call(thread())
    assert raised.value.code == 3
    assert driver.call(thread()) is threading.current_thread()


def test_what_a_callback_raises_to_end_the_program_ends_the_call_that_runs_the_loop(driver: Driver) -> None:
    cancelled: list[bool] = []
    ran: list[bool] = []

    async def forever() -> None:
        driver.loop.call_soon(_exit)
        driver.loop.call_soon(ran.append, True)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            # As what waits with a bound does: it needs the loop once more.
            await asyncio.sleep(0)
            cancelled.append(True)
            raise

    with pytest.raises(SystemExit):
        driver.call(forever())
    assert (cancelled, ran) == ([True], [True])
    assert driver.call(thread()) is threading.current_thread()


def test_what_is_to_end_the_program_does_not_keep_the_last_call_from_being_made() -> None:
    driver = Driver("test")
    ran = threading.Event()

    async def main() -> None:
        driver.post(_exit)
        driver.post(ran.set)
        assert ran.wait(10)

    closed: list[bool] = []

    async def last() -> None:
        closed.append(True)

    asyncio.run(main())
    with pytest.raises(SystemExit):
        driver.finish(last())
    assert closed == [True]
    assert driver.loop.is_closed()


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, ValueError])
def test_a_task_that_ends_the_program_while_everything_ends_keeps_nothing_from_ending(
    raised: type[BaseException],
) -> None:
    driver = Driver("test")
    ended: list[str] = []

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise raised

    async def gentle() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("gentle")

    tasks = []

    async def begin() -> None:
        tasks.append(driver.loop.create_task(stubborn(), name="1"))
        tasks.append(driver.loop.create_task(gentle(), name="2"))
        await asyncio.sleep(0)

    driver.call(begin())
    if raised is ValueError:
        driver.close()
    else:
        with pytest.raises(raised):
            driver.close()
    assert ended == ["gentle"]
    assert driver.loop.is_closed()


def _exit() -> None:
    raise SystemExit(3)


# Ctrl-C


def _later(driver: Driver) -> None:
    driver.later(lambda: None)


def _post(driver: Driver) -> None:
    driver.post(lambda: None)


def _call(driver: Driver) -> None:
    work = asyncio.sleep(0)
    try:
        driver.call(work)
    finally:
        work.close()  # what is interrupted before anything is protected has not seen it


@pytest.mark.parametrize("use", [_later, _post, _call])
def test_ctrl_c_at_every_instruction_of_a_call_harms_nothing(
    driver: Driver, use: Callable[[Driver], None]
) -> None:
    """Also between taking a lock and the block that gives it back."""
    at = 0
    while _interrupted_at(at, lambda: use(driver)):
        at += 1
        # In a thread of its own, which a lock that was left taken does not keep the test from ending.
        other = threading.Thread(target=lambda: driver.call(thread()), daemon=True)
        other.start()
        other.join(10)
        assert not other.is_alive(), f"after an interruption at instruction {at}"
    assert at > 30


def _interrupted_at(number: int, function: Callable[[], None]) -> bool:
    """Raises SIGINT at an instruction of the driver's module; whether there are so many."""
    left = number

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename != driver_module.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == -1:
                signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    with suppress(KeyboardInterrupt):
        try:
            function()
        finally:
            sys.settrace(before)
    return left < 0


def test_ctrl_c_ends_a_call_whose_work_another_thread_runs(driver: Driver) -> None:
    started = threading.Event()
    gate: list[asyncio.Future[None]] = []

    async def drives() -> None:
        gate.append(asyncio.get_running_loop().create_future())
        started.set()
        await gate[0]

    async def forever() -> None:
        asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    other = threading.Thread(target=lambda: driver.call(drives()))
    other.start()
    assert started.wait(10)
    with pytest.raises(KeyboardInterrupt):
        driver.call(forever())
    driver.post(lambda: gate[0].set_result(None))
    other.join(10)
    assert not other.is_alive()
