"""Requests and administration of a test's client, without the rest of the client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.client.admin import AsyncAdmin
from ottla.client.connections.brokers import Brokers
from ottla.client.home_loop import HomeLoop
from ottla.client.metadata import Metadata
from ottla.client.requests.requests import Requests
from ottla.wire import Message
from tests.client.worlds import World

_R = TypeVar("_R", bound=Message)


@dataclass(frozen=True)
class Requester:
    """What sends requests, and what it sends them with."""

    requests: Requests
    admin: AsyncAdmin
    metadata: Metadata
    brokers: Brokers

    async def send(self, request: Message, expected: type[_R], **options: Any) -> _R:
        response = await self.requests.send(request, **options)
        assert isinstance(response, expected)
        return response


def requester(world: World, cluster: AsyncCluster | str, **options: Any) -> Requester:
    parts = world.parts(cluster, **options)
    metadata = Metadata(parts.config, parts.runtime, parts.hooks, parts.brokers, parts.tasks)
    metadata.start()
    requests = Requests(parts.config, parts.runtime, parts.brokers, metadata)
    admin = AsyncAdmin(HomeLoop(), requests, metadata, parts.config, parts.runtime)
    return Requester(requests, admin, metadata, parts.brokers)
