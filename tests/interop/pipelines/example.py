"""What a test knows of an example: its topics, what goes in portion by portion, and what has to come out.

The last is computed here in plain Python, from what goes in. Nothing here knows Spark, or talks to a broker.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")
Portion: TypeAlias = "tuple[Sequence[Feed], ...]"
"""What is sent at a time, in parts: the brokers have all of one before the next is sent."""
PORTIONS: Final = 4
"""Before the first start; as the first run is to end; while none runs; into the second run."""


class Row(NamedTuple):
    """Of a record what an example says: key and value, as bytes."""

    key: bytes | None
    value: bytes | None


class Feed(NamedTuple):
    """A record that goes in."""

    topic: str
    row: Row


@dataclass(frozen=True, kw_only=True)
class Example:
    """One folder of examples/."""

    name: str
    topics: Mapping[str, int]
    """How many partitions each has."""
    portions: tuple[Portion, ...]
    expected: Mapping[str, Sequence[Row]]
    """What is in each topic that it writes to; where `in_order`, the rows of a key in their order."""
    in_order: bool
    dead_letters: str | None = None
    """The topic of what cannot be read, and its rows are in `expected`."""

    def __post_init__(self) -> None:
        assert len(self.portions) == PORTIONS


def interleaved(chance: random.Random, *parts: Sequence[T]) -> Iterator[T]:
    """All of several sequences, each in its order."""
    waiting = [list(reversed(part)) for part in parts if part]
    while waiting:
        (chosen,) = chance.choices(waiting, [len(part) for part in waiting])
        yield chosen.pop()
        if not chosen:
            waiting.remove(chosen)
