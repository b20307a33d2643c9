"""Where the embedded cluster answers otherwise than Apache Kafka does, and why: the whole list.

docs/fidelity.md shows the same table to people; a test keeps the two together. An entry that explains nothing any
more fails as well as a difference that no entry explains.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """Steps and fields, both as patterns of `fnmatch`, with what is different about them."""

    steps: str
    path: str
    difference: str
    reason: str


DIFFERENCES: tuple[Difference, ...] = ()
