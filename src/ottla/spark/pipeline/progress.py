"""BatchProgress: what a micro-batch has done, in the numbers that one looks at; made of what Spark reports.

Spark counts a row for each time that it is read. A source whose malformed values are written to a topic is read
twice, once for each kind of row: what was read for the malformed ones is observed, and taken off again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from ottla.spark.source.checkpoint import from_json

WRITTEN: Final = "ottla.written"
"""The name of what is observed of the rows that are written: `rows`, and `dead_letters` among them."""
READ_AGAIN: Final = "ottla.read_again."
"""What these names begin with is observed where malformed rows are looked for: `rows`."""
_RAN: Final = "addBatch"
"""Of the durations, the one that only a trigger has which ran a micro-batch."""


@dataclass(frozen=True, kw_only=True)
class BatchProgress:
    """A micro-batch that is done, or the job of a sink in a pipeline of mode batch."""

    sink: str
    batch_id: int
    timestamp: str
    """When it began, in UTC, as Spark writes it: 2026-01-31T12:00:00.000Z."""
    rows_in: int
    rows_out: int
    dead_letters: int
    seconds: float
    lag: int | None = None
    """The records that its sources had beyond what it has read, when it was planned; None: not known."""
    state_rows: int = 0
    state_bytes: int = 0

    @property
    def rows_per_second(self) -> float:
        """Of those that came in."""
        return self.rows_in / self.seconds if self.seconds > 0 else 0.0


def batch_progress(sink: str, progress: Any) -> BatchProgress | None:
    """Of a StreamingQueryProgress; None for a trigger that ran no micro-batch."""
    durations = progress.durationMs
    if _RAN not in durations:
        return None
    observed = progress.observedMetrics
    written, dead_letters = _observed(observed.get(WRITTEN)) or (0, 0)
    again = sum(sum(_observed(row)) for name, row in observed.items() if name.startswith(READ_AGAIN))
    return BatchProgress(
        sink=sink,
        batch_id=progress.batchId,
        timestamp=progress.timestamp,
        rows_in=max(0, progress.numInputRows - again),
        rows_out=written - dead_letters,
        dead_letters=dead_letters,
        seconds=durations.get("triggerExecution", durations[_RAN]) / 1000,
        lag=_lag(progress.sources),
        state_rows=sum(each.numRowsTotal for each in progress.stateOperators),
        state_bytes=sum(each.memoryUsedBytes for each in progress.stateOperators),
    )


def _observed(row: Any) -> list[int]:
    """The counts, in their order. Spark Connect has a list of them in the row, beside their schema."""
    if row is None:
        return []
    fields = row.asDict()
    return [int(count or 0) for count in fields.get("values", fields.values())]


def _lag(sources: Any) -> int | None:
    lags = [lag for each in sources if (lag := _lag_of(each.endOffset, each.latestOffset)) is not None]
    return sum(lags) if lags else None


def _lag_of(end: str | None, latest: str | None) -> int | None:
    """Of offsets as Spark hands them over, in JSON."""
    ends, there = (json.loads(text) if text else None for text in (end, latest))
    if ends is None or there is None:
        return None
    read = from_json(ends)
    return sum(max(0, offset - read.get(partition, 0)) for partition, offset in from_json(there).items())
