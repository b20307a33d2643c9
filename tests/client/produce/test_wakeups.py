"""Which dirty buffers may wait, and when RecBufs are handed to their sinks, on a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.client.produce.completions import Completions
from ottla.client.produce.producer_id import ProducerIdentity
from ottla.client.produce.recbuf import RecBuf
from ottla.client.produce.wakeups import DirtyBuffers, Wakeups
from ottla.hooks import Hooks
from ottla.wire.records import Accumulator, RecordBuffer
from tests.client.worlds import Body, World

Run = Callable[[Body], object]
LINGER = 10.0


def test_what_begins_to_linger_waits_for_a_timer_that_rings_in_time(run: Run) -> None:
    async def body(world: World) -> None:
        dirty = DirtyBuffers(world.runtime.clock, LINGER)
        first, second = buffers(2)
        assert dirty.take(world.runtime.clock.monotonic()) == []
        until: list[float] = []

        def rings_by(when: float) -> bool:
            until.append(when - world.runtime.clock.monotonic())
            return True

        dirty.new[first] = False
        assert dirty.put_off(rings_by)
        assert dirty.new == {}
        assert 0 < until[0] <= LINGER
        dirty.new[second] = False
        assert dirty.take(world.runtime.clock.monotonic()) == [second, first]
        assert dirty.take(world.runtime.clock.monotonic()) == []

    run(body)


def test_without_such_a_timer_the_loop_is_called_and_finds_it(run: Run) -> None:
    async def body(world: World) -> None:
        dirty = DirtyBuffers(world.runtime.clock, LINGER)
        (only,) = buffers(1)
        dirty.take(world.runtime.clock.monotonic())
        dirty.new[only] = False
        assert not dirty.put_off(lambda when: False)
        assert dirty.take(world.runtime.clock.monotonic()) == [only]

    run(body)


def test_a_full_batch_and_a_loop_that_has_not_looked_for_long_do_not_wait(run: Run) -> None:
    async def body(world: World) -> None:
        dirty = DirtyBuffers(world.runtime.clock, LINGER)
        first, second = buffers(2)
        dirty.take(world.runtime.clock.monotonic())
        dirty.new.update({first: False, second: True})
        assert not dirty.put_off(lambda when: True)
        assert dirty.take(world.runtime.clock.monotonic()) == [first, second]
        dirty.new[first] = False
        world.clock.advance(LINGER / 2)
        assert not dirty.put_off(lambda when: True)

    run(body)


def test_without_lingering_nothing_waits(run: Run) -> None:
    async def body(world: World) -> None:
        dirty = DirtyBuffers(world.runtime.clock, 0.0)
        (only,) = buffers(1)
        dirty.take(world.runtime.clock.monotonic())
        dirty.new[only] = False
        assert not dirty.put_off(lambda when: True)

    run(body)


class Leader:
    """Three partitions of one leader, a sink that notes what it gets, and the Wakeups between them."""

    def __init__(self, world: World, linger: float = LINGER) -> None:
        self.clock = clock = world.runtime.clock
        self.ready: list[int] = []
        self.calls: list[Callable[[], object]] = []
        self.dirty = DirtyBuffers(clock, LINGER)
        self.completions = Completions(Hooks([]), clock)
        accumulator = Accumulator(
            batch_size=1000,
            max_bytes=1 << 20,
            clock=lambda: 0,
            monotonic=clock.monotonic,
            wake=self.dirty.new.setdefault,
        )
        self.recbufs = [
            RecBuf(accumulator.buffer("orders", number), linger=linger, max_in_flight=5, is_idempotent=True)
            for number in range(3)
        ]
        for recbuf in self.recbufs:
            recbuf.set_leader(1)
        sinks: Any = {1: self}
        known = {recbuf.buffer: recbuf for recbuf in self.recbufs}
        self.wakeups = Wakeups(
            clock, LINGER, self.dirty, known, sinks, self.completions, self.calls.append, hurry=None
        )

    def add(self, recbuf: RecBuf) -> None:
        # As in a sink, where a RecBuf is ready once.
        if recbuf.partition not in self.ready:
            self.ready.append(recbuf.partition)

    def drain_soon(self) -> None:
        """What is ready is noted already."""

    def look(self) -> None:
        """As the loop does when it was called."""
        while self.calls:
            self.calls.pop()()


def test_those_that_linger_go_together_once_more_than_half_of_their_time_is_over(run: Run) -> None:
    async def body(world: World) -> None:
        leader = Leader(world)
        for recbuf in leader.recbufs:
            recbuf.buffer.append(None, b"1")
            leader.wakeups.consider(recbuf)
            world.clock.advance(4)
        assert leader.ready == []
        await leader.clock.sleep(0)
        # 12 seconds for the first, 8 for the second, 4 for the third.
        assert leader.ready == [0, 1]
        world.clock.advance(6)
        await leader.clock.sleep(0)
        assert leader.ready == [0, 1, 2]
        leader.wakeups.close()

    run(body)


def test_what_is_ready_goes_at_once_and_nothing_after_closing(run: Run) -> None:
    async def body(world: World) -> None:
        leader = Leader(world)
        first, second, _ = leader.recbufs
        first.buffer.append(None, b"1")
        leader.wakeups.unlinger(first)
        assert leader.ready == [0]
        second.buffer.append(None, b"1")
        leader.wakeups.consider(second)
        leader.wakeups.close()
        world.clock.advance(60)
        await leader.clock.sleep(0)
        assert leader.ready == [0]

    run(body)


def test_what_was_put_off_is_taken_when_the_timer_rings(run: Run) -> None:
    async def body(world: World) -> None:
        leader = Leader(world)
        first, second, third = leader.recbufs
        first.buffer.append(None, b"1")
        leader.wakeups.notify()
        leader.look()
        # The loop has looked a moment ago, and the timer for the first one rings in time.
        world.clock.advance(2)
        second.buffer.append(None, b"1")
        leader.wakeups.notify()
        assert leader.calls == []
        assert leader.dirty.new == {}
        world.clock.advance(8)
        third.buffer.append(None, b"1")
        await leader.clock.sleep(0)
        # 10 seconds for the first, 8 for the second, none for the third, which has an alarm of its own now.
        assert sorted(leader.ready) == [0, 1]
        world.clock.advance(10)
        await leader.clock.sleep(0)
        assert sorted(leader.ready) == [0, 1, 2]
        leader.wakeups.close()

    run(body)


def test_the_loop_is_called_once_for_all_that_becomes_dirty_until_it_looks(run: Run) -> None:
    async def body(world: World) -> None:
        leader = Leader(world)
        for recbuf in leader.recbufs:
            recbuf.buffer.append(None, b"1")
            leader.wakeups.notify()
        assert len(leader.calls) == 1
        leader.look()
        assert leader.dirty.new == {}
        leader.wakeups.close()

    run(body)


def test_while_an_append_waits_for_memory_nothing_lingers(run: Run) -> None:
    async def body(world: World) -> None:
        leader = Leader(world)
        first, second, _ = leader.recbufs
        first.buffer.append(None, b"1")
        leader.wakeups.no_space()
        leader.completions.on_space(lambda: None)
        leader.look()
        assert leader.ready == [0]
        second.buffer.append(None, b"1")
        leader.wakeups.notify()
        leader.look()
        assert leader.ready == [0, 1]
        leader.wakeups.close()

    run(body)


def test_sweeping_goes_on_from_the_first_dirty_buffer_until_nothing_is_left(run: Run) -> None:
    async def body(world: World) -> None:
        leader = Leader(world)
        left = [False, True, True]
        leader.wakeups.sweep_every(1.0, left.pop)
        world.clock.advance(5)
        await leader.clock.sleep(0)
        assert len(left) == 3
        leader.recbufs[0].buffer.append(None, b"1")
        leader.wakeups.notify()
        leader.look()
        for remaining in (2, 1, 0, 0):
            world.clock.advance(1)
            await leader.clock.sleep(0)
            assert len(left) == remaining
        leader.wakeups.close()

    run(body)


def buffers(count: int) -> list[RecordBuffer]:
    accumulator = Accumulator(batch_size=1000, max_bytes=1 << 20)
    return [accumulator.buffer("orders", number) for number in range(count)]


class BusyLeader(Leader):
    """Of a client whose threads run the loop: what is ready is drained where it is noticed."""

    def __init__(self, world: World) -> None:
        super().__init__(world, linger=0.0)
        self.requests: list[int] = []
        self.hurried = 0
        sinks: Any = {1: self}
        known = {recbuf.buffer: recbuf for recbuf in self.recbufs}
        self.wakeups.close()
        self.dirty = DirtyBuffers(self.clock, 0.0)
        self.wakeups = Wakeups(
            self.clock, 0.0, self.dirty, known, sinks, self.completions, self.calls.append, self.hurry
        )

    def hurry(self) -> None:
        self.hurried += 1

    def drain(self, now: float) -> None:
        for recbuf in self.recbufs:
            while (batch := recbuf.next_batch(now, 0.0)) is not None:
                recbuf.send(batch, ProducerIdentity(1, 0), 1, now)
                self.requests.append(recbuf.partition)

    def append(self, partition: int) -> object:
        """What the call for a record that was appended returns; "no call" if there was none."""
        buffer = self.recbufs[partition].buffer
        buffer.append(None, b"1")
        self.dirty.new[buffer] = False
        self.wakeups.notify()
        return self.calls.pop()() if self.calls else "no call"


def test_the_loop_is_needed_behind_what_was_sent_only_if_a_response_may_have_come(run: Run) -> None:
    async def body(world: World) -> None:
        leader = BusyLeader(world)
        assert leader.append(0) is False, "nothing was in flight"
        assert leader.requests == [0]
        assert leader.append(1) is True, "the response to the first may be there"
        assert leader.requests == [0, 1]
        assert leader.hurried == 0
        leader.wakeups.close()

    run(body)


def test_it_hurries_where_a_record_waits_for_a_response(run: Run) -> None:
    async def body(world: World) -> None:
        leader = BusyLeader(world)
        leader.append(0)
        # One request at a time until a first success.
        assert leader.append(0) is True
        assert leader.requests == [0]
        assert leader.hurried == 1
        leader.wakeups.close()

    run(body)
