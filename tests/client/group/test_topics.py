"""What a subscription means now, and which changes the group has to hear of."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ottla.client.consume.subscription import Subscription
from ottla.client.group.topics import SubscribedTopics
from ottla.client.metadata.view import BrokerView, ClusterView, PartitionView, TopicView
from ottla.client.topic_partition import TopicPartition

UNKNOWN_TOPIC = 3


def view(
    topics: Mapping[str, int], *, internal: tuple[str, ...] = (), gone: tuple[str, ...] = ()
) -> ClusterView:
    brokers = {node: BrokerView(node, "h", node, f"rack-{node}") for node in (1, 2)}
    return ClusterView(
        brokers=MappingProxyType(brokers),
        topics=MappingProxyType(
            {
                name: TopicView(
                    name,
                    internal=name in internal,
                    error_code=UNKNOWN_TOPIC if name in gone else 0,
                    partitions=tuple(PartitionView(index, 1, 0, (index % 2 + 1,)) for index in range(width)),
                )
                for name, width in topics.items()
            }
        ),
    )


class KnownMetadata:
    """Stands for the client's metadata: a view, and what is tracked."""

    def __init__(self, topics: Mapping[str, int], **options: Any) -> None:
        self.view = view(topics, **options)
        self.tracked: list[str] = []

    async def wait(self, until: Any) -> Any:
        return until(self.view)

    async def fresh(self, names: list[str] | None) -> ClusterView:
        return self.view

    def track(self, topic: str, create: bool) -> None:
        self.tracked.append(topic)

    def untrack(self, topic: str) -> None:
        self.tracked.remove(topic)


class Subscribed:
    def __init__(self, metadata: KnownMetadata, *what: Any, excludes_internal: bool = True) -> None:
        self.changes: list[str] = []
        self.subscription = Subscription.of(*what)
        self.topics = SubscribedTopics(
            metadata,  # type: ignore[arg-type]
            lambda: self.subscription,
            excludes_internal=excludes_internal,
            changed=self.changes.append,
        )


def test_names_are_those_given_and_those_that_match() -> None:
    async def main() -> None:
        metadata = KnownMetadata(
            {"orders-1": 1, "orders-2": 1, "other": 1, "orders-int": 1}, internal=("orders-int",)
        )
        pattern = re.compile("orders-.*")
        assert await Subscribed(metadata, "new", pattern).topics.names() == ("new", "orders-1", "orders-2")
        everything = Subscribed(metadata, pattern, excludes_internal=False)
        assert await everything.topics.names() == ("orders-1", "orders-2", "orders-int")

    asyncio.run(main())


def test_a_pattern_that_matches_others_now_is_a_change_once() -> None:
    async def main() -> None:
        member = Subscribed(KnownMetadata({"orders-1": 1}), re.compile("orders-.*"))
        member.topics.on_metadata(view({"orders-9": 1}))
        assert member.changes == []  # the group knows nothing yet
        await member.topics.names()
        for _ in range(2):
            member.topics.on_metadata(view({"orders-1": 1, "orders-2": 1, "other": 7}))
        assert len(member.changes) == 1
        member.topics.on_metadata(view({"orders-1": 1, "orders-2": 1}, gone=("orders-2",)))
        assert len(member.changes) == 2

    asyncio.run(main())


def test_the_leader_watches_the_widths_of_the_groups_topics_and_others_do_not() -> None:
    async def main() -> None:
        metadata = KnownMetadata({"orders": 2, "audit": 1})
        member = Subscribed(metadata, "orders")
        await member.topics.names()
        member.topics.on_metadata(view({"orders": 3, "audit": 1}))
        assert member.changes == []
        layouts = await member.topics.layouts(["orders", "audit", "missing"])
        assert {name: layout.partitions for name, layout in layouts.items()} == {"orders": 2, "audit": 1}
        assert layouts["orders"].racks_of(1) == {"rack-2"}
        assert metadata.tracked == ["orders", "audit", "missing"]
        member.topics.on_metadata(view({"orders": 2, "audit": 1, "else": 4}))
        assert member.changes == []
        for _ in range(2):
            member.topics.on_metadata(view({"orders": 2, "audit": 1, "missing": 4}))
        assert len(member.changes) == 1
        member.topics.stop_leading()
        assert metadata.tracked == []
        member.topics.on_metadata(view({"orders": 5}))
        assert len(member.changes) == 1

    asyncio.run(main())


def test_what_did_not_exist_when_the_member_came_is_new() -> None:
    async def main() -> None:
        member = Subscribed(KnownMetadata({"orders": 2}), "orders", "later")
        assert not member.topics.is_new(TopicPartition("later", 0))
        await member.topics.names()
        assert not member.topics.is_new(TopicPartition("orders", 1))
        assert member.topics.is_new(TopicPartition("orders", 2))
        assert member.topics.is_new(TopicPartition("later", 0))

    asyncio.run(main())
