"""ClientContext: what producer and consumers are built on, and get from their client as one thing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.client.connections.brokers import Brokers
    from ottla.client.metadata import Metadata
    from ottla.client.tasks import Tasks
    from ottla.config import ClientConfig
    from ottla.hooks import Hooks
    from ottla.runtime import Runtime


@dataclass(frozen=True, slots=True)
class ClientContext:
    """The services of a client below producing and consuming."""

    config: ClientConfig
    runtime: Runtime
    hooks: Hooks
    brokers: Brokers
    metadata: Metadata
    tasks: Tasks
