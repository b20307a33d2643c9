"""Which topics the producer and the consumers need, and the queries that follow from it. No waiting and no clock.

Topics are counted: two consumers and the producer may track the same one. `create` says that a topic may be created
by a request for it, which brokers do for whole requests only; so where some topics may be created and others
must not, there are two queries.

Invariant: a topic that none of them allowed to be created is never in a query that allows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.metadata.view import ClusterView
from ottla.errors import InvalidTopicError
from ottla.wire.messages import MetadataRequest

_CREATION_CHOSEN_SINCE: Final = 4
"""Before, every request allowed it, and the field could not be written."""

_LONGEST_NAME: Final = 249


def check_name(topic: str) -> None:
    """An InvalidTopicError for what cannot be the name of a topic and cannot be requested either.

    One such name would keep the whole request, and with it all other topics, from being sent. What brokers can refuse
    by themselves is theirs to refuse.
    """
    if not isinstance(topic, str):
        raise TypeError(f"topic must be a str, not {type(topic).__name__}")
    try:
        size = len(topic.encode())
    except UnicodeEncodeError:
        raise InvalidTopicError(f"{topic!r} is no text that UTF-8 can express") from None
    if size > _LONGEST_NAME:
        raise InvalidTopicError(
            f"a name of {size} bytes, {topic[:20]!r}..., is longer than {_LONGEST_NAME} bytes"
        )


@dataclass(frozen=True, slots=True)
class TopicsQuery:
    """One Metadata request: topics by name, None for all of them."""

    topics: tuple[str, ...] | None
    create: bool = False

    def request(self, version: int) -> MetadataRequest:
        topics = None
        if self.topics is not None:
            topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in self.topics]
        create = self.create or version < _CREATION_CHOSEN_SINCE
        return MetadataRequest(topics=topics, allow_auto_topic_creation=create)


@dataclass(slots=True)
class _Tracked:
    count: int
    create: bool


class TrackedTopics:
    """The topics that are requested, with how many need each; under `all`, every topic of the cluster."""

    def __init__(self) -> None:
        self._topics: dict[str, _Tracked] = {}
        self._all = 0

    def __contains__(self, topic: object) -> bool:
        return self._all > 0 or topic in self._topics

    @property
    def names(self) -> Iterable[str]:
        """Those tracked by name."""
        return self._topics.keys()

    @property
    def all(self) -> bool:
        return self._all > 0

    def track(self, topic: str, create: bool) -> None:
        tracked = self._topics.setdefault(topic, _Tracked(0, create=False))
        tracked.count += 1
        # Which of them allowed it is not kept: it stays allowed until the last one has gone.
        tracked.create = tracked.create or create

    def untrack(self, topic: str) -> bool:
        """Whether that was the last one to need it."""
        tracked = self._topics.get(topic)
        if tracked is None:
            raise ValueError(f"topic {topic!r} is not tracked")
        tracked.count -= 1
        if tracked.count == 0:
            del self._topics[topic]
        return tracked.count == 0

    def track_all(self) -> None:
        self._all += 1

    def untrack_all(self) -> bool:
        """Whether that was the last one to need all."""
        if self._all == 0:
            raise ValueError("not all topics are tracked")
        self._all -= 1
        return self._all == 0

    def queries(self, view: ClusterView) -> Sequence[TopicsQuery]:
        """What to request now; with nothing tracked, one query for no topics: the response to it has the brokers."""
        creatable = tuple(name for name, tracked in self._topics.items() if tracked.create)
        if all(_exists(view, name) for name in creatable):
            return [TopicsQuery(None if self._all else tuple(self._topics))]
        creating = TopicsQuery(creatable, create=True)
        if self._all:
            return [TopicsQuery(None), creating]
        others = tuple(name for name, tracked in self._topics.items() if not tracked.create)
        return [creating, TopicsQuery(others)] if others else [creating]


def _exists(view: ClusterView, name: str) -> bool:
    topic = view.topics.get(name)
    return topic is not None and topic.error_code == 0
