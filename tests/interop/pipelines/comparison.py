"""What came out against what had to: rows that are lost, doubled, foreign or out of order, in words.

A wrong row is one that is lost and one that is foreign.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tests.interop.pipelines.example import Row

_SHOWN: Final = 5


def differences(
    expected: Mapping[str, Sequence[Row]], found: Mapping[str, Sequence[Row]], *, in_order: bool
) -> list[str]:
    """Nothing if both are the same; `found` has the rows of a key in their order."""
    assert expected.keys() == found.keys()
    return [
        difference
        for topic, rows in expected.items()
        for difference in _of_topic(topic, rows, found[topic], in_order=in_order)
    ]


def _of_topic(topic: str, expected: Sequence[Row], found: Sequence[Row], *, in_order: bool) -> Iterator[str]:
    due, come = Counter(expected), Counter(found)
    yield from _told(topic, "lost", due - come)
    more = come - due
    yield from _told(topic, "doubled", Counter({row: more[row] for row in more if row in due}))
    yield from _told(topic, "foreign", Counter({row: more[row] for row in more if row not in due}))
    if in_order and due == come:
        before, after = _by_key(expected), _by_key(found)
        yield from (f"{topic}: out of order: {key!r}" for key in before if before[key] != after[key])


def _told(topic: str, fault: str, rows: Counter[Row]) -> Iterator[str]:
    for row, times in rows.most_common(_SHOWN):
        yield f"{topic}: {fault}: {row} ({times} times)"
    if len(rows) > _SHOWN:
        yield f"{topic}: {fault}: and {len(rows) - _SHOWN} more rows"


def _by_key(rows: Sequence[Row]) -> dict[bytes | None, list[bytes | None]]:
    values: dict[bytes | None, list[bytes | None]] = {}
    for row in rows:
        values.setdefault(row.key, []).append(row.value)
    return values
