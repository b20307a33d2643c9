"""Where the outcomes of a case differ, and whether that was known.

A difference that no entry of the table explains is a failure, and so is an entry that a case it names shows no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.interop.spark.differences import Difference
from tests.interop.spark.outcome import Plain

ABSENT = "(absent)"
"""What stands for what one side does not have."""


@dataclass(frozen=True)
class Found:
    """One place in an outcome that is not the same for both connectors."""

    path: str
    jvm: Plain
    ottla: Plain

    def __str__(self) -> str:
        return f"{self.path or '(all)'}\n    JVM:   {self.jvm!r}\n    Ottla: {self.ottla!r}"


def differing(jvm: Plain, ottla: Plain, path: str = "") -> Iterator[Found]:
    if isinstance(jvm, dict) and isinstance(ottla, dict):
        for key in dict.fromkeys([*jvm, *ottla]):
            yield from differing(jvm.get(key, ABSENT), ottla.get(key, ABSENT), _below(path, key))
    elif isinstance(jvm, list) and isinstance(ottla, list) and len(jvm) == len(ottla):
        for index, (left, right) in enumerate(zip(jvm, ottla, strict=True)):
            yield from differing(left, right, _below(path, str(index)))
    elif jvm != ottla:
        yield Found(path, jvm, ottla)


def unexplained(found: Iterable[Found], entries: Iterable[Difference]) -> list[Found]:
    known = list(entries)
    return [each for each in found if not any(_explains(entry, each) for entry in known)]


def stale(found: Iterable[Found], entries: Iterable[Difference]) -> list[Difference]:
    seen = list(found)
    return [entry for entry in entries if not any(_explains(entry, each) for each in seen)]


def _explains(entry: Difference, found: Found) -> bool:
    return fnmatchcase(found.path, entry.path)


def _below(path: str, key: str) -> str:
    return f"{path}/{key}" if path else key
