"""What threads note for the loop, and what of it may wait."""

from __future__ import annotations

from collections.abc import Callable

from ottla.client.produce.noted import Noted
from ottla.wire.records import Accumulator, RecordBuffer
from tests.client.worlds import Body, World

Run = Callable[[Body], object]
LINGER = 10.0


def test_what_begins_to_linger_waits_for_a_timer_that_rings_in_time(run: Run) -> None:
    async def body(world: World) -> None:
        noted = Noted(world.runtime.clock, LINGER)
        first, second = buffers(2)
        assert list(noted.take()) == []
        asked: list[float] = []

        def rings_by(when: float) -> bool:
            asked.append(when - world.runtime.clock.monotonic())
            return True

        noted.new[first] = False
        assert noted.puts_off(rings_by)
        assert noted.new == {}
        assert 0 < asked[0] <= LINGER
        noted.new[second] = False
        assert list(noted.take()) == [second, first]
        assert list(noted.take()) == []

    run(body)


def test_without_such_a_timer_the_loop_is_called_and_finds_it(run: Run) -> None:
    async def body(world: World) -> None:
        noted = Noted(world.runtime.clock, LINGER)
        (only,) = buffers(1)
        list(noted.take())
        noted.new[only] = False
        assert not noted.puts_off(lambda when: False)
        assert list(noted.take()) == [only]

    run(body)


def test_a_full_batch_and_a_loop_that_has_not_looked_for_long_do_not_wait(run: Run) -> None:
    async def body(world: World) -> None:
        noted = Noted(world.runtime.clock, LINGER)
        first, second = buffers(2)
        list(noted.take())
        noted.new.update({first: False, second: True})
        assert not noted.puts_off(lambda when: True)
        assert list(noted.take()) == [first, second]
        noted.new[first] = False
        world.clock.advance(LINGER / 2)
        assert not noted.puts_off(lambda when: True)

    run(body)


def test_without_lingering_nothing_waits(run: Run) -> None:
    async def body(world: World) -> None:
        noted = Noted(world.runtime.clock, 0.0)
        (only,) = buffers(1)
        list(noted.take())
        noted.new[only] = False
        assert not noted.puts_off(lambda when: True)

    run(body)


def buffers(count: int) -> list[RecordBuffer]:
    accumulator = Accumulator(batch_size=1000, max_bytes=1 << 20)
    return [accumulator.buffer("orders", number) for number in range(count)]
