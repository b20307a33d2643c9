"""When a RecBuf has something to send: at once, later (it lingers, or backs off), or not before something happens.

One timer for all partitions of a client. Batches that linger are let go together: when the time of one has come,
those whose time is more than half over go with it, so that partitions which fill slowly share requests.

Invariant: a RecBuf whose `ready_at` is a time to come has an alarm at that time or earlier; or it is one of those
that `gather` will bring when the timer rings, which is not later (`rings_by`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Final

from ottla.client.produce.recbuf import RecBuf
from ottla.runtime import Clock, Timer

_NEVER: Final = float("inf")


class DrainSchedule:
    """Hands RecBufs to their sinks when it is time."""

    def __init__(
        self, clock: Clock, linger: float, gather: Callable[[], Iterable[RecBuf]] = lambda: ()
    ) -> None:
        """`gather()` gives the RecBufs that somebody has put off until the timer rings."""
        self.slack = linger / 2
        self._gather = gather
        self._clock = clock
        self._alarms: list[tuple[float, int, RecBuf]] = []
        self._count = 0
        self._timer: Timer | None = None
        self._timer_at = _NEVER
        self._is_closed = False

    def consider(self, recbuf: RecBuf) -> None:
        """Something about it has changed."""
        when = recbuf.ready_at()
        if when is None or self._is_closed:
            return
        if when <= self._clock.monotonic():
            assert recbuf.sink is not None, "without a leader nothing is ready"
            recbuf.sink.add(recbuf)
        else:
            self.remind(recbuf, when)

    def remind(self, recbuf: RecBuf, when: float) -> None:
        """It is ready at a time to come."""
        if recbuf.alarm_at is None or when < recbuf.alarm_at:
            recbuf.alarm_at = when
            # Counted, so that equal times are in the order of their making.
            self._count += 1
            heappush(self._alarms, (when, self._count, recbuf))
            self._arm()

    def rings_by(self, when: float) -> bool:
        """Whether the timer rings until then; any thread may ask. What is put off before that is gathered then."""
        return self._timer_at <= when

    def close(self) -> None:
        self._is_closed = True
        self._alarms.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        when = self._alarms[0][0]
        if self._timer is not None:
            if self._timer_at <= when:
                return
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._clock.call_later(max(0.0, when - self._clock.monotonic()), self._ring)

    def _ring(self) -> None:
        # Before anything is gathered: see `rings_by`.
        self._timer, self._timer_at = None, _NEVER
        now = self._clock.monotonic()
        for recbuf in self._gather():
            self._let_go(recbuf, now)
        while self._alarms and self._alarms[0][0] <= now + self.slack:
            when, _, recbuf = heappop(self._alarms)
            if when == recbuf.alarm_at:
                recbuf.alarm_at = None
                self._let_go(recbuf, now)
        if self._alarms:
            self._arm()

    def _let_go(self, recbuf: RecBuf, now: float) -> None:
        when = recbuf.ready_at()
        if when is None:
            return
        if when <= now + self.slack:
            assert recbuf.sink is not None, "without a leader nothing is ready"
            recbuf.sink.add(recbuf)
        else:
            self.remind(recbuf, when)
