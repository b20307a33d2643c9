"""How values are distributed, in a few dozen counters: what is made of a Histogram, which counts natively.

Each power of two is divided into sixteen buckets, so that a quantile is off by three per cent at most, whatever the
unit and the range. A histogram only ever grows. A reader takes a `Distribution`, and the difference of two of them
is what came in between: no reader disturbs another, and recording needs no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ldexp
from typing import Final

from ottla._native.counters import Histogram

_PER_OCTAVE: Final = 16
_ZERO: Final = -(1 << 20)
"""The bucket of zero: below that of the smallest float."""


def distribution(histogram: Histogram) -> Distribution:
    """What it has counted until now."""
    # One call that no other thread can interrupt: a scrape may run beside the loop.
    buckets = histogram.buckets.copy()
    return Distribution(sum(buckets.values()), histogram.sum, histogram.max, buckets)


@dataclass(frozen=True, slots=True)
class Distribution:
    """Values as they were at one moment: how many, their sum, the largest, and any quantile."""

    count: int = 0
    sum: float = 0.0
    max: float = 0.0
    buckets: Mapping[int, int] = field(default_factory=dict, repr=False)

    @property
    def avg(self) -> float:
        return self.sum / self.count if self.count else 0.0

    @property
    def p50(self) -> float:
        return self.quantile(0.5)

    @property
    def p99(self) -> float:
        return self.quantile(0.99)

    def quantile(self, share: float) -> float:
        """The value that this share of all values does not exceed; 0 without values.

        >>> histogram = Histogram()
        >>> for value in (1.0, 2.0, 10.0):
        ...     histogram.record(value)
        >>> distribution(histogram).quantile(1.0)
        10.0
        """
        rank = share * self.count
        seen = 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= rank:
                return min(_middle(bucket), self.max)
        return self.max

    def at_most(self, bound: float) -> int:
        """How many values were not above `bound`, up to the width of a bucket."""
        return sum(count for bucket, count in self.buckets.items() if _middle(bucket) <= bound)

    def since(self, earlier: Distribution) -> Distribution:
        """The values that came after `earlier`, an older distribution of the same histogram."""
        buckets = {
            bucket: count - before
            for bucket, count in self.buckets.items()
            if count > (before := earlier.buckets.get(bucket, 0))
        }
        if self.max > earlier.max:
            largest = self.max
        else:
            # The largest of them is only known by its bucket.
            largest = min(_middle(max(buckets)), self.max) if buckets else 0.0
        return Distribution(self.count - earlier.count, max(self.sum - earlier.sum, 0.0), largest, buckets)


def merged(parts: Iterable[Distribution]) -> Distribution:
    """The values of several histograms as if one had counted them."""
    count, total, largest = 0, 0.0, 0.0
    buckets: dict[int, int] = {}
    for part in parts:
        count, total, largest = count + part.count, total + part.sum, max(largest, part.max)
        for bucket, number in part.buckets.items():
            buckets[bucket] = buckets.get(bucket, 0) + number
    return Distribution(count, total, largest, buckets)


def _middle(bucket: int) -> float:
    if bucket == _ZERO:
        return 0.0
    exponent, step = divmod(bucket, _PER_OCTAVE)
    return ldexp((step + 16.5) / 32, exponent)
