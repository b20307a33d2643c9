"""Which leaders are slow: those that records wait for, and that could not be sent to for too long (KIP-794).

Kafka's option is `partitioner.availability.timeout.ms`. What follows from it is the default partitioner's matter.
"""

from __future__ import annotations

__all__ = ["LeaderLatency"]


class LeaderLatency:
    """Per broker, how long something has been waiting for it in vain. Times are in seconds, from one clock."""

    def __init__(self, timeout: float) -> None:
        """A timeout of 0 turns it off: no leader is slow."""
        self._timeout = timeout
        self._sent: dict[int, float] = {}
        self._waiting: dict[int, float] = {}

    def on_ready(self, broker: int, now: float, *, sendable: bool) -> None:
        """Something waits for this broker, and it can be sent, or cannot: no connection, or too much in flight."""
        if sendable or broker not in self._sent:
            self._sent[broker] = now
        self._waiting[broker] = now

    def is_slow(self, broker: int) -> bool:
        """Measured up to the last `on_ready`: a broker for which nothing waits does not become slow."""
        if self._timeout <= 0 or broker not in self._sent:
            return False
        return self._waiting[broker] - self._sent[broker] > self._timeout

    def forget(self, broker: int) -> None:
        """It is no leader of ours any more."""
        self._sent.pop(broker, None)
        self._waiting.pop(broker, None)
