"""Wakeups: when the loop looks at which partitions. Threads that append mark buffers dirty; the loop does the rest.

A buffer is dirty when a first record has come into it, or a batch in it has become full. The appending thread marks
it in one call of a built-in method, which Ctrl-C cannot interrupt, and then calls the loop, once for all buffers that
become dirty until the loop looks. A loop that is called for the first record of every batch does little else where
there are a thousand partitions. So a buffer that only begins to linger is put off until the timer rings, if the timer
rings in time and the loop has looked a moment ago.

The loop hands a RecBuf to the sink of its leader when it has something to send: at once, later (it lingers, or backs
off), or not before an event. One timer serves all partitions of a client. Batches that linger go together: when the
time of one has come, those whose time is more than half over go with it, so that partitions which fill slowly share
requests.

Invariants: a dirty buffer is in `dirty` or put off until the loop takes it, whatever interrupts the threads in
between; and a RecBuf whose `ready_at` is a time to come has an alarm at that time or earlier, or is one of those that
were put off, which the loop takes when the timer rings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from ottla.runtime import Clock, Timer
from ottla.wire.records import RecordBuffer

if TYPE_CHECKING:
    from ottla.client.produce.completions import Completions
    from ottla.client.produce.recbuf import RecBuf
    from ottla.client.produce.sink import Sink

_LOOKS: Final = 4
"""How often the loop looks at what begins to linger, within the time that it lingers."""
_NEVER: Final = float("inf")


class DirtyBuffers:
    """Buffers that the loop has not looked at since something was appended."""

    def __init__(self, clock: Clock, linger: float) -> None:
        self.new: dict[RecordBuffer, bool] = {}
        """Any thread adds to it, in one step; True for a batch that is full."""
        self._clock = clock
        self._linger = linger
        self._put_off: dict[RecordBuffer, None] = {}
        self._rest_until = 0.0

    def put_off(self, rings_by: Callable[[float], bool]) -> bool:
        """Whether nothing new is urgent: then all of it waits for the timer. Any thread may call this.

        `rings_by(time)` says whether the timer will have the loop take everything until then.
        """
        if not self._linger:
            return False
        now = self._clock.monotonic()
        new = self.new.copy()
        if now >= self._rest_until or any(new.values()):
            return False
        for buffer in new:
            # In this order: whatever interrupts this, it is in one of them.
            self._put_off[buffer] = None
            self.new.pop(buffer, None)
        # Last: a timer that has rung in the meantime may have missed it.
        return rings_by(now + self._linger)

    def take(self, now: float) -> list[RecordBuffer]:
        """Everything, for the loop."""
        self._rest_until = now + self._linger / _LOOKS
        taken: list[RecordBuffer] = []
        for dirty in (self.new, self._put_off) if self._put_off else (self.new,):
            for buffer in dirty.copy():
                # Before the loop looks at it: an append from now on marks it again.
                dirty.pop(buffer, None)
                taken.append(buffer)
        return taken


class Wakeups:
    """Hands RecBufs to their sinks when it is time. Any thread calls `notify` and `no_space`, the loop the rest."""

    def __init__(
        self,
        clock: Clock,
        linger: float,
        dirty: DirtyBuffers,
        recbufs: Mapping[RecordBuffer, RecBuf],
        sinks: Mapping[int, Sink],
        completions: Completions,
        call: Callable[[Callable[[], object]], object],
        hurry: Callable[[], None] | None = None,
    ) -> None:
        """`call(function)` has a function called on the loop, from any thread.

        With `hurry`, threads run the loop when they call: what is ready is sent where it is noticed, and where that
        has to wait for a response, `hurry()` has the loop run soon also if none calls. Without it, what is ready goes
        out in the next iteration of the loop, together with what a coroutine appends until then.
        """
        self.slack = linger / 2
        """How much less than it should a batch may have lingered that goes with others."""
        self._clock = clock
        self._dirty = dirty
        self._recbufs = recbufs
        self._sinks = sinks
        self._completions = completions
        self._call = call
        self._hurry = hurry
        self._looks: Callable[[], object] = self._look if hurry is None else self._look_and_drain
        self._is_called = False
        self._alarms: list[tuple[float, int, RecBuf]] = []
        self._count = 0
        self._timer: Timer | None = None
        self._timer_at = _NEVER
        self._sweep: Callable[[], bool] | None = None
        self._sweep_every = 0.0
        self._sweeper: Timer | None = None
        self._is_closed = False

    # Any thread

    def notify(self) -> None:
        """Has the loop look at dirty buffers, unless it is about to."""
        # A buffer is dirty before the flag is read; the loop clears the flag before it takes dirty buffers.
        if self._is_called or not self._dirty.new:
            return
        if not self._completions.space_waiters and self._dirty.put_off(self._rings_by):
            return
        try:
            self._is_called = True
            self._call(self._looks)
        except BaseException:
            self._is_called = False
            raise

    def no_space(self) -> None:
        """An append has found no memory left: nothing lingers until some is freed."""
        if not self._completions.space_waiters:
            self._call(self.unlinger_all)
        elif self._dirty.new:
            # All else is urgent already; a batch may have become full before there was no memory.
            self.notify()

    # The loop

    def _look(self) -> None:
        self._is_called = False
        now = self._clock.monotonic()
        for recbuf in self._take_dirty(now):
            self._consider(recbuf, now)

    def _look_and_drain(self) -> bool:
        """False if the loop need not be run for this: all was sent, and no response was due before."""
        self._is_called = False
        now = self._clock.monotonic()
        return self._drain_ready(self._take_dirty(now), now)

    def send_now(self, recbufs: Iterable[RecBuf]) -> None:
        """What they have goes out before this returns, as far as that is possible."""
        self._drain_ready(recbufs, self._clock.monotonic())

    def _drain_ready(self, recbufs: Iterable[RecBuf], now: float) -> bool:
        """Whether the loop has something to look at: not if all was sent, and no response was due before."""
        sinks: dict[Sink, None] = {}
        for recbuf in recbufs:
            when = recbuf.ready_at()
            if when is None or self._is_closed:
                if recbuf.in_flight and self._hurry is not None:
                    # Appends to what waits behind the requests in flight mark nothing dirty any more.
                    self._hurry()
                continue
            if when > now:
                self.remind(recbuf, when)
                continue
            sink = self._sinks[recbuf.leader]  # type: ignore[index]
            sink.add(recbuf)
            sinks[sink] = None
        is_needed = not sinks
        for sink in sinks:
            was_busy = bool(sink.requests)
            sink.drain(now)
            if was_busy or not sink.requests:
                is_needed = True
        return is_needed

    def _take_dirty(self, now: float) -> list[RecBuf]:
        """The RecBufs of dirty buffers."""
        if self._sweeper is None:
            self.sweep_later()
        # One that is not found is of a topic that was forgotten.
        known = self._recbufs
        taken = [recbuf for buffer in self._dirty.take(now) if (recbuf := known.get(buffer)) is not None]
        if self._completions.space_waiters:
            for recbuf in taken:
                recbuf.is_urgent = True
        return taken

    def look_at_dirty(self) -> None:
        """Now, where the loop is at work on them anyway."""
        if self._dirty.new:
            self._look()

    def unlinger(self, recbuf: RecBuf) -> None:
        """What gathers in it goes out at once."""
        if recbuf.buffer.records:
            recbuf.is_urgent = True
            self.consider(recbuf)

    def unlinger_all(self) -> None:
        for recbuf in self._recbufs.values():
            self.unlinger(recbuf)

    def consider(self, recbuf: RecBuf) -> None:
        """Something about it has changed: it goes to its sink if it is ready, or gets an alarm."""
        self._consider(recbuf, self._clock.monotonic())

    def _consider(self, recbuf: RecBuf, now: float) -> None:
        when = recbuf.ready_at()
        if when is None or self._is_closed:
            return
        if when <= now:
            self._hand_over(recbuf)
        else:
            self.remind(recbuf, when)

    def _hand_over(self, recbuf: RecBuf) -> None:
        assert recbuf.leader is not None, "without a leader nothing is ready"
        sink = self._sinks[recbuf.leader]
        sink.add(recbuf)
        sink.drain_soon()

    def remind(self, recbuf: RecBuf, when: float) -> None:
        """It is ready at a time to come."""
        if recbuf.alarm_at is None or when < recbuf.alarm_at:
            recbuf.alarm_at = when
            # Counted, so that equal times are in the order of their making.
            self._count += 1
            heappush(self._alarms, (when, self._count, recbuf))
            self._arm()

    def _rings_by(self, when: float) -> bool:
        """Whether the timer rings until then; any thread may call this. What is put off before is taken then."""
        return self._timer_at <= when

    def _arm(self) -> None:
        when = self._alarms[0][0]
        if self._timer is not None:
            if self._timer_at <= when:
                return
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._clock.call_later(max(0.0, when - self._clock.monotonic()), self._ring)

    def _ring(self) -> None:
        # Before dirty buffers are taken: see `_rings_by`.
        self._timer, self._timer_at = None, _NEVER
        now = self._clock.monotonic()
        for recbuf in self._due(now):
            when = recbuf.ready_at()
            if when is None:
                continue
            if when <= now + self.slack:
                self._hand_over(recbuf)
            else:
                self.remind(recbuf, when)
        if self._alarms:
            self._arm()

    def _due(self, now: float) -> Iterator[RecBuf]:
        """What was put off until now, and those whose alarm rings, or would soon."""
        yield from self._take_dirty(now)
        while self._alarms and self._alarms[0][0] <= now + self.slack:
            when, _, recbuf = heappop(self._alarms)
            if when == recbuf.alarm_at:
                recbuf.alarm_at = None
                yield recbuf

    # Sweeping

    def sweep_every(self, seconds: float, sweep: Callable[[], bool]) -> None:
        """Has `sweep()` called every so often, from the first dirty buffer until it returns False."""
        self._sweep_every, self._sweep = seconds, sweep

    def sweep_later(self) -> None:
        """There is something to sweep, or may be."""
        if self._sweeper is None and not self._is_closed and self._sweep is not None:
            self._sweeper = self._clock.call_later(self._sweep_every, self._sweep_now)

    def _sweep_now(self) -> None:
        self._sweeper = None
        if self._sweep is not None and self._sweep():
            self.sweep_later()

    def close(self) -> None:
        self._is_closed = True
        self._alarms.clear()
        for timer in (self._timer, self._sweeper):
            if timer is not None:
                timer.cancel()
