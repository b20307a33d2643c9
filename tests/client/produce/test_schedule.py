"""When RecBufs are handed to their sinks, on a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable

from ottla.client.produce.recbuf import RecBuf
from ottla.client.produce.schedule import DrainSchedule
from ottla.wire.records import Accumulator
from tests.client.worlds import Body, World

Run = Callable[[Body], object]


class Sink:
    node_id = 1

    def __init__(self) -> None:
        self.ready: list[int] = []

    def add(self, recbuf: RecBuf) -> None:
        self.ready.append(recbuf.partition)

    def remove(self, recbuf: RecBuf) -> None: ...


def recbufs(world: World, sink: Sink, linger: float) -> list[RecBuf]:
    monotonic = world.runtime.clock.monotonic
    accumulator = Accumulator(batch_size=1000, max_bytes=1 << 20, clock=lambda: 0, monotonic=monotonic)
    made = [
        RecBuf(accumulator.buffer("orders", number), linger=linger, max_in_flight=5, is_idempotent=True)
        for number in range(3)
    ]
    for recbuf in made:
        recbuf.move_to(sink)
    return made


def test_those_that_linger_go_together_once_more_than_half_of_their_time_is_over(run: Run) -> None:
    async def body(world: World) -> None:
        sink, clock = Sink(), world.runtime.clock
        schedule = DrainSchedule(clock, 10.0)
        first, second, third = recbufs(world, sink, 10.0)
        for recbuf in (first, second, third):
            recbuf.buffer.append(None, b"1")
            schedule.consider(recbuf)
            world.clock.advance(4)
        assert sink.ready == []
        await clock.sleep(0)
        # 12 seconds for the first, 8 for the second, 4 for the third.
        assert sink.ready == [0, 1]
        world.clock.advance(6)
        await clock.sleep(0)
        assert sink.ready == [0, 1, 2]
        schedule.close()

    run(body)


def test_what_is_ready_goes_at_once_and_nothing_after_closing(run: Run) -> None:
    async def body(world: World) -> None:
        sink, clock = Sink(), world.runtime.clock
        schedule = DrainSchedule(clock, 10.0)
        first, second, _ = recbufs(world, sink, 10.0)
        first.buffer.append(None, b"1")
        first.is_hurried = True
        schedule.consider(first)
        assert sink.ready == [0]
        second.buffer.append(None, b"1")
        schedule.consider(second)
        schedule.close()
        world.clock.advance(60)
        await clock.sleep(0)
        assert sink.ready == [0]

    run(body)


def test_what_was_put_off_is_gathered_when_the_timer_rings(run: Run) -> None:
    async def body(world: World) -> None:
        sink, clock = Sink(), world.runtime.clock
        put_off: list[RecBuf] = []
        schedule = DrainSchedule(clock, 10.0, lambda: [put_off.pop() for _ in range(len(put_off))])
        first, second, third = recbufs(world, sink, 10.0)
        assert not schedule.rings_by(clock.monotonic() + 1000)
        first.buffer.append(None, b"1")
        schedule.consider(first)
        assert schedule.rings_by(clock.monotonic() + 10)
        assert not schedule.rings_by(clock.monotonic() + 9)
        for recbuf in (second, third):
            world.clock.advance(4)
            recbuf.buffer.append(None, b"1")
            put_off.append(recbuf)
        world.clock.advance(2)
        await clock.sleep(0)
        # 10 seconds for the first, 6 for the second, 2 for the third, which has an alarm of its own now.
        assert sorted(sink.ready) == [0, 1]
        assert schedule.rings_by(clock.monotonic() + 8)
        world.clock.advance(8)
        await clock.sleep(0)
        assert sorted(sink.ready) == [0, 1, 2]
        schedule.close()

    run(body)
