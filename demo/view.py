"""Where frames are shown: a screen that changes in place on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from demo.frame import Frame
from demo.orders import money

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

_LINE_EVERY_S: Final = 2.0


class View(Protocol):
    def show(self, frame: Frame) -> None: ...


class Lines:
    """For logs, pipes and small windows: each event, and in between a line every two seconds."""

    def __init__(self) -> None:
        self._events = 0
        self._last = float("-inf")

    def show(self, frame: Frame) -> None:
        from demo.screen import clock

        for event in frame.events[self._events :]:
            print(f"demo: {clock(event.at)} {event.text}", flush=True)
        self._events = len(frame.events)
        if frame.verdict is None and frame.elapsed >= self._last + _LINE_EVERY_S:
            self._last = frame.elapsed
            print(f"demo: {clock(frame.elapsed)} {summary(frame)}", flush=True)


def summary(frame: Frame) -> str:
    """A frame in one line."""
    from demo.screen import phase_text

    text = phase_text(frame)
    if frame.phase in ("cluster", "spark"):
        return text
    counts, up = frame.counts, sum(node.up for node in frame.nodes)
    return (
        f"{text}; enriched {counts.enriched:,}, dead letters {counts.dead:,}, summed {counts.summed:,}; "
        f"{frame.enriching.count} and {frame.summing.count} micro-batches, the last in "
        f"{frame.enriching.last_ms} and {frame.summing.last_ms} ms; {up} brokers up"
    )


def proof(frame: Frame) -> list[str]:
    """What the check has found."""
    verdict = frame.verdict
    assert verdict is not None
    return [
        f"{verdict.balance}, lost {verdict.lost:,}, duplicates {verdict.duplicates:,}, "
        f"{verdict.totals:,} windows of revenue of {money(verdict.cents)}: counted by confluent-kafka",
        *verdict.problems,
        f"{'passed' if frame.phase == 'passed' else 'FAILED'}, after {frame.elapsed:.0f} s",
    ]


@contextmanager
def opened() -> Iterator[View]:
    """The view that standard output can bear."""
    if (console := screen_console()) is None:
        yield Lines()
        return
    from rich.live import Live

    with Live(console=console, screen=True, auto_refresh=False, transient=True) as live:
        yield _Screen(console, live)


def screen_console() -> Console | None:
    """None where there is no terminal, or one that is too small or cannot draw."""
    if not sys.stdout.isatty():
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    from demo.screen import HEIGHT, WIDTH

    console = Console()
    can_draw = not console.is_dumb_terminal and console.encoding.startswith("utf")
    return console if can_draw and console.width >= WIDTH and console.height >= HEIGHT else None


class _Screen:
    def __init__(self, console: Console, live: Live) -> None:
        self._console = console
        self._live = live

    def show(self, frame: Frame) -> None:
        from rich.console import Group

        from demo.screen import lines

        size = self._console.size
        self._live.update(Group(*lines(frame, size.width, size.height)), refresh=True)


def conclude(frame: Frame) -> None:
    """Leaves what was found where the shell goes on: the screen of the demo vanishes with it."""
    if (console := screen_console()) is None:
        for line in proof(frame):
            print(f"demo: {line}")
        return
    from demo.screen import lines

    # The prompt has lines of its own.
    for each in lines(frame, console.width, console.height - 2):
        console.print(each, no_wrap=True, crop=True, highlight=False)
