"""What callers do with a driver, each in every interleaving of its steps (driver_world.py).

`make interleavings` searches all of them without a bound, and says how many runs that takes; the tests search those
with three and more threads with few preemptions.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, NamedTuple, cast

from ottla.errors import ClientClosedError
from tests.client.blocking.driver_world import SOURCE, Receipt, Scenario, Search, World, explore


async def value(world: World, result: str, rounds: int = 1) -> str:
    for _ in range(rounds):
        await asyncio.sleep(0)
    world.events.append(result)
    return result


async def forever(world: World) -> None:
    await world.loop.create_future()


def later_then_rest(world: World) -> None:
    driver = world.new_driver()
    driver.later(lambda: world.events.append("ran"))
    world.rest()
    assert world.events == ["ran"]
    driver.close()


def post_then_rest(world: World) -> None:
    driver = world.new_driver()
    driver.post(lambda: world.events.append("ran"))
    world.rest()
    assert world.events == ["ran"]
    driver.close()


def a_call(world: World) -> None:
    driver = world.new_driver()
    assert world.call(value(world, "1")) == "1"
    world.rest()
    assert world.call(value(world, "2")) == "2"
    driver.close()


def a_call_that_leaves_a_task(world: World) -> None:
    """As a produce does whose acknowledgement comes later, and its result."""
    driver = world.new_driver()
    tasks: list[Any] = []

    async def begins() -> None:
        tasks.append(world.loop.create_task(value(world, "behind", rounds=2)))

    world.call(begins())
    world.rest()
    assert world.events == ["behind"]
    driver.close()


def a_timer_rings(world: World) -> None:
    driver = world.new_driver()
    driver.post(lambda: world.loop.call_later(5, world.events.append, "rang"))
    world.rest()
    assert world.events == ["rang"]
    driver.close()


def a_callback_calls_back(world: World) -> None:
    driver = world.new_driver()

    def calls() -> None:
        driver.post(lambda: world.events.append("posted"))
        driver.later(lambda: world.events.append("later"))
        work = value(world, "never")
        try:
            world.call(work)
        except RuntimeError as error:
            world.events.append("refused" if "wait for itself" in str(error) else str(error))

    driver.post(calls)
    world.rest()
    assert sorted(world.events) == ["later", "posted", "refused"]
    driver.close()


def two_callers(world: World) -> None:
    driver = world.new_driver()
    other = world.thread(lambda: world.call(value(world, "other")), "other")
    assert world.call(value(world, "main")) == "main"
    other.join()
    world.rest()
    assert sorted(world.events) == ["main", "other"]
    driver.close()


def a_caller_and_a_reader(world: World) -> None:
    driver = world.new_driver()
    other = world.thread(partial(driver.later, lambda: world.events.append("later")), "reader")
    assert world.call(value(world, "main")) == "main"
    other.join()
    world.rest()
    assert sorted(world.events) == ["later", "main"]
    driver.close()


def a_reader_and_a_producer(world: World) -> None:
    driver = world.new_driver()
    other = world.thread(partial(driver.later, lambda: world.events.append("later")), "reader")
    driver.post(lambda: world.events.append("post"))
    other.join()
    world.rest()
    assert sorted(world.events) == ["later", "post"]
    driver.close()


def a_produce_and_its_result(world: World) -> None:
    """Another thread sends; the acknowledgement comes a while later, and this one waits for it."""
    driver = world.new_driver()
    receipt: asyncio.Future[str] = world.loop.create_future()

    def sends() -> None:
        world.loop.call_later(1, receipt.set_result, "stored")

    async def result() -> str:
        return await receipt

    producer = world.thread(partial(driver.post, sends), "producer")
    assert world.call(result()) == "stored"
    producer.join()
    world.rest()
    driver.close()


def inside_of_another_loop(world: World, work: Coroutine[Any, Any, Any]) -> Any:
    """A coroutine that blocks: its thread cannot run a second loop."""
    asyncio._set_running_loop(cast(asyncio.AbstractEventLoop, FOREIGN))
    try:
        return world.call(work)
    finally:
        asyncio._set_running_loop(None)


FOREIGN: Final = "another loop"


def a_coroutine_that_blocks(world: World) -> None:
    driver = world.new_driver()
    assert inside_of_another_loop(world, value(world, "main")) == "main"
    world.rest()
    driver.close()


def a_finalizer(world: World) -> None:
    driver = world.new_driver()
    other = world.thread(partial(driver.soon, lambda: world.events.append("soon")), "finalizer")
    driver.post(lambda: world.events.append("post"))
    other.join()
    world.rest()
    assert sorted(world.events) == ["post", "soon"]
    driver.close()


def a_callback_ends_the_program(world: World) -> None:
    """It is raised once, here or there, and everything else is served."""
    driver = world.new_driver()
    exits = 0
    try:
        driver.later(ends)
        driver.later(lambda: world.events.append("behind"))
        world.call(value(world, "main"))
    except SystemExit:
        exits += 1
    world.rest()
    try:
        world.call(value(world, "after"))
    except SystemExit:
        exits += 1
    try:
        driver.close()
    except SystemExit:
        exits += 1
    assert exits == 1
    assert "behind" in world.events


def a_receipt(world: World) -> None:
    """As `a_produce_and_its_result`, with a wait that needs no coroutine."""
    driver = world.new_driver()
    receipt = Receipt(world)
    producer = world.thread(
        partial(driver.post, lambda: world.loop.call_later(1, receipt.complete)), "producer"
    )
    driver.wait(receipt, None, receipt)
    assert receipt.done()
    producer.join()
    world.rest()
    driver.close()


def a_receipt_that_comes_too_late(world: World) -> None:
    driver = world.new_driver()
    receipt = Receipt(world)
    driver.wait(receipt, 1, receipt)
    assert not receipt.done()
    # What is done later stops no other run of the loop.
    driver.post(receipt.complete)
    assert world.call(value(world, "after")) == "after"
    world.rest()
    driver.close()


def two_waits(world: World) -> None:
    """The alarm of the first, which ends early, is that of the second, which does not."""
    driver = world.new_driver()
    first, second = Receipt(world), Receipt(world)
    driver.post(lambda: world.loop.call_later(1, first.complete))
    driver.wait(first, 2, first)
    assert first.done()
    driver.wait(second, 3, second)
    assert not second.done()
    world.rest()
    driver.close()


def wait_for_ever(world: World) -> None:
    receipt = Receipt(world)
    world.driver.wait(receipt, None, receipt)


def wait_a_moment(world: World) -> None:
    receipt = Receipt(world)
    world.driver.post(lambda: world.loop.call_later(1, receipt.complete))
    world.driver.wait(receipt, None, receipt)


def ends() -> None:
    raise SystemExit(3)


def interrupted(call: Callable[[World], object]) -> Scenario:
    """Ctrl-C comes at some step of the call: it ends, and everything goes on behind it."""

    def scenario(world: World) -> None:
        driver = world.new_driver()
        world.attempt(call, world)
        world.rest()
        assert world.call(value(world, "after")) == "after"
        world.rest()
        driver.close()

    return scenario


def interrupted_close(world: World) -> None:
    driver = world.new_driver()
    world.attempt(driver.close)
    driver.close()


def two_callers_and_a_closer(world: World) -> None:
    """Whoever comes too late is told, and all end."""
    driver = world.new_driver()

    def calls(work: Coroutine[Any, Any, Any]) -> None:
        try:
            world.call(work)
        except ClientClosedError:
            world.events.append("closed")

    other = world.thread(lambda: calls(forever(world)), "other")
    closer = world.thread(driver.close, "closer")
    calls(value(world, "main"))
    closer.join()
    other.join()
    assert driver.loop.is_closed()


def closing(call: Callable[[World], object]) -> Scenario:
    """Another thread closes meanwhile: the call ends, by its own or because of that."""

    def scenario(world: World) -> None:
        driver = world.new_driver()
        other = world.thread(driver.close, "closer")
        try:
            call(world)
        except ClientClosedError:
            world.events.append("closed")
        other.join()
        assert driver.loop.is_closed()

    return scenario


def a_reader_and_a_closer(world: World) -> None:
    """What is left for later is done before the end, or refused."""
    driver = world.new_driver()
    closer = world.thread(driver.close, "closer")
    try:
        driver.later(lambda: world.events.append("ran"))
    except ClientClosedError:
        world.events.append("closed")
    closer.join()
    assert len(world.events) == 1, "what was left for later was never called"


def two_producers(world: World) -> None:
    """What one cannot do itself the other does, or the background thread at once: it does not wait for its time."""
    driver = world.new_driver()
    other = world.thread(partial(driver.post, lambda: world.events.append("other")), "other")
    driver.post(lambda: world.events.append("main"))
    other.join()
    world.rest_of_threads()
    assert sorted(world.events) == ["main", "other"], f"{world.events} at once"
    driver.close()


class Case(NamedTuple):
    """A scenario, and the preemptions that the tests have time for."""

    scenario: Scenario
    preemptions: float = math.inf
    ctrl_c: bool = False
    patience_ends: bool = True

    def search(self, source: str = SOURCE, *, is_bounded: bool = True) -> Search:
        return Search(
            source,
            ctrl_c=self.ctrl_c,
            preemptions=self.preemptions if is_bounded else math.inf,
            patience_ends=self.patience_ends,
        )


SCENARIOS: Final = {
    "later": Case(later_then_rest),
    "post": Case(post_then_rest),
    "call": Case(a_call),
    "task left behind": Case(a_call_that_leaves_a_task),
    "timer": Case(a_timer_rings),
    "callback calls back": Case(a_callback_calls_back),
    "callback ends the program": Case(a_callback_ends_the_program),
    "two callers": Case(two_callers, 2),
    "caller and reader": Case(a_caller_and_a_reader, 1),
    "two producers": Case(two_producers, patience_ends=False),
    "reader and producer": Case(a_reader_and_a_producer, 1),
    "produce and its result": Case(a_produce_and_its_result, 2),
    "receipt": Case(a_receipt, 2),
    "receipt that comes too late": Case(a_receipt_that_comes_too_late),
    "two waits": Case(two_waits),
    "coroutine that blocks": Case(a_coroutine_that_blocks),
    "finalizer": Case(a_finalizer, 1),
    "close during a call": Case(closing(lambda world: world.call(value(world, "main"))), 1),
    "close during a call that waits": Case(closing(lambda world: world.call(forever(world))), 2),
    "close during a coroutine that blocks": Case(
        closing(lambda world: inside_of_another_loop(world, forever(world))), 1
    ),
    "close during a wait": Case(closing(wait_for_ever), 2),
    "close during post": Case(closing(lambda world: world.driver.post(nothing)), 1),
    "close during later": Case(a_reader_and_a_closer, 2),
    "two close": Case(closing(lambda world: world.driver.close())),
    "two callers and a closer": Case(two_callers_and_a_closer, 1),
    "ctrl-c in later": Case(interrupted(lambda world: world.driver.later(nothing)), ctrl_c=True),
    "ctrl-c in post": Case(interrupted(lambda world: world.driver.post(nothing)), ctrl_c=True),
    "ctrl-c in a call": Case(interrupted(lambda world: world.call(value(world, "main"))), ctrl_c=True),
    "ctrl-c in a wait": Case(interrupted(wait_a_moment), ctrl_c=True),
    "ctrl-c in a coroutine that blocks": Case(
        interrupted(lambda world: inside_of_another_loop(world, value(world, "main"))), ctrl_c=True
    ),
    "ctrl-c in close": Case(interrupted_close, ctrl_c=True),
}


def nothing() -> None:
    pass


if __name__ == "__main__":
    for name, case in SCENARIOS.items():
        begin = time.monotonic()
        runs = explore(case.scenario, case.search(is_bounded=False))
        print(f"{name}: {runs} runs, {time.monotonic() - begin:.1f} s", flush=True)
