"""What the tests want from a client, whichever it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

WITHIN_S = 60.0
"""How long any single wait may take."""


class Sent(NamedTuple):
    """A record, as it was sent and as it should come back."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = 1_700_000_000_000


class Outcome(NamedTuple):
    """What became of a stream of records: how many were sent, and the errors of those that failed."""

    sent: int
    errors: list[str]


class Peer(Protocol):
    """A client. Groups are never used: partitions are assigned by hand."""

    name: str
    writes_null_headers: bool

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Sent], *, codec: str = "none", partition: int = 0
    ) -> list[int]:
        """Send the records to a partition, acknowledged by all replicas; their offsets."""

    def stream(self, bootstrap: str, topic: str, partitions: int, more: Callable[[int], bool]) -> Outcome:
        """Send the numbers 0, 1, 2... round the partitions, idempotently, as long as `more(number)` holds."""

    def consume(
        self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0
    ) -> list[Sent]:
        """The next records of a partition."""

    def offset_at(self, bootstrap: str, topic: str, timestamp: int) -> int | None:
        """The offset of the first record of partition 0 that is not older; None where there is none."""

    def range_of(self, bootstrap: str, topic: str, partition: int = 0) -> tuple[int, int]:
        """The first offset of a partition and the one after its last."""
