"""A Metadata over the lower parts of a client, and a log of what it writes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.client.metadata import ClusterView, Metadata, TopicView
from ottla.wire.messages import MetadataRequest
from tests.client.worlds import Parts, World


class Written:
    """A hook: every request that left, as (node id, API key), and every end of an update."""

    def __init__(self) -> None:
        self.requests: list[tuple[int, int]] = []
        self.updates: list[BaseException | None] = []

    def on_broker_write(self, node_id: int, api_key: int, size: int, error: BaseException | None) -> None:
        self.requests.append((node_id, api_key))

    def on_metadata(self, view: ClusterView, seconds: float, error: BaseException | None) -> None:
        assert seconds >= 0
        self.updates.append(error)

    @property
    def count(self) -> int:
        """How many requests for metadata left."""
        return len(self.asked)

    @property
    def asked(self) -> list[int]:
        """The nodes that were asked for metadata, in order."""
        return [node for node, api_key in self.requests if api_key == MetadataRequest.API_KEY]


class Listener:
    """Remembers the views, and has reasons for more."""

    def __init__(self, *reasons: str) -> None:
        self.views: list[ClusterView] = []
        self.reasons = reasons

    def on_metadata(self, view: ClusterView) -> Iterable[str]:
        self.views.append(view)
        return self.reasons


class Started:
    """What a test needs at hand."""

    def __init__(self, metadata: Metadata, written: Written, parts: Parts) -> None:
        self.metadata = metadata
        self.written = written
        self.brokers = parts.brokers
        self.tasks = parts.tasks

    async def topic(self, name: str = "orders") -> TopicView:
        """The topic, once it is there without an error."""
        return await self.metadata.wait(there(name), 30)

    async def update(self) -> ClusterView:
        """Asks, and waits for the next view."""
        before = self.metadata.view
        self.metadata.refresh_now("a test wants it")
        return await self.metadata.wait(lambda view: None if view is before else view, 30)


def there(name: str) -> Callable[[ClusterView], TopicView | None]:
    def find(view: ClusterView) -> TopicView | None:
        topic = view.topics.get(name)
        return None if topic is None or topic.error_code or not topic.partitions else topic

    return find


@asynccontextmanager
async def started(world: World, cluster: AsyncCluster | str, **options: Any) -> AsyncIterator[Started]:
    """Metadata that runs; nothing is tracked."""
    written = Written()
    parts = world.parts(cluster, written, **options)
    metadata = Metadata(parts.config, parts.runtime, parts.hooks, parts.brokers, parts.tasks)
    metadata.start()
    try:
        yield Started(metadata, written, parts)
    finally:
        await metadata.close()
