"""How long to wait before trying again: doubled with every attempt, with jitter (KIP-580, KIP-144).

The caller tries, and counts its attempts. Kafka's numbers: twice as long each time, and 20 %
more or less, so that clients that failed together do not come back together.
"""

from __future__ import annotations

from typing import Final

from ottla.runtime import Random

_JITTER: Final = 0.2
_MOST_DOUBLINGS: Final = 62
"""Enough for any pair of options; a larger exponent would only overflow."""


class Backoff:
    """Delays in the unit of `first` and `most`; without state, so one serves many callers."""

    __slots__ = ("_first", "_most", "_random")

    def __init__(self, first: float, most: float, random: Random) -> None:
        # As Kafka's client has it: a first delay beyond the largest is cut, not an error.
        self._first = min(first, most)
        self._most = most
        self._random = random

    def delay(self, attempt: int) -> float:
        """The delay after attempt number `attempt`, counted from 0; jitter may exceed `most` by its share."""
        return self.mean(attempt) * self._random.uniform(1 - _JITTER, 1 + _JITTER)

    def mean(self, attempt: int) -> float:
        """The same without jitter, for a caller that spreads its attempts by itself."""
        return min(self._first * 2.0 ** min(attempt, _MOST_DOUBLINGS), self._most)
