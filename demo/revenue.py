"""What the revenue is by now, as a reader of committed records sees it: in a thread, for the demo to look at."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import ottla
from demo.orders import REVENUE, Total, Window, revenue_from_json

_POLL_S = 0.3


class RevenueReader:
    """The newest total of each window."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._totals: dict[Window, Total] = {}
        self._over = threading.Event()
        self._lock = threading.Lock()

    def by_country(self) -> dict[str, int]:
        """In cents."""
        with self._lock:
            return by_country(self._totals)

    def read(self) -> None:
        with (
            ottla.Client(self._bootstrap, isolation_level="read_committed") as kafka,
            kafka.consume(REVENUE, start="earliest") as consumer,
        ):
            while not self._over.is_set():
                records = consumer.poll(max_records=10_000, timeout=_POLL_S)
                totals = [revenue_from_json(record.value) for record in records if record.value]
                with self._lock:
                    self._totals.update(totals)

    def stop(self) -> None:
        self._over.set()


def by_country(totals: Mapping[Window, Total]) -> dict[str, int]:
    countries: dict[str, int] = {}
    for window, total in totals.items():
        countries[window.country] = countries.get(window.country, 0) + total.cents
    return countries


@contextmanager
def reading(bootstrap: str) -> Iterator[RevenueReader]:
    reader = RevenueReader(bootstrap)
    thread = threading.Thread(target=reader.read, daemon=True)
    thread.start()
    try:
        yield reader
    finally:
        reader.stop()
        thread.join()
