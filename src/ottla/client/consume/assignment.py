"""Assignment: which partitions a consumer reads, as metadata goes along: topics, partitions and leaders change.

Decisions that are ours, because Kafka leaves them open:

- start="latest" means: what is written after the consumer began. So a partition that did not exist then is read
  from its beginning, whether its topic grew, was created or began to match a pattern.
- A topic that vanishes keeps its cursors, without a leader, so that a broker with old metadata does no harm. If it
  stays away, a consumer that named it raises an UnknownTopicOrPartitionError; for a pattern it is simply gone.
- A topic that comes back with another id is another topic. Old offsets mean nothing in it: each partition is read
  from its beginning, or with auto_offset_reset="none" not at all before a seek, or with a `stop`, which was one of
  the old topic, not at all; and the reader gets a DataLossError.

Invariant: every cursor of the session belongs to a topic that this file has seen, with the id it had then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from ottla.client.consume.context import ConsumerContext
from ottla.client.consume.cursor import NO_LEADER, UNKNOWN, Cursor, State
from ottla.client.consume.errors import another_topic
from ottla.client.consume.offset_lookup import Goal, Lookup
from ottla.client.consume.offset_spec import EARLIEST, LATEST, OffsetSpec, Start, start_spec
from ottla.client.consume.session import Session
from ottla.client.consume.subscription import Subscription
from ottla.client.metadata import ClusterView, TopicView
from ottla.client.metadata.refresh_policy import UNKNOWN_RESPONSES
from ottla.client.topic_partition import TopicPartition
from ottla.errors import (
    NoSuchPartitionError,
    UnknownTopicOrPartitionError,
    error_for,
    from_code,
)
from ottla.wire import ZERO_UUID, Uuid

_logger = logging.getLogger("ottla.client.consume.consumer")

_GONE: Final = UnknownTopicOrPartitionError.code
CONFIRMED_AFTER: Final = 1.5
"""Seconds until a topic that metadata calls unknown is taken for deleted: some quick looks later."""


class Assignment:
    """Of one consumer; a MetadataListener."""

    def __init__(
        self,
        context: ConsumerContext,
        session: Session,
        subscription: Subscription,
        start: OffsetSpec,
        stop: OffsetSpec | Mapping[TopicPartition, OffsetSpec] | None,
        now_ms: int,
    ) -> None:
        self.subscription = subscription
        self._config = context.config
        self._clock = context.runtime.clock
        self._session = session
        self._start = start
        self._stop = stop
        self._now_ms = now_ms
        self._ids: dict[str, Uuid] = {}
        """The topics that are read, with the ids they have."""
        self._absent: dict[str, None] = {}
        """Topics that were seen not to exist, so that they are new when they do."""
        self._gone_since: dict[str, float] = {}
        self._raised: dict[str, int] = {}
        """The error code of a topic that the reader has got, or will get."""
        self._waits_for: dict[str, None] = {}
        """Topics that the log says are waited for."""
        self.is_settled = False
        """Everything that was subscribed to has been seen: what comes now is new."""

    def on_metadata(self, view: ClusterView) -> list[str]:
        """Why metadata should be refreshed soon."""
        reasons: list[str] = []
        for topic in self._relevant(view):
            reasons += self._on_topic(topic)
        for name in [each for each in self._ids if each not in view.topics]:
            reasons += self._on_topic_missing(name)
        self._session.leaders_changed()
        return reasons

    def missing(self, view: ClusterView) -> TopicPartition | str | None:
        """The first topic or partition that was named and is not in the view."""
        for name in self.subscription.named:
            topic = view.topics.get(name)
            if topic is None or topic.error_code:
                return name
            for index in self.subscription.chosen(name):
                if index >= len(topic.partitions):
                    return TopicPartition(name, index)
        return None

    def unknown(self, view: ClusterView) -> Iterator[TopicView]:
        """The topics that were named and that a broker does not know."""
        for name in self.subscription.named:
            topic = view.topics.get(name)
            if topic is not None and topic.error_code == _GONE:
                yield topic

    def does_not_exist(self, name: str) -> None:
        """Brokers say so again and again: an error with a `stop`, otherwise the consumer waits for it."""
        if self._stop is not None:
            raise UnknownTopicOrPartitionError(topic=name, detail="Create it, or check the name.")
        if name not in self._waits_for:
            self._waits_for[name] = None
            _logger.warning(
                "topic %s does not exist: the consumer waits for it. Create it, or check the name", name
            )

    def warn_of_patterns(self, view: ClusterView) -> None:
        """Those that match nothing: topics may come that do."""
        for pattern in self.subscription.patterns:
            one = Subscription(patterns=(pattern,))
            if any(one.matches(topic.name, topic.internal, topic.topic_id) for topic in view.topics.values()):
                continue
            then = "nothing is read for it" if self._stop is not None else "the consumer waits for one"
            _logger.warning("no topic matches %r: %s", pattern.pattern, then)

    def settle(self) -> None:
        self.is_settled = True
        self._session.is_bounded = self._stop is not None or self.subscription.is_empty
        self._session.check_complete()

    def purge(self, topics: Iterable[str], view: ClusterView) -> dict[str, Uuid]:
        """Topics that are not read any more: those of them that were, or could have been, with their ids.

        Their cursors stay, for the caller to remove.
        """
        purged: dict[str, Uuid] = {}
        for name in topics:
            seen = view.topics.get(name)
            topic_id = seen.topic_id if seen is not None else self._ids.get(name)
            if name in self.subscription.named:
                # Without a pattern that it matches, it does not come back.
                has_pattern = self.subscription.has_pattern_for(name)
                purged[name] = topic_id if has_pattern and topic_id is not None else ZERO_UUID
            elif topic_id is not None and self.subscription.matches(name, internal=False, topic_id=topic_id):
                purged[name] = topic_id
        self.subscription = self.subscription.without(purged)
        for name in purged:
            for known in (self._ids, self._absent, self._gone_since, self._raised, self._waits_for):
                known.pop(name, None)
        return purged

    def settle_again(self) -> None:
        """Less is subscribed to: what is left may be nothing."""
        if self.is_settled:
            self.settle()

    def _relevant(self, view: ClusterView) -> Iterator[TopicView]:
        chosen = {partition.topic for partition in self.subscription.partitions}
        for topic in view.topics.values():
            if topic.name in chosen or self.subscription.matches(topic.name, topic.internal, topic.topic_id):
                yield topic

    def _on_topic(self, topic: TopicView) -> list[str]:
        if topic.error_code == _GONE:
            self._absent[topic.name] = None
            return self._on_topic_missing(topic.name)
        if topic.error_code:
            return self._on_topic_error(topic)
        self._gone_since.pop(topic.name, None)
        self._raised.pop(topic.name, None)
        known = self._ids.get(topic.name, ZERO_UUID)
        if known != ZERO_UUID and topic.topic_id not in (known, ZERO_UUID):
            self._on_topic_recreated(topic)
        self._update(topic)
        return [
            f"{topic.name}-{each.index} has no leader"
            for each in topic.partitions
            if not each.has_leader and TopicPartition(topic.name, each.index) in self._session.cursors
        ]

    # A topic that is there

    def _update(self, topic: TopicView) -> None:
        is_new = self.is_settled or topic.name in self._absent
        if self.is_settled and self._stop is not None and topic.name not in self._ids:
            return  # "the end as of the start" includes nothing that came later
        has_grown = topic.name in self._ids
        self._ids[topic.name] = topic.topic_id
        session = self._session
        for index in self._indexes(topic):
            tp = TopicPartition(topic.name, index)
            view = topic.partitions[index]
            cursor = session.cursors.get(tp)
            if cursor is None:
                if has_grown and self.is_settled and self._stop is not None:
                    continue
                self._add(tp, topic, is_new or has_grown)
            elif cursor.topic_id == ZERO_UUID:
                cursor.topic_id = topic.topic_id
            cursor = session.cursors[tp]
            if cursor.follow(view.leader, view.leader_epoch):
                session.route(cursor)

    def _indexes(self, topic: TopicView) -> list[int]:
        if self.subscription.matches(topic.name, topic.internal, topic.topic_id):
            return list(range(len(topic.partitions)))
        return [index for index in self.subscription.chosen(topic.name) if index < len(topic.partitions)]

    def _add(self, tp: TopicPartition, topic: TopicView, is_new: bool) -> None:
        own = self.subscription.partitions.get(tp)
        cursor = Cursor(tp, topic.topic_id)
        view = topic.partitions[tp.partition]
        cursor.follow(view.leader, view.leader_epoch)
        self._session.add(cursor, *self._lookups(tp, own, is_new))

    def _lookups(self, tp: TopicPartition, own: Start | None, is_new: bool) -> Iterator[Lookup]:
        stop = self._stop[tp] if isinstance(self._stop, Mapping) else self._stop
        if stop is not None:
            yield Lookup(stop, Goal.STOP)
        spec = self._start if own is None else start_spec(own, self._now_ms)
        yield Lookup(EARLIEST if is_new and spec == LATEST else spec, Goal.START)

    # A topic that is not, or is another

    def _on_topic_error(self, topic: TopicView) -> list[str]:
        """An error of the topic itself: a permission that is missing, a name that is none."""
        kind = error_for(topic.error_code)
        if kind is not None and kind.retriable:
            return [f"topic {topic.name}: {kind.__name__}"]
        if self._raised.get(topic.name) != topic.error_code:
            self._raised[topic.name] = topic.error_code
            error = from_code(topic.error_code, topic=topic.name)
            assert error is not None
            # Once the reader has raised it, metadata that still has it raises it again.
            self._session.raise_to_reader(error, on_taken=lambda: self._raised.update({topic.name: 0}))
        return []

    def _on_topic_missing(self, name: str) -> list[str]:
        if name not in self._ids:
            return []
        now = self._clock.monotonic()
        since = self._gone_since.setdefault(name, now)
        for tp in self._partitions(name):
            cursor = self._session.cursors[tp]
            if cursor.follow(NO_LEADER, UNKNOWN):
                self._session.route(cursor)
        if now - since < CONFIRMED_AFTER:
            return [f"topic {name} is not there any more"]
        if name in self.subscription.named:
            self._raise_deleted(name)
        else:
            _logger.info("topic %s is gone, and read no more", name)
            self._forget(name)
        return []

    def _raise_deleted(self, name: str) -> None:
        if self._stop is not None:
            for tp in self._partitions(name):
                self._session.cursors[tp].finish()
            self._session.check_complete()
        if self._raised.get(name) != _GONE:
            self._raised[name] = _GONE
            self._session.raise_to_reader(
                UnknownTopicOrPartitionError(topic=name, detail="The topic was deleted while it was read.")
            )

    def _forget(self, name: str) -> None:
        for tp in self._partitions(name):
            self._session.remove(tp)
        self._ids.pop(name, None)
        self._gone_since.pop(name, None)

    def _on_topic_recreated(self, topic: TopicView) -> None:
        session = self._session
        resets = self._config.auto_offset_reset != "none"
        if self._stop is not None:
            self._finish_recreated(topic)
            return
        for tp in self._partitions(topic.name):
            cursor = session.cursors[tp]
            old = cursor.offset
            cursor.become(topic.topic_id)
            if tp.partition >= len(topic.partitions):
                session.remove(tp)
                continue
            if not resets:
                again = partial(another_topic, tp, old, "auto_offset_reset is 'none': seek to go on")
                session.fail(cursor, again(), again=again)
                continue
            error = another_topic(tp, old, "it is read from its beginning", 0)
            _logger.warning("%s", error)
            session.raise_to_reader(error, cursor)
            session.reset_to(cursor, EARLIEST, "the topic was deleted and created again")

    def _finish_recreated(self, topic: TopicView) -> None:
        """What was to be read up to its end is gone, and nothing in the other topic has to do with that end."""
        for tp in self._partitions(topic.name):
            cursor = self._session.cursors[tp]
            old, was_read = cursor.offset, cursor.state is State.DONE
            cursor.become(topic.topic_id)
            cursor.finish()
            if not was_read:
                self._session.raise_to_reader(another_topic(tp, old, "it is not read"), cursor)
        self._session.check_complete()

    def _partitions(self, name: str) -> list[TopicPartition]:
        return [tp for tp in self._session.cursors if tp.topic == name]


class TopicSearch:
    """One wait for all that was subscribed by name; raises, or warns, when something certainly does not exist."""

    def __init__(self, assignment: Assignment, now: Callable[[], float]) -> None:
        self._assignment = assignment
        self._now = now
        self._since: float | None = None
        self._last: dict[str, TopicView] = {}
        self._responses: dict[str, int] = {}

    def look(self, view: ClusterView) -> bool | None:
        """A topic may be created yet; metadata that knows it knows its partitions, give or take a broker's lag."""
        if not view.brokers:
            return None
        self._count(view)
        missing = self._assignment.missing(view)
        if not isinstance(missing, TopicPartition):
            self._since = None
            return True if missing is None else None
        now = self._now()
        if self._since is None:
            self._since = now
        if now - self._since >= CONFIRMED_AFTER:
            count = len(view.topics[missing.topic].partitions)
            raise NoSuchPartitionError(topic=missing.topic, partition=missing.partition, partitions=count)
        return None

    def _count(self, view: ClusterView) -> None:
        for topic in self._assignment.unknown(view):
            if self._last.get(topic.name) is topic:
                continue  # a response about something else
            self._last[topic.name] = topic
            self._responses[topic.name] = self._responses.get(topic.name, 0) + 1
            if self._responses[topic.name] >= UNKNOWN_RESPONSES:
                self._assignment.does_not_exist(topic.name)
