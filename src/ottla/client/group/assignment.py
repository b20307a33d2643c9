"""GroupAssignment: the cursors of a member: the partitions that its group has given it, as leaders and topics change.

A partition is given with where it begins; None: nowhere, before the program seeks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from ottla.client.consume.assignment import Assignment
from ottla.client.consume.context import ConsumerContext
from ottla.client.consume.cursor import Cursor
from ottla.client.consume.offset_lookup import Goal, Lookup
from ottla.client.consume.offset_spec import EARLIEST, OffsetSpec, Start
from ottla.client.consume.session import Session
from ottla.client.consume.subscription import Subscription
from ottla.client.metadata import ClusterView, TopicView
from ottla.client.topic_partition import TopicPartition
from ottla.errors import KafkaError

NoOffset = Callable[[TopicPartition], KafkaError]


class GroupAssignment(Assignment):
    """Of one member; a MetadataListener."""

    def __init__(
        self,
        context: ConsumerContext,
        session: Session,
        subscription: Subscription,
        start: OffsetSpec,
        no_offset: NoOffset,
        now_ms: int,
    ) -> None:
        """`no_offset` makes the error for a partition that begins nowhere."""
        super().__init__(context, session, subscription, start, None, now_ms)
        self._starts: dict[TopicPartition, OffsetSpec | None] = {}
        self._no_offset = no_offset

    def give(self, starts: Mapping[TopicPartition, OffsetSpec | None], view: ClusterView) -> None:
        """Partitions that are read from now on; held, until they are released."""
        self._starts.update(starts)
        for tp in starts:
            self._session.hold(tp)
        self.on_metadata(view)

    def take(self, tp: TopicPartition) -> None:
        """A partition that is not read any more."""
        self._starts.pop(tp, None)
        self._session.remove(tp)

    def _relevant(self, view: ClusterView) -> Iterator[TopicView]:
        for name in dict.fromkeys(tp.topic for tp in self._starts):
            if name in view.topics:
                yield view.topics[name]

    def _indexes(self, topic: TopicView) -> list[int]:
        return sorted(
            tp.partition
            for tp in self._starts
            if tp.topic == topic.name and tp.partition < len(topic.partitions)
        )

    def _add(self, tp: TopicPartition, topic: TopicView, is_new: bool) -> None:
        super()._add(tp, topic, is_new)
        if self._starts[tp] is None:
            again = partial(self._no_offset, tp)
            self._session.fail(self._session.cursors[tp], again(), again=again)

    def _lookups(self, tp: TopicPartition, own: Start | None, is_new: bool) -> Iterator[Lookup]:
        start = self._starts[tp]
        if start is not None:
            yield Lookup(start, Goal.START)

    def _forget(self, name: str) -> None:
        super()._forget(name)
        # If it comes back it is another topic, in which no offset of this one means anything.
        self._starts.update({tp: EARLIEST for tp in self._starts if tp.topic == name})

    def cursor(self, tp: TopicPartition) -> Cursor | None:
        return self._session.cursors.get(tp)
