"""A record as it was fetched, for tests of deserializers."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Fetched:
    topic: str = "orders"
    partition: int = 3
    offset: int = 17
    timestamp: int = 1_700_000_000_000
    headers: list[tuple[str, bytes | None]] = field(default_factory=lambda: [("trace", b"1"), ("flag", None)])
    key: bytes | None = b"the key"
    value: bytes | None = b"the value"
