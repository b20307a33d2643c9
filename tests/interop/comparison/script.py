"""The words a script is written in: steps, each a request at one version or some bytes as they are.

A script is data. Who plays it is `play`; what it asks stands in the modules under `steps`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ottla.wire import Message
from tests.interop.comparison.world import World

Build = Callable[[World], Message]


@dataclass(frozen=True)
class Step:
    """One request and what becomes of its answer."""

    label: str
    version: int
    build: Build
    until: Callable[[Any], bool] | None = None
    """Asked again until this holds: for what a broker does in its own time. The last answer counts."""
    remember: Callable[[World, Any], None] | None = None
    within: float = 10.0
    """Seconds to wait for the answer."""
    answered: bool = True
    """Whether the protocol has an answer at all: a produce request with acks=0 gets none."""

    @property
    def name(self) -> str:
        return f"{self.label} v{self.version}"


@dataclass(frozen=True)
class Raw:
    """Bytes on a connection of their own."""

    name: str
    data: bytes
    reads: tuple[str, int] | None = None
    """The API and the version of an answer, where one is possible."""


Steps = Iterable[Step | Raw]


@dataclass(frozen=True)
class Section:
    """Steps about one subject, in order, on one connection, with topics that no other section uses."""

    name: str
    steps: tuple[Step | Raw, ...]


def section(name: str, *parts: Steps) -> Section:
    return Section(name, tuple(step for part in parts for step in part))


def ask(
    label: str,
    build: Build,
    *versions: int,
    until: Callable[[Any], bool] | None = None,
    remember: Callable[[World, Any], None] | None = None,
    within: float = 10.0,
    answered: bool = True,
) -> list[Step]:
    """The same request at each of the versions."""
    return [Step(label, version, build, until, remember, within, answered) for version in versions]


def remembering(key: str, field: str) -> Callable[[World, Any], None]:
    """Keep a field of the answer under a name, for later requests."""

    def remember(world: World, answer: Any) -> None:
        world.values[key] = getattr(answer, field)

    return remember
