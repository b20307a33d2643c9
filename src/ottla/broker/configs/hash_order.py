"""The order in which Kafka comes across the names of a request: that of a Java hash table.

An answer tells one mistake, the first that Kafka meets, or lists names in the order in which it meets them. Both
follow from the hashes of the names, so they are the same every time: clients show them, and tests compare them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_BUCKETS: Final = 16
"""Of a table that holds little; it doubles as often as it gets three quarters full."""


def hash_order(names: Iterable[str]) -> list[str]:
    """The names as a java.util.HashMap that got them in this order gives them back.

    >>> hash_order(["metrics", "interval.ms"])
    ['interval.ms', 'metrics']
    """
    held = list(dict.fromkeys(names))
    buckets = _BUCKETS
    while len(held) > buckets * 3 // 4:
        buckets *= 2
    # Names that share a bucket stay in the order in which they came.
    return sorted(held, key=lambda name: _spread(name) & (buckets - 1))


def _spread(name: str) -> int:
    """String.hashCode, its upper half mixed into the lower one, which alone picks the bucket."""
    code = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        code = (31 * code + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return code ^ code >> 16
