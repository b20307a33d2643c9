"""What there is to see of a pipeline that runs: a screen on a terminal, lines in a pipe, JSON for programs.

All three get the same: micro-batches as they end, and what each sink does. What they show is drawn from that alone.

Invariant: no line is longer than the terminal is wide, and a screen has no more lines than it is high.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import typer

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table

    from ottla.spark.pipeline.model import Pipeline
    from ottla.spark.pipeline.progress import BatchProgress

_LINE_EVERY_S: Final = 1.0
_EVENTS: Final = 50
_STALE_S: Final = 5.0
"""After so long without a micro-batch the speed of the last one says nothing about now."""


@dataclass
class Totals:
    """Of all micro-batches of this run, or of those that one line is about."""

    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    dead_letters: int = 0
    seconds: float = 0.0
    first_batch: int = 0
    last: BatchProgress | None = None

    def add(self, batch: BatchProgress) -> None:
        if self.batches == 0:
            self.first_batch = batch.batch_id
        self.batches += 1
        self.rows_in += batch.rows_in
        self.rows_out += batch.rows_out
        self.dead_letters += batch.dead_letters
        self.seconds += batch.seconds
        self.last = batch

    def __str__(self) -> str:
        counts = [f"{_counted(self.rows_in, 'row')} in", f"{self.rows_out:,} out"]
        if self.dead_letters:
            counts.append(_counted(self.dead_letters, "dead letter"))
        return ", ".join(counts)


def _counted(count: int, what: str) -> str:
    if count == 1:
        return f"1 {what}"
    return f"{count:,} {what}{'es' if what.endswith('ch') else 's'}"


class View(Protocol):
    def starting(self) -> None:
        """Spark, and the queries."""

    def show(self, batches: Sequence[BatchProgress], states: Mapping[str, str], *, stopping: bool) -> None:
        """What has ended since the last call, and what the sinks do now."""

    def warned(self, text: str) -> None:
        """What is left to do for the user."""

    def failed(self, reason: str) -> None: ...

    def ended(self, *, stopped: bool) -> None: ...


@contextmanager
def opened(pipeline: Pipeline, *, as_json: bool, log: Path | None) -> Iterator[View]:
    """The view that standard output can bear."""
    if as_json:
        yield JsonLines(pipeline, log)
        return
    if not sys.stdout.isatty():
        yield Lines(pipeline, log)
        return
    from rich.console import Console
    from rich.live import Live

    screen = Screen(pipeline, log)
    try:
        with Live(screen, console=Console(), refresh_per_second=4, transient=False):
            yield screen
    finally:
        for text in screen.last_words:
            typer.echo(text, err=True)


def _stopping(totals: Mapping[str, Totals], states: Mapping[str, str]) -> str:
    """What is waited for: the micro-batch behind the last one that has ended."""
    runs = [
        f"micro-batch {last.batch_id + 1} of {sink}"
        if (last := totals[sink].last)
        else f"the first of {sink}"
        for sink, state in states.items()
        if state == "running"
    ]
    return f"stopping: finishing {', '.join(runs)}" if runs else "stopping"


class Lines:
    """For logs and pipes: a line for what was done, at most one each second and sink."""

    def __init__(self, pipeline: Pipeline, log: Path | None = None) -> None:
        self._name = pipeline.name
        self._log = log
        self._of_run = {sink: Totals() for sink in pipeline.sinks}
        self._new = {sink: Totals() for sink in pipeline.sinks}
        self._last_line = dict.fromkeys(pipeline.sinks, float("-inf"))
        self._is_started = False
        self._is_stopping = False

    def starting(self) -> None:
        self._say("starting Spark")

    def show(self, batches: Sequence[BatchProgress], states: Mapping[str, str], *, stopping: bool) -> None:
        if not self._is_started:
            self._is_started = True
            self._say(f"started: {', '.join(states)}")
        for batch in batches:
            if batch.rows_in or batch.rows_out or batch.dead_letters:
                self._new[batch.sink].add(batch)
            self._of_run[batch.sink].add(batch)
        for sink in self._new:
            self._tell(sink)
        if stopping and not self._is_stopping:
            self._is_stopping = True
            self._say(_stopping(self._of_run, states))

    def warned(self, text: str) -> None:
        self._flush()
        typer.echo(f"ottla: {text}", err=True)

    def failed(self, reason: str) -> None:
        self._flush()
        typer.echo(f"ottla: {reason}", err=True)
        if self._log is not None:
            typer.echo(f"ottla: Spark's log is {self._log}", err=True)

    def ended(self, *, stopped: bool) -> None:
        self._flush()
        how = "stopped" if stopped else "done"
        for sink, totals in self._of_run.items():
            self._say(f"{how}: {sink}: {_counted(totals.batches, 'micro-batch')}, {totals}")

    def _flush(self) -> None:
        for sink in self._new:
            self._tell(sink, now=float("inf"))

    def _tell(self, sink: str, now: float | None = None) -> None:
        new, now = self._new[sink], time.monotonic() if now is None else now
        if new.last is None or now < self._last_line[sink] + _LINE_EVERY_S:
            return
        self._last_line[sink], self._new[sink] = now, Totals()
        last = new.last
        number = f"{new.first_batch}-{last.batch_id}" if new.batches > 1 else str(last.batch_id)
        speed = new.rows_in / new.seconds if new.seconds else 0.0
        parts = [str(new), f"{speed:,.0f} rows/s", f"{last.seconds:.2f} s"]
        if last.lag is not None:
            parts.append(f"lag {last.lag:,}")
        if last.state_rows:
            parts.append(f"state {last.state_rows:,} rows")
        self._say(f"{sink}: batch {number}: {', '.join(parts)}")

    def _say(self, text: str) -> None:
        typer.echo(f"{self._name}: {text}")


class JsonLines:
    """For programs: an object for each event."""

    def __init__(self, pipeline: Pipeline, log: Path | None = None) -> None:
        self._name = pipeline.name
        self._log = log
        self._totals = {sink: Totals() for sink in pipeline.sinks}
        self._said: set[str] = set()

    def starting(self) -> None:
        self._say("starting", pipeline=self._name)

    def show(self, batches: Sequence[BatchProgress], states: Mapping[str, str], *, stopping: bool) -> None:
        self._once("started", pipeline=self._name, sinks=list(states))
        for batch in batches:
            self._totals[batch.sink].add(batch)
            self._say("batch", **asdict(batch), rows_per_second=round(batch.rows_per_second, 1))
        if stopping:
            self._once("stopping", pipeline=self._name)

    def warned(self, text: str) -> None:
        typer.echo(f"ottla: {text}", err=True)

    def failed(self, reason: str) -> None:
        log = {} if self._log is None else {"log": str(self._log)}
        self._say("failed", pipeline=self._name, error=reason, **log)
        typer.echo(f"ottla: {reason}", err=True)

    def ended(self, *, stopped: bool) -> None:
        sinks = {
            sink: {
                "batches": totals.batches,
                "rows_in": totals.rows_in,
                "rows_out": totals.rows_out,
                "dead_letters": totals.dead_letters,
            }
            for sink, totals in self._totals.items()
        }
        self._say("ended", pipeline=self._name, stopped=stopped, sinks=sinks)

    def _once(self, event: str, **fields: object) -> None:
        if event not in self._said:
            self._said.add(event)
            self._say(event, **fields)

    def _say(self, event: str, **fields: object) -> None:
        typer.echo(json.dumps({"event": event, **fields}, ensure_ascii=False))


@dataclass
class _Sink:
    """What the screen knows of one."""

    topic: str
    totals: Totals = field(default_factory=Totals)
    state: str = "starting"
    ended_at: float = float("-inf")
    """The last micro-batch."""


class Screen:
    """A terminal: a table of the sinks that changes in place, and what has happened last below it."""

    def __init__(self, pipeline: Pipeline, log: Path | None = None) -> None:
        self._pipeline = pipeline
        self._log = log
        self._sinks = {name: _Sink(sink.topic) for name, sink in pipeline.sinks.items()}
        self._began = time.monotonic()
        self._phase = "starting Spark"
        self._style = "yellow"
        self._events: deque[tuple[str, str]] = deque(maxlen=_EVENTS)
        self.last_words: list[str] = []
        """For standard error when the table stands still: before, its next change would wipe them away."""
        self._pauses = pipeline.trigger not in (None, "available-now")

    # What happens

    def starting(self) -> None:
        self._event("starting Spark")

    def show(self, batches: Sequence[BatchProgress], states: Mapping[str, str], *, stopping: bool) -> None:
        for name, state in states.items():
            self._sinks[name].state = state
        for batch in batches:
            sink = self._sinks[batch.sink]
            sink.totals.add(batch)
            sink.ended_at = time.monotonic()
            if batch.dead_letters:
                self._event(
                    f"{batch.sink}: {_counted(batch.dead_letters, 'dead letter')} in batch {batch.batch_id}"
                )
        totals = {name: sink.totals for name, sink in self._sinks.items()}
        phase = _stopping(totals, states) if stopping else _phase(states)
        self._go(phase, "green" if phase in _COMES_AND_GOES else "yellow")

    def warned(self, text: str) -> None:
        self._event(text)
        self.last_words.append(f"ottla: {text}")

    def failed(self, reason: str) -> None:
        self._go("failed", "red")
        self._event(reason)
        self.last_words.append(f"ottla: {reason}")
        if self._log is not None:
            self.last_words.append(f"ottla: Spark's log is {self._log}")

    def ended(self, *, stopped: bool) -> None:
        for sink in self._sinks.values():
            sink.state = "ended"
        self._go("stopped" if stopped else "done", "green")

    def _go(self, phase: str, style: str) -> None:
        if _kind(phase) != _kind(self._phase):
            self._event(phase)
        self._phase, self._style = phase, style

    def _event(self, text: str) -> None:
        self._events.append((datetime.now().strftime("%H:%M:%S"), " ".join(text.split())))

    # What is seen

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        height = (options.height or console.height) - 1
        seconds = int(time.monotonic() - self._began)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        head = Text(no_wrap=True, overflow="ellipsis")
        head.append(self._pipeline.name, style="bold").append("  ")
        head.append(self._phase, style=self._style).append(f"  {clock}  {self._pipeline.delivery}")
        yield head
        # A heading, a line below it, and one that is empty on both sides.
        most = max(1, min(len(self._sinks), height - 7))
        yield self._table(list(self._sinks)[:most], wide=options.max_width >= 110)
        used = 1 + 2 + most
        if most < len(self._sinks):
            yield Text(f"... and {len(self._sinks) - most} sinks more", style="dim", no_wrap=True)
            used += 1
        room = max(0, min(8, height - used - 2))
        if room and self._events:
            yield Text("")
            for when, text in list(self._events)[-room:]:
                line = Text(no_wrap=True, overflow="ellipsis")
                yield line.append(f"{when} ", style="dim").append(text)

    def _table(self, names: Sequence[str], *, wide: bool) -> Table:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0), expand=False)
        table.add_column("sink", no_wrap=True, overflow="ellipsis", max_width=24 if wide else 12)
        if wide:
            table.add_column("topic", no_wrap=True, overflow="ellipsis", max_width=24)
        for heading in ("batch", "rows/s", "rows in", "rows out", "dead", "time", "lag", "state"):
            table.add_column(heading, justify="right", no_wrap=True, overflow="ellipsis")
        for name in names:
            sink = self._sinks[name]
            cells = [name, *([sink.topic] if wide else []), *self._cells(sink)]
            table.add_row(*map(Text, cells))
        return table

    def _cells(self, sink: _Sink) -> list[str]:
        last, totals = sink.totals.last, sink.totals
        if last is None:
            return ["-"] * 8
        is_idle = sink.state != "running" and time.monotonic() > sink.ended_at + _STALE_S
        # Nothing that it has not read: that is what it waits for.
        lag = 0 if sink.state == "waiting" and not self._pauses else last.lag
        return [
            str(last.batch_id),
            "0" if is_idle else short(last.rows_per_second),
            short(totals.rows_in),
            short(totals.rows_out),
            short(totals.dead_letters),
            f"{last.seconds:.1f}s" if last.seconds < 1000 else f"{last.seconds:.0f}s",
            "-" if lag is None else short(lag),
            f"{short(last.state_rows)}, {short(last.state_bytes)}B" if last.state_rows else "-",
        ]


_COMES_AND_GOES: Final = ("running", "waiting for rows")
"""With every micro-batch: that is to be seen, and is no event."""


def _kind(phase: str) -> str:
    return _COMES_AND_GOES[0] if phase in _COMES_AND_GOES else phase.partition(":")[0]


def _phase(states: Mapping[str, str]) -> str:
    kinds = set(states.values())
    if "starting" in kinds:
        return "starting the queries"
    if "running" in kinds:
        return "running"
    return "waiting for rows" if "waiting" in kinds else "ending"


def short(number: float) -> str:
    """In five characters at most.

    >>> [short(each) for each in (7, 12345, 1_234_567, 99_950_000, 2.5e9)]
    ['7', '12.3k', '1.2M', '100M', '2.5G']
    """
    if number < 10_000:
        return f"{number:.0f}"
    for unit in "kMGT":
        number /= 1000
        if number < 999.5 or unit == "T":
            return f"{number:.1f}{unit}" if number < 99.95 else f"{number:.0f}{unit}"
    raise AssertionError("the last unit is for all")
