"""What goes on by itself in a node or the controller: loops that never end, and calls that a timer makes.

Invariant: none of them ends unheard. One that fails ends its owner, which is told what cannot go on: a node that
serves on without its heartbeats, its metadata or its retention would serve something else than it says.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

Fail = Callable[[str, Exception], None]
"""Told what cannot go on, and why."""


async def unending(work: Callable[[], Awaitable[None]], what: str, fail: Fail) -> None:
    """A loop, for a task."""
    try:
        await work()
    except Exception as error:  # noqa: BLE001 - whatever it is, the owner cannot do without
        fail(what, error)


def timed(work: Callable[[], None], what: str, fail: Fail) -> Callable[[], None]:
    """A call for a timer; the next one is part of `work`."""

    def call() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the owner cannot do without
            fail(what, error)

    return call


def reason(what: str, error: Exception) -> str:
    return f"{what}: {type(error).__name__}: {error}"
