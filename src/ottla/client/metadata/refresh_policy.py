"""When metadata is requested next: a state machine over triggers, responses and failures; time comes in as a number.

Five things make a request due: an immediate trigger (now), an urgent one (now, but not within 100 ms of the last
response), a lazy one (min age after it), a response that leaves reasons for another one (quickly, about every 250 ms
and at most 8 times for the same reasons, then every min age), and age (max age after the last response). After a
failure only the back-off counts, however many triggers come.

Invariant: a trigger that comes before a request is sent is served by it; one that comes later leads to one more.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Final

from ottla.client.backoff import Backoff
from ottla.runtime import Random

QUICK_RETRY: Final = 0.25
"""Seconds; an election or the creation of a topic is over after one or two of them."""
QUICK_RETRIES: Final = 8
URGENT_SPACING: Final = 0.1
"""Seconds; a thousand partitions with a wrong leader are a thousand triggers, each by itself."""
UNKNOWN_RESPONSES: Final = 5
"""How many responses in a row may say that there is no such topic: it may be on its way to be created."""
_JITTER: Final = 0.2


class RefreshPolicy:
    """Ages in seconds; `backoff` is for failures, in seconds too."""

    def __init__(self, min_age: float, max_age: float, backoff: Backoff, random: Random) -> None:
        self._min_age = min_age
        self._max_age = max_age
        self._backoff = backoff
        self._random = random
        self._succeeded_at = -inf
        self._aged_at = inf
        self._now = False
        self._urgent = False
        self._soon = False
        self._retry_at = inf
        self._quick_left = QUICK_RETRIES
        self._reasons: dict[str, None] = {}
        self._failures = 0
        self._failed_until = -inf

    @property
    def is_failing(self) -> bool:
        return self._failures > 0

    def begin(self, now: float) -> None:
        """Nothing is due yet, unless it was triggered already; but age counts from here."""
        self._aged_at = now + self._max_age

    def trigger(self) -> None:
        """Not before min age has passed."""
        self._soon = True

    def trigger_urgent(self) -> None:
        """Now, unless the last response is only a moment old."""
        self._urgent = True

    def trigger_now(self) -> None:
        self._now = True

    def sent(self) -> None:
        """The request that is pending now serves all triggers so far."""
        self._now = self._urgent = self._soon = False
        self._retry_at = inf

    def succeeded(self, now: float, reasons: Iterable[str]) -> None:
        """A response is applied; `reasons` are why metadata should be requested again soon."""
        self._succeeded_at = now
        self._aged_at = now + self._max_age
        self._failures = 0
        self._failed_until = -inf
        known, self._reasons = self._reasons, dict.fromkeys(reasons)
        if not self._reasons:
            self._retry_at = inf
            return
        if any(reason not in known for reason in self._reasons):
            self._quick_left = QUICK_RETRIES
        self._retry_at = now + self._retry_delay()

    def failed(self, now: float) -> None:
        """No broker responded; it is tried again, because the triggers are not served yet."""
        self._failed_until = now + self._backoff.delay(self._failures)
        self._failures += 1

    def due(self, now: float) -> float:
        """When to send the next request, a time that may have passed already."""
        if self._failures:
            return self._failed_until
        if self._now:
            return now
        urgently = max(now, self._succeeded_at + URGENT_SPACING) if self._urgent else inf
        lazily = self._succeeded_at + self._min_age if self._soon else inf
        return min(urgently, lazily, self._retry_at, self._aged_at)

    def _retry_delay(self) -> float:
        if self._quick_left == 0:
            return self._min_age
        self._quick_left -= 1
        return QUICK_RETRY * self._random.uniform(1 - _JITTER, 1 + _JITTER)
