"""The client's loop runs as asyncio's own does: one iteration or until it is stopped, whatever callbacks raise."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from ottla.client.blocking.loop import ClientLoop


@pytest.fixture
def loop() -> Iterator[ClientLoop]:
    loop = ClientLoop()
    yield loop
    loop.close()


def test_a_call_runs_the_function_first_and_then_what_is_there(loop: ClientLoop) -> None:
    order: list[str] = []
    loop.call_soon(order.append, "before")
    loop.call(lambda: order.append("function"))
    assert order == ["function", "before"]
    loop.call_soon(loop.call_soon, order.append, "two iterations later")
    loop.call(lambda: None)
    assert order == ["function", "before"]


def test_what_is_to_be_done_now_is_done_on_the_loop_and_gives_what_it_returns_or_raises(
    loop: ClientLoop,
) -> None:
    order: list[object] = []
    assert loop.now(asyncio.get_running_loop) is loop
    assert loop.now(lambda: loop.call_soon(order.append, "behind it")) is not None
    assert order == ["behind it"]
    loop.call_first(lambda: order.append("first"))
    with pytest.raises(ZeroDivisionError):
        loop.now(lambda: 1 / 0)
    assert order == ["behind it", "first"]
    assert not loop.is_running()
    assert asyncio._get_running_loop() is None


def test_no_iteration_follows_a_function_that_returns_false(loop: ClientLoop) -> None:
    order: list[str] = []
    loop.call_soon(order.append, "callback")
    loop.call(lambda: False)
    assert order == []
    loop.call(lambda: 0)
    assert order == ["callback"], "nothing but False"


def test_what_is_to_be_called_first_is_called_by_either_run_and_survives_errors(loop: ClientLoop) -> None:
    order: list[str] = []
    told: list[dict[str, object]] = []
    loop.set_exception_handler(lambda _, context: told.append(context))
    loop.call_first(lambda: 1 / 0)
    loop.call_first(lambda: order.append("first"))
    loop.call(lambda: order.append("function"))
    assert order == ["first", "function"]
    assert len(told) == 1
    loop.call_first(loop.stop)
    loop.call_soon(order.append, "callback")
    loop.run_forever()
    assert order == ["first", "function", "callback"]


def test_a_call_does_not_wait_for_events_and_sees_those_that_are_there(loop: ClientLoop) -> None:
    ours, theirs = socket.socketpair()
    received: list[bytes] = []
    with ours, theirs:
        loop.add_reader(ours, lambda: received.append(ours.recv(10)))
        loop.call_later(60, received.append, b"late")
        loop.call(lambda: None)
        assert received == []
        theirs.send(b"x")
        loop.call(lambda: None)
        assert received == [b"x"]
        loop.remove_reader(ours)


def test_a_short_timer_does_not_keep_the_loop_from_what_arrives(loop: ClientLoop) -> None:
    ours, theirs = socket.socketpair()
    order: list[str] = []

    def receive() -> None:
        order.append(ours.recv(10).decode())
        loop.call_later(0.0015, ring)

    def ring() -> None:
        order.append("timer")
        loop.stop()

    with ours, theirs:
        loop.add_reader(ours, receive)
        theirs.send(b"x")
        timer = loop.call_later(0.0019, ring)
        loop.call_soon(timer.cancel)
        loop.run_forever()
        loop.remove_reader(ours)
    assert order == ["x", "timer"]


def test_a_timer_of_less_than_a_millisecond_never_rings_early(loop: ClientLoop) -> None:
    for delay in (0.0001, 0.0004, 0.0009, 0.0013):
        began = loop.time()
        loop.call_later(delay, loop.stop)
        loop.run_forever()
        assert loop.time() - began > delay - 1e-6, "but for what floats cannot say"


def test_it_runs_until_it_is_stopped_and_at_least_once(loop: ClientLoop) -> None:
    order: list[str] = []
    loop.call_soon(order.append, "first")
    loop.stop()
    loop.run_forever()
    assert order == ["first"]
    loop.call_later(0.001, loop.stop)
    loop.run_forever()
    assert not loop.is_running()


def test_inside_it_is_the_running_loop_and_outside_none_is(loop: ClientLoop) -> None:
    seen: list[object] = []

    def look() -> None:
        seen.append((asyncio.get_running_loop(), loop.is_running()))
        loop.stop()

    loop.call(look)
    loop.call_soon(look)
    loop.run_forever()
    assert seen == [(loop, True)] * 2
    assert asyncio._get_running_loop() is None
    assert not loop.is_running()


def test_what_a_function_raises_goes_where_that_of_a_callback_goes(loop: ClientLoop) -> None:
    told: list[dict[str, object]] = []
    loop.set_exception_handler(lambda _, context: told.append(context))
    loop.call(lambda: 1 / 0)
    assert isinstance(told[0]["exception"], ZeroDivisionError)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_what_ends_the_program_ends_the_run_and_the_loop_can_be_run_again(
    loop: ClientLoop, error: type[BaseException]
) -> None:
    def ends() -> None:
        raise error

    with pytest.raises(error):
        loop.call(ends)
    loop.call_soon(ends)
    with pytest.raises(error):
        loop.run_forever()
    assert asyncio._get_running_loop() is None
    loop.call_soon(loop.stop)
    loop.run_forever()


def test_tasks_run_on_it(loop: ClientLoop) -> None:
    async def work() -> str:
        await asyncio.sleep(0.001)
        return "done"

    assert loop.run_until_complete(work()) == "done"
