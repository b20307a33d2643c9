"""What the appending threads tell the loop: which buffers have something new, and whether that can wait a moment.

A loop that is called for the first record of every batch does little else where there are a thousand partitions. So
what only begins to linger is put off until a timer rings, if one rings in time and the loop has looked a moment ago.

Invariant: a buffer with something new is in `new` or among those put off until `take` hands it out, whatever
interrupts the threads in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ottla.runtime import Clock
from ottla.wire.records import RecordBuffer

_LOOKS: Final = 4
"""How often the loop looks at what begins to linger, within the time that it lingers."""


class Noted:
    """Buffers that the loop has not looked at since something was appended."""

    def __init__(self, clock: Clock, linger: float) -> None:
        self.new: dict[RecordBuffer, bool] = {}
        """Any thread adds to it, in one step; True for a batch that is full."""
        self._clock = clock
        self._linger = linger
        self._put_off: dict[RecordBuffer, None] = {}
        self._rest_until = 0.0

    def puts_off(self, rings_by: Callable[[float], bool]) -> bool:
        """Whether nothing new is urgent: then all of it waits. Any thread may ask.

        `rings_by(time)` says whether a timer will have the loop take everything until then.
        """
        now = self._clock.monotonic()
        new = self.new.copy()
        if now >= self._rest_until or any(new.values()):
            return False
        for buffer in new:
            # In this order: whatever interrupts this, it is in one of them.
            self._put_off[buffer] = None
            self.new.pop(buffer, None)
        # Asked last: a timer that has rung in the meantime may have missed it.
        return rings_by(now + self._linger)

    def take(self) -> Iterator[RecordBuffer]:
        """Everything, for the loop."""
        self._rest_until = self._clock.monotonic() + self._linger / _LOOKS
        for noted in (self.new, self._put_off):
            for buffer in noted.copy():
                # First: whatever is appended from now on is noted again.
                noted.pop(buffer, None)
                yield buffer
