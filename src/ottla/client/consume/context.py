"""What the parts of one consumer share: what its client gives them, and the session as sources and lookups see it."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ottla.client.connections.brokers import Brokers
    from ottla.client.consume.cursor import Cursor, FetchProblem
    from ottla.client.consume.offset_lookup import Lookup
    from ottla.client.metadata import Metadata
    from ottla.client.tasks import Tasks
    from ottla.client.topic_partition import TopicPartition
    from ottla.config import ClientConfig
    from ottla.errors import KafkaError
    from ottla.hooks import Hooks
    from ottla.runtime import Runtime


@dataclass(frozen=True, slots=True)
class ConsumerContext:
    """Of the client; `lane` numbers the consumers of a client, each with connections of its own."""

    config: ClientConfig
    runtime: Runtime
    hooks: Hooks
    brokers: Brokers
    metadata: Metadata
    tasks: Tasks
    lane: int = 0

    @property
    def is_committed(self) -> bool:
        """Whether only committed records are read."""
        return self.config.isolation_level == "read_committed"

    @property
    def isolation_level(self) -> int:
        """As requests have it."""
        return 1 if self.is_committed else 0


class CursorOwner(Protocol):
    """The session: it knows all cursors, and decides what becomes of one whose source or lookup cannot go on."""

    cursors: dict[TopicPartition, Cursor]
    is_bounded: bool

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None: ...
    def route(self, cursor: Cursor) -> None: ...
    def check_complete(self) -> None: ...
    def solve(self, cursor: Cursor, node_id: int, problem: FetchProblem) -> None: ...
    def retry_later(self, cursor: Cursor, error: KafkaError) -> None: ...
    def refused(self, cursor: Cursor, error: KafkaError) -> None: ...
    def found(self, cursor: Cursor, lookup: Lookup, offset: int) -> None: ...
