"""What there is to see: a table that changes in place on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from demo.orders import Total, Window

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

_LINE_EVERY_S = 2.0
_SAME_LINE_EVERY_S = 20.0
_BAR = 30


@dataclass
class State:
    """What is known of the pipeline right now."""

    orders: int = 0
    of: int = 0
    totals: dict[Window, Total] = field(default_factory=dict)
    batches: int = 0
    batch_ms: int = 0

    @property
    def summed(self) -> int:
        return sum(total.orders for total in self.totals.values())

    def by_country(self) -> dict[str, Total]:
        countries: dict[str, Total] = {}
        for window, total in sorted(self.totals.items()):
            before = countries.get(window.country, Total(0, 0))
            countries[window.country] = Total(before.orders + total.orders, before.cents + total.cents)
        return countries

    def __str__(self) -> str:
        cents = sum(total.cents for total in self.totals.values())
        waiting = f"{self.batches} micro-batches" if self.totals else "Spark is starting"
        return (
            f"orders in: {self.orders:,} of {self.of:,}; summed by Spark: {self.summed:,}, "
            f"revenue {money(cents)}; {waiting}"
            + (f", the last in {self.batch_ms} ms" if self.batches else "")
        )


class View(Protocol):
    def show(self, state: State, *, final: bool = False) -> None: ...


class Lines:
    """For logs and pipes."""

    def __init__(self) -> None:
        self._shown = ""
        self._last = float("-inf")

    def show(self, state: State, *, final: bool = False) -> None:
        text, now = str(state), time.monotonic()
        pause = _SAME_LINE_EVERY_S if text == self._shown else _LINE_EVERY_S
        if final or now >= self._last + pause:
            self._shown, self._last = text, now
            print(f"demo: {text}", flush=True)


@contextmanager
def opened() -> Iterator[View]:
    """The view that standard output can bear."""
    if sys.stdout.isatty():
        try:
            from rich.live import Live
        except ImportError:
            yield Lines()
            return
        with Live(refresh_per_second=8) as live:
            yield _Screen(live)
    else:
        yield Lines()


class _Screen:
    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, state: State, *, final: bool = False) -> None:
        self._live.update(table(state), refresh=final)


def table(state: State) -> Table:
    from rich.table import Table

    table = Table(title="Revenue, as Spark has summed it", caption=str(state), min_width=80)
    table.add_column("country")
    for name in ("orders", "revenue"):
        table.add_column(name, justify="right")
    table.add_column("", min_width=_BAR)
    countries = state.by_country()
    most = max((total.cents for total in countries.values()), default=1)
    for country, total in countries.items():
        bar = "█" * round(_BAR * total.cents / most)
        table.add_row(country, f"{total.orders:,}", money(total.cents), bar)
    return table


def money(cents: int) -> str:
    return f"€{cents / 100:,.2f}"
