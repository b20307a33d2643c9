"""SubscribedTopics: what a subscription means in this cluster now, and when a change of that has to go to the group.

Every member watches which topics its own patterns match. The leader of a classic group also watches how many
partitions the topics of all members have, since it alone has assigned them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ottla.assignors import TopicLayout
from ottla.client.consume.subscription import Subscription
from ottla.client.metadata import ClusterView, Metadata
from ottla.client.topic_partition import TopicPartition
from ottla.wire import ZERO_UUID


class SubscribedTopics:
    """Of one member; a MetadataListener."""

    def __init__(
        self,
        metadata: Metadata,
        subscription: Callable[[], Subscription],
        *,
        excludes_internal: bool,
        changed: Callable[[str], None],
    ) -> None:
        """`subscription()` is what it is now; `changed(why)`: the group has to hear of it."""
        self._metadata = metadata
        self._subscription = subscription
        self._excludes_internal = excludes_internal
        self._changed = changed
        self._told: tuple[str, ...] | None = None
        """The topics that the group knows of."""
        self._widths: dict[str, int] | None = None
        """How many partitions the topics had that this member has assigned, as the leader."""
        self._first_widths: dict[str, int] | None = None
        self._tracked: tuple[str, ...] = ()

    # Own topics

    @property
    def server_pattern(self) -> str | None:
        """What the coordinator resolves itself."""
        pattern = self._subscription().server_pattern
        return None if pattern is None else pattern.pattern

    async def names(self) -> tuple[str, ...]:
        """The topics of the subscription, for a request that tells the group."""
        view = await self._metadata.wait(lambda view: view if view.brokers else None)
        if self._subscription().needs_all_topics:
            view = await self._metadata.fresh(None)
        if self._first_widths is None:
            self._first_widths = {name: len(topic.partitions) for name, topic in view.topics.items()}
        self._told = self._names(view)
        return self._told

    def _names(self, view: ClusterView) -> tuple[str, ...]:
        subscription = self._subscription()
        named = dict.fromkeys(subscription.topics)
        for topic in view.topics.values():
            internal = topic.internal and self._excludes_internal
            if not topic.error_code and subscription.matches(topic.name, internal, topic.topic_id):
                named[topic.name] = None
        return tuple(sorted(named))

    def is_new(self, tp: TopicPartition) -> bool:
        """Whether it did not exist when the member came into the group: then it is read from its beginning."""
        return self._first_widths is not None and tp.partition >= self._first_widths.get(tp.topic, 0)

    def is_purged(self, name: str) -> bool:
        """Whether the program wants nothing of it: the group may not have heard of that yet."""
        topic = self._metadata.view.topics.get(name)
        return self._subscription().is_purged(name, ZERO_UUID if topic is None else topic.topic_id)

    def purged(self, names: Iterable[str]) -> None:
        """If they come back, they are new."""
        for name in names:
            if self._first_widths is not None:
                self._first_widths.pop(name, None)

    # Those of the group

    async def layouts(self, topics: Iterable[str]) -> dict[str, TopicLayout]:
        """What the leader assigns: the topics of all members that exist. From now on they are watched."""
        names = tuple(dict.fromkeys(topics))
        self._track(names)
        view = await self._metadata.fresh(list(names))
        self._widths = _widths(view, names)
        return {name: TopicLayout(width, _racks(view, name)) for name, width in self._widths.items()}

    def stop_leading(self) -> None:
        self._widths = None
        self._track(())

    def _track(self, names: tuple[str, ...]) -> None:
        before, self._tracked = self._tracked, names
        for name in names:
            self._metadata.track(name, create=False)
        for name in before:
            self._metadata.untrack(name)

    def on_metadata(self, view: ClusterView) -> Iterable[str]:
        if (
            self._told is not None
            and self._subscription().patterns
            and (now := self._names(view)) != self._told
        ):
            new, gone = sorted(set(now) - set(self._told)), sorted(set(self._told) - set(now))
            self._told = now
            self._changed(f"topics that match have come: {new}, or are gone: {gone}")
        elif self._widths is not None and (widths := _widths(view, self._tracked)) != self._widths:
            self._widths = widths
            self._changed("partitions of the group's topics have changed")
        return ()


def _widths(view: ClusterView, names: Iterable[str]) -> dict[str, int]:
    found = ((name, view.topics.get(name)) for name in names)
    return {
        name: len(topic.partitions) for name, topic in found if topic is not None and not topic.error_code
    }


def _racks(view: ClusterView, name: str) -> list[frozenset[str]]:
    brokers: Mapping[int, str | None] = {node: broker.rack for node, broker in view.brokers.items()}
    if not any(brokers.values()):
        return []
    return [
        frozenset(rack for replica in partition.replicas if (rack := brokers.get(replica)))
        for partition in view.topics[name].partitions
    ]
