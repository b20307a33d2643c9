"""When to forget a topic that nothing is produced to (metadata_max_idle_ms), so that metadata need not ask for it.

One timer for all topics, set to when the first of them could be idle for long enough; nothing is done per record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.client.produce.topic import TopicProducer
from ottla.runtime import Clock, Timer


class IdleTopics:
    """Calls `forget(topic)` for topics that are asked for, and have been idle for `most` seconds.

    Where that is False, because something came in that moment, the topic counts as used now.
    """

    def __init__(
        self,
        clock: Clock,
        most: float,
        topics: Mapping[str, TopicProducer],
        forget: Callable[[TopicProducer], bool],
    ) -> None:
        self._clock = clock
        self._most = most
        self._topics = topics
        self._forget = forget
        self._timer: Timer | None = None

    def watch(self) -> None:
        """There is one more topic."""
        if self._timer is None:
            self._timer = self._clock.call_later(self._most, self._look)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        next_look = None
        for topic in list(self._topics.values()):
            if not topic.is_asked_for:
                continue
            idle_at = now + self._most if topic.is_busy else topic.used_at + self._most
            if idle_at <= now:
                if self._forget(topic):
                    continue
                idle_at = now + self._most
            if next_look is None or idle_at < next_look:
                next_look = idle_at
        if next_look is not None:
            self._timer = self._clock.call_later(next_look - now, self._look)
