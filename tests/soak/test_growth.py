"""Growth: each figure that is watched is found when it grows, and what settles is not."""

from __future__ import annotations

import asyncio
import gc
import mmap
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from ottla._native.memory import Memory
from tests.soak.growth import GrowthError, Sample, Watch, check, only_what_is_new

Plant = Callable[[ExitStack], object]
CYCLES = 8


class Kept:
    """An object that somebody forgets to let go."""


def a_file(leaks: ExitStack) -> None:
    leaks.enter_context(socket.socket())


def a_thread(leaks: ExitStack) -> None:
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    leaks.callback(thread.join)
    leaks.callback(ended.set)


def a_task(leaks: ExitStack) -> None:
    loop = asyncio.new_event_loop()
    leaks.callback(loop.close)
    task = loop.create_task(asyncio.sleep(60))
    loop.run_until_complete(asyncio.sleep(0))

    def end() -> None:
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))

    leaks.callback(end)


def native_memory(leaks: ExitStack) -> None:
    memory = Memory(5000)
    leaks.callback(lambda: memory)


def memory(leaks: ExitStack) -> None:
    # From the system itself: what the allocator has left of earlier tests would not make the process larger. And
    # written to, or the system would not hand it out.
    held = leaks.enter_context(mmap.mmap(-1, 16 << 20))
    held.write(b"x" * (16 << 20))


def an_object(leaks: ExitStack) -> None:
    leaks.callback(Kept)
    leaks.push(_returns(Kept()))


def _returns(kept: object) -> Callable[..., bool]:
    return lambda *_: kept is None


PLANTS = {
    "file descriptors": a_file,
    "threads": a_thread,
    "tasks": a_task,
    "native bytes": native_memory,
    "resident bytes": memory,
    f"objects of type {__name__}.Kept": an_object,
}


@pytest.fixture(autouse=True)
def only_new() -> Iterator[None]:
    with only_what_is_new():
        yield


@pytest.fixture
def leaks() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack
    gc.collect()


@pytest.mark.parametrize("name", PLANTS)
@pytest.mark.parametrize("is_brief", [False, True])
def test_a_leak_of_each_kind_is_found_and_named(name: str, is_brief: bool, leaks: ExitStack) -> None:
    watch = Watch(warm_up=2, window=2, is_brief=is_brief)
    for cycle in range(CYCLES):
        PLANTS[name](leaks)
        watch.look(cycle)
    with pytest.raises(GrowthError) as found:
        check(watch)
    assert f"  {name}: " in str(found.value)


def test_what_comes_and_goes_or_settles_has_not_grown() -> None:
    settled: list[Any] = []
    watch = Watch(warm_up=3, window=2)
    for cycle in range(CYCLES):
        with ExitStack() as stack:
            for plant in PLANTS.values():
                plant(stack)
        if cycle < 3:
            settled += [Kept() for _ in range(100)]
        watch.look(cycle)
    check(watch)


def test_the_watcher_itself_does_not_grow() -> None:
    watch = Watch(warm_up=5, window=5)
    for cycle in range(16):
        watch.look(cycle)
    check(watch)
    assert len(watch.first) == len(watch.last) == 5


def test_too_few_cycles_are_no_verdict() -> None:
    watch = Watch(warm_up=3, window=2)
    for cycle in range(5):
        watch.look(cycle)
    with pytest.raises(ValueError, match="3 cycles to warm up"):
        check(watch)


def test_a_sample_says_what_it_has_seen() -> None:
    assert "file descriptors" in str(Sample.now(0))
