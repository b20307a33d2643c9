"""What admin calls have learned about topics in the last seconds, so that ten of them in a row send one request.

Only topics that are complete are kept: a call that waits for a topic to appear, or for a leader, always sends one.
No waiting and no clock; loop.py requests what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from ottla.client.metadata.merge import refresh_reasons
from ottla.client.metadata.view import ClusterView, TopicView


class TopicCache:
    """Topics by name, each with the time of its response; none is kept for longer than `keep` seconds."""

    def __init__(self, keep: float) -> None:
        self._keep = keep
        self._topics: dict[str, tuple[TopicView, float]] = {}
        self._received_at = -inf
        self._all_at = -inf

    @property
    def topics(self) -> dict[str, TopicView]:
        return {name: topic for name, (topic, _) in self._topics.items()}

    def put(self, view: ClusterView, requested: Iterable[str] | None, now: float) -> None:
        """The topics that a response is about, None if it was about all; those with an error are forgotten."""
        self._topics = {name: kept for name, kept in self._topics.items() if now - kept[1] < self._keep}
        self._received_at = now
        if requested is None:
            self._topics.clear()
            self._all_at = now
        for name in view.topics if requested is None else requested:
            if view.topics[name].error_code or any(refresh_reasons(view, [name])):
                self.forget(name)
            else:
                self._topics[name] = (view.topics[name], now)

    def get(self, names: Sequence[str] | None, max_age: float, now: float) -> dict[str, TopicView] | None:
        """The topics, None for all of them; None if one of them is not known, or is `max_age` old.

        No names at all are for a call that needs the brokers only: a response about anything is enough.
        """
        if names is None:
            return self.topics if now - self._all_at < max_age else None
        if now - self._received_at >= max_age:
            return None
        found = {name: self._topics[name] for name in names if name in self._topics}
        if len(found) < len(names) or any(now - at >= max_age for _, at in found.values()):
            return None
        return {name: topic for name, (topic, _) in found.items()}

    def forget(self, name: str) -> None:
        self._topics.pop(name, None)
        self._all_at = -inf
