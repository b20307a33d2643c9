"""When a broker may be connected to again, and how long an attempt may take (KIP-144, KIP-601).

One per broker, for its connections of all purposes: they fail for the same reasons. Time comes in, delays go out.
"""

from __future__ import annotations

from ottla.client.backoff import Backoff
from ottla.config import ClientConfig
from ottla.runtime import Random


class Reconnecting:
    """Counts failures in a row; the first success ends the row."""

    def __init__(self, config: ClientConfig, random: Random) -> None:
        self._backoff = Backoff(
            config.reconnect_backoff_ms / 1000, config.reconnect_backoff_max_ms / 1000, random
        )
        self._setup = Backoff(
            config.socket_connection_setup_timeout_ms / 1000,
            config.socket_connection_setup_timeout_max_ms / 1000,
            random,
        )
        self._failures = 0
        self._failed_at = float("-inf")
        self._not_before = float("-inf")

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt failed."""
        return self._failures > 0

    def wait(self, now: float) -> float:
        """How many seconds to wait before the next attempt."""
        return max(0.0, self._not_before - now)

    def setup_timeout(self) -> float:
        """How many seconds the next attempt may take; longer after each failure."""
        return self._setup.delay(self._failures)

    def failed(self, started: float, now: float) -> None:
        """An attempt that began at `started` has failed. Attempts that ran side by side count as one."""
        if started < self._failed_at:
            return
        self._not_before = now + self._backoff.delay(self._failures)
        self._failed_at = now
        self._failures += 1

    def lost(self, now: float) -> None:
        """A connection that worked is gone; the next one waits a little, or a broker that hangs up is stormed."""
        self._not_before = max(self._not_before, now + self._backoff.delay(0))

    def succeeded(self) -> None:
        self._failures = 0
