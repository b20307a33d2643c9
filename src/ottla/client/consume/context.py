"""What the parts of one consumer share: what its client gives them, and the session as sources and lookups see it."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ottla.client.context import ClientContext

if TYPE_CHECKING:
    from ottla.client.consume.cursor import Cursor, FetchProblem
    from ottla.client.consume.offset_lookup import Lookup
    from ottla.client.topic_partition import TopicPartition
    from ottla.errors import KafkaError


@dataclass(frozen=True, slots=True)
class ConsumerContext(ClientContext):
    """What the client gives a consumer; `lane` is its number, and each has connections of its own."""

    lane: int = 0

    @classmethod
    def of(cls, client: ClientContext, lane: int) -> ConsumerContext:
        return cls(
            client.config, client.runtime, client.hooks, client.brokers, client.metadata, client.tasks, lane
        )

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


class PollWatch(Protocol):
    """What is notified when the program asks for records, and when it gets some, in the thread that reads."""

    is_waiting: bool
    """Whether the program waits for something to read."""

    def asks(self) -> bool:
        """The program asks for more; whether `passed` has to be awaited first."""

    def hands_out(self) -> None: ...

    async def passed(self) -> None: ...

    async def asked(self) -> None:
        """Both, for a reader on the loop."""
