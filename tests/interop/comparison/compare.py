"""Where two brokers' answers differ, and whether that was known.

A difference has a place: the step, and the path to the field within its outcome. `unexplained` and `stale` hold the
found differences against the table in `differences`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from tests.interop.comparison.differences import Difference
from tests.interop.comparison.normal import Plain

ABSENT = "(absent)"
"""What stands for a field, or a step, that one side does not have."""


@dataclass(frozen=True)
class Found:
    """One field that is not the same on both sides."""

    step: str
    path: str
    kafka: Plain
    ottla: Plain

    def __str__(self) -> str:
        return f"{self.step}\n    {self.path}\n    Apache Kafka: {self.kafka!r}\n    Ottla:        {self.ottla!r}"


def differing(kafka: Mapping[str, Plain], ottla: Mapping[str, Plain]) -> list[Found]:
    """All fields that differ, of all steps of either side."""
    return [
        Found(step, *found)
        for step in dict.fromkeys([*kafka, *ottla])
        for found in _fields("", kafka.get(step, ABSENT), ottla.get(step, ABSENT))
    ]


def unexplained(found: Iterable[Found], table: Iterable[Difference]) -> list[Found]:
    known = list(table)
    return [each for each in found if not any(explains(entry, each) for entry in known)]


def stale(found: Iterable[Found], table: Iterable[Difference]) -> list[Difference]:
    """Entries of the table that nothing shows any more, with just those of their paths."""
    seen = list(found)
    return [
        replace(entry, paths=gone)
        for entry in table
        if (gone := tuple(p for p in entry.paths if not any(_matches(entry.steps, p, each) for each in seen)))
    ]


def explains(entry: Difference, found: Found) -> bool:
    return any(_matches(entry.steps, path, found) for path in entry.paths)


def _matches(steps: str, path: str, found: Found) -> bool:
    return fnmatchcase(found.step, steps) and fnmatchcase(found.path, path)


def _fields(path: str, kafka: Plain, ottla: Plain) -> Iterator[tuple[str, Plain, Plain]]:
    if isinstance(kafka, dict) and isinstance(ottla, dict):
        for key in dict.fromkeys([*kafka, *ottla]):
            below = f"{path}/{key}" if path else key
            yield from _fields(below, kafka.get(key, ABSENT), ottla.get(key, ABSENT))
    elif isinstance(kafka, list) and isinstance(ottla, list) and len(kafka) == len(ottla):
        for index, (left, right) in enumerate(zip(kafka, ottla, strict=True)):
            yield from _fields(f"{path}/{index}" if path else str(index), left, right)
    elif kafka != ottla:
        yield path, kafka, ottla
