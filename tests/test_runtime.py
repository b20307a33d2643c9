"""The default Runtime, and a clock that can be moved."""

from __future__ import annotations

import asyncio
import gc
import math
import re
import socket
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from ottla.runtime import Buffers, MovableClock, Runtime, SystemClock, SystemRuntime
from ottla.sim import run


def on_sockets(main: Callable[[MovableClock], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await main(MovableClock())

    asyncio.run(bounded())


def in_simulation(main: Callable[[MovableClock], Awaitable[None]]) -> None:
    run(lambda runtime: main(runtime.clock), seed=1)


both_loops = pytest.mark.parametrize("loop", [on_sockets, in_simulation])
Loop = Callable[[Callable[[MovableClock], Awaitable[None]]], None]


def test_the_system_clock_tells_the_loops_time_and_the_date() -> None:
    async def main() -> None:
        clock = SystemClock()
        assert clock.monotonic() == pytest.approx(asyncio.get_running_loop().time(), abs=1)
        assert clock.time() == pytest.approx(time.time(), abs=1)
        before = clock.monotonic()
        await clock.sleep(0.01)
        assert clock.monotonic() >= before + 0.01

    asyncio.run(main())


def test_a_timer_of_the_system_clock_can_be_cancelled() -> None:
    async def main() -> None:
        called: list[str] = []
        done = asyncio.Event()
        clock = SystemClock()
        clock.call_later(0, called.append, "cancelled").cancel()
        clock.call_later(0, called.append, "called")
        clock.call_later(0.001, done.set)
        await done.wait()
        assert called == ["called"]

    asyncio.run(main())


@both_loops
def test_both_times_move(loop: Loop) -> None:
    async def main(clock: MovableClock) -> None:
        monotonic, wall = clock.monotonic(), clock.time()
        clock.advance(3600)
        assert clock.monotonic() - monotonic == pytest.approx(3600, abs=10)
        assert clock.time() - wall == pytest.approx(3600, abs=10)

    loop(main)


@both_loops
def test_what_is_due_is_called_by_deadline_and_then_by_age(loop: Loop) -> None:
    async def main(clock: MovableClock) -> None:
        called: list[str] = []
        for name, delay in (("c", 300.0), ("a", 100.0), ("late", 5000.0), ("b", 200.0), ("a2", 100.0)):
            clock.call_later(delay, called.append, name)
        done = asyncio.Event()
        clock.call_later(1000, done.set)
        clock.advance(1000)
        assert called == []
        await done.wait()
        # The two of 100 seconds were made one after the other: their deadlines differ on a real loop only.
        assert called == ["a", "a2", "b", "c"]

    loop(main)


@both_loops
def test_what_is_not_due_is_called_in_its_time(loop: Loop) -> None:
    async def main(clock: MovableClock) -> None:
        done = asyncio.Event()
        clock.call_later(100.0, done.set)
        clock.advance(99.99)
        before = clock.monotonic()
        await done.wait()
        assert clock.monotonic() - before == pytest.approx(0.01, abs=5)

    loop(main)


@both_loops
def test_timers_run_without_being_moved(loop: Loop) -> None:
    async def main(clock: MovableClock) -> None:
        before = clock.monotonic()
        await clock.sleep(0.02)
        assert clock.monotonic() - before >= 0.019

    loop(main)


@both_loops
def test_a_cancelled_timer_is_not_called_whenever_it_was_cancelled(loop: Loop) -> None:
    async def main(clock: MovableClock) -> None:
        called: list[str] = []
        early, late = (clock.call_later(10, called.append, name) for name in ("early", "late"))
        early.cancel()
        early.cancel()
        clock.advance(10)
        late.cancel()
        done = asyncio.Event()
        kept = clock.call_later(0.001, done.set)
        await done.wait()
        kept.cancel()
        assert called == []
        clock.advance(100)
        assert called == []

    loop(main)


@both_loops
def test_sleepers_wake_and_may_be_cancelled(loop: Loop) -> None:
    async def main(clock: MovableClock) -> None:
        sleeping = asyncio.ensure_future(clock.sleep(600))
        given_up = asyncio.ensure_future(clock.sleep(600))
        await asyncio.sleep(0)
        given_up.cancel()
        clock.advance(600)
        await sleeping
        with pytest.raises(asyncio.CancelledError):
            await given_up

    loop(main)


@both_loops
def test_a_call_that_fails_does_not_stop_the_others(loop: Loop) -> None:
    async def main(clock: MovableClock) -> None:
        failures: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: failures.append(context["exception"])
        )
        done = asyncio.Event()
        clock.call_later(1, lambda: 1 / 0)
        clock.call_later(2, done.set)
        clock.advance(10)
        await done.wait()
        assert [type(failure) for failure in failures] == [ZeroDivisionError]

    loop(main)


@both_loops
def test_a_timer_made_by_a_due_one_waits_from_then_on(loop: Loop) -> None:
    async def main(clock: MovableClock) -> None:
        ticks: list[float] = []

        def tick() -> None:
            ticks.append(clock.monotonic())
            clock.call_later(10, tick)

        clock.call_later(10, tick)
        clock.advance(1000)
        await asyncio.sleep(0)
        assert len(ticks) == 1
        clock.advance(10)
        await asyncio.sleep(0)
        assert len(ticks) == 2

    loop(main)


def test_time_does_not_go_back() -> None:
    async def main(clock: MovableClock) -> None:
        with pytest.raises(ValueError, match="forward only"):
            clock.advance(-1)

    on_sockets(main)


@pytest.mark.parametrize("seconds", [math.inf, -math.inf, math.nan, 1e300, 253_402_300_800.0])
@both_loops
def test_a_time_that_no_timestamp_can_hold_is_refused(loop: Loop, seconds: float) -> None:
    async def main(clock: MovableClock) -> None:
        called: list[float] = []
        clock.call_later(10, lambda: called.append(clock.monotonic()))
        before = clock.time()
        with pytest.raises(ValueError, match=re.escape(f"advance({seconds!r}): ")):
            clock.advance(seconds)
        assert 0 <= clock.time() - before < 3600
        clock.advance(10)
        await asyncio.sleep(0)
        assert len(called) == 1

    loop(main)


@pytest.mark.parametrize("span", [timedelta(seconds=5), "5", None, True])
def test_time_moves_by_seconds(span: Any) -> None:
    async def main(clock: MovableClock) -> None:
        with pytest.raises(TypeError, match=r"advance\(.*\): seconds are meant"):
            clock.advance(span)

    on_sockets(main)


def test_the_system_runtime_has_the_systems_randomness_unless_given_its_own() -> None:
    assert SystemRuntime().random.random() != SystemRuntime().random.random()
    assert SystemRuntime(random=Random(1)).random.random() == Random(1).random()


def test_the_system_is_one_machine() -> None:
    runtime: Runtime = SystemRuntime()
    assert runtime.at("anywhere") is runtime


def test_messages_arrive_later_in_the_order_in_which_they_were_carried() -> None:
    async def main() -> None:
        arrived: list[tuple[str, int]] = []
        path = SystemRuntime().path_to("anywhere")
        for number in range(3):
            path.carry("Fetch", lambda *args: arrived.append(args), "message", number)
        assert arrived == []
        await asyncio.sleep(0)
        assert arrived == [("message", 0), ("message", 1), ("message", 2)]

    asyncio.run(main())


def test_long_work_runs_off_the_loop() -> None:
    async def main() -> None:
        assert await SystemRuntime().run(divmod, 17, 5) == (3, 2)
        with pytest.raises(ZeroDivisionError):
            await SystemRuntime().run(divmod, 1, 0)

    asyncio.run(main())


def test_a_port_in_use_is_the_systems_error() -> None:
    async def main() -> None:
        runtime = SystemRuntime()
        listener = await runtime.listen("127.0.0.1", 0, asyncio.Protocol)
        assert listener.host == "127.0.0.1"
        assert listener.port > 0
        with pytest.raises(OSError, match="in use"):
            await runtime.listen("127.0.0.1", listener.port, asyncio.Protocol)
        await listener.close()
        again = await runtime.listen("127.0.0.1", listener.port, asyncio.Protocol)
        assert again.port == listener.port
        await again.close()

    asyncio.run(main())


def test_the_buffers_of_a_socket_have_the_sizes_that_were_asked_for() -> None:
    class Sizes(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport
            self.socket = transport.get_extra_info("socket")

        def of(self, option: int) -> int:
            size: int = self.socket.getsockopt(socket.SOL_SOCKET, option)
            return size

    async def main() -> None:
        runtime = SystemRuntime()
        listener = await runtime.listen("127.0.0.1", 0, asyncio.Protocol)
        place = (listener.host, listener.port)
        usual, small = (
            await runtime.connect(*place, Sizes),
            await runtime.connect(*place, Sizes, Buffers(send=8192, receive=8192)),
        )
        assert isinstance(usual, Sizes)
        assert isinstance(small, Sizes)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            # Linux doubles what it is asked for, to have room for its own notes.
            assert 8192 <= small.of(option) <= 2 * 8192 < usual.of(option)
        usual.transport.close()
        small.transport.close()
        await listener.close()
        await asyncio.sleep(0)  # the loop closes them behind us

    asyncio.run(main())


class Accepted(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport


@pytest.mark.parametrize("rounds", range(5))
def test_a_connection_that_is_accepted_as_the_listener_closes_has_its_protocol_or_is_refused(
    rounds: int,
) -> None:
    """In between asyncio would leave its socket to the garbage collector, with a ResourceWarning."""

    async def main() -> None:
        accepted: list[Accepted] = []

        def factory() -> Accepted:
            accepted.append(Accepted())
            return accepted[-1]

        listener = await SystemRuntime().listen("127.0.0.1", 0, factory)
        with socket.create_connection((listener.host, listener.port)):
            for _ in range(rounds):
                await asyncio.sleep(0)
            await listener.close()
            made = [each.transport for each in accepted]
            assert None not in made
            for transport in made:
                assert transport is not None
                transport.close()
            await asyncio.sleep(0)
            assert len(accepted) == len(made)

    asyncio.run(main())
    gc.collect()
