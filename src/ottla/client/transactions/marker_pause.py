"""MarkerPause: how long the first Produce of a transaction is held back, for the markers of the last one.

A coordinator answers EndTxn before it has the markers written. Until they are, the transactional id takes no
partition: a leader that asks for one (transaction.version 2) is told CONCURRENT_TRANSACTIONS, and asks again only
after its add.partitions.to.txn.retry.backoff.ms, 20 by default. So a Produce that comes a moment too early takes ten
times as long as one that comes after that moment, and a program that commits one small transaction after the other
would spend most of its time on that.

No response says when markers are written, only how long a first Produce takes. One that takes longer than EndTxn by
about the back-off was too early, and the pause grows; one that was held back and was not too early lets it shrink. It
settles where one in fifty is too early. A program that needs longer than the pause from one transaction to the next
is never held back.

A pause that is at its longest and still too short is none that helps: the cluster is slow, or what takes long is
something else. Then nothing is held back for a while.

No clock: the time is passed in. It is for the first Produce only, because a coordinator that has taken one partition
takes all.
"""

from __future__ import annotations

from typing import Final

LATE_S: Final = 0.015
"""By how much longer than EndTxn, which is a write too, a Produce has to take: most of a leader's back-off."""
STEP_S: Final = 0.000_15
"""By what a short pause grows."""
_GROWTH: Final = 0.1
"""By what share a long one does."""
_SHRINKING: Final = 0.995
LONGEST_S: Final = 0.012
"""Most of what a Produce that is too early costs, with the time that a program takes anyway."""
_MOST_IN_VAIN: Final = 3
"""How often in a row a Produce may be too early behind the longest pause."""
RESTING: Final = 200
"""For how many transactions nothing is held back where that does not help."""
_NEGLIGIBLE_S: Final = 0.000_02
"""What is left of a pause when no timer is worth it."""
_LONG_AGO: Final = float("-inf")


class MarkerPause:
    """What the last transactions of a producer say about the next one."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """From the response to EndTxn to the first Produce, at least."""
        self._ended_at = _LONG_AGO
        self._end_took = 0.0
        self._is_held_back = False
        self._sent_at: float | None = None
        self._in_vain = 0
        self._resting = 0

    def ended(self, asked_at: float, now: float) -> None:
        """A coordinator has answered EndTxn: it has markers written from now on."""
        self._ended_at, self._end_took = now, now - asked_at
        self._is_held_back = False
        self._sent_at = None
        if self._resting:
            self._resting -= 1

    def left(self, now: float) -> float:
        """For how long the first Produce of this transaction is still to be held back; 0.0: it may be sent."""
        left = self._ended_at + self.seconds - now
        if left < _NEGLIGIBLE_S:
            return 0.0
        self._is_held_back = True
        return left

    def sent(self, now: float) -> None:
        """The first Produce of a transaction is."""
        # Markers that were asked for longer ago have nothing to do with how long it takes.
        if now - self._ended_at < LONGEST_S + STEP_S:
            self._sent_at = now

    def delivered(self, now: float) -> None:
        """A Produce has succeeded; the first of a transaction counts."""
        if self._sent_at is None:
            return
        took, self._sent_at = now - self._sent_at, None
        if took >= self._end_took + LATE_S:
            self._was_too_early()
        elif self._is_held_back:
            self._in_vain = 0
            self.seconds *= _SHRINKING

    def _was_too_early(self) -> None:
        if self._resting:
            return
        if self.seconds < LONGEST_S:
            self.seconds = min(LONGEST_S, self.seconds + max(STEP_S, _GROWTH * self.seconds))
            return
        self._in_vain += 1
        if self._in_vain == _MOST_IN_VAIN:
            self.seconds, self._in_vain, self._resting = 0.0, 0, RESTING
