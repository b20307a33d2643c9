"""What a micro-batch has done, out of what Spark reports."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from pyspark.sql import Row

from ottla.spark.pipeline.progress import READ_AGAIN, WRITTEN, batch_progress


def reported(**differing: Any) -> SimpleNamespace:
    """A StreamingQueryProgress of a micro-batch, as far as it is looked at."""
    return SimpleNamespace(
        **{
            "batchId": 7,
            "timestamp": "2026-01-31T12:00:00.000Z",
            "numInputRows": 10,
            "durationMs": {"addBatch": 400, "triggerExecution": 500},
            "observedMetrics": {WRITTEN: Row(rows=9, dead_letters=2)},
            "sources": [],
            "stateOperators": [],
            **differing,
        }
    )


def source(end: object, latest: object) -> SimpleNamespace:
    return SimpleNamespace(endOffset=json.dumps(end), latestOffset=json.dumps(latest))


def test_rows_are_counted_by_what_became_of_them() -> None:
    batch = batch_progress("out", reported())
    assert batch is not None
    assert (batch.sink, batch.batch_id, batch.timestamp) == ("out", 7, "2026-01-31T12:00:00.000Z")
    assert (batch.rows_in, batch.rows_out, batch.dead_letters) == (10, 7, 2)
    assert (batch.seconds, batch.rows_per_second) == (0.5, 20.0)


def test_spark_connect_has_the_counts_in_a_list() -> None:
    batch = batch_progress("out", reported(observedMetrics={WRITTEN: Row(values=[9, 2], schema={})}))
    assert batch is not None
    assert (batch.rows_out, batch.dead_letters) == (7, 2)


def test_a_trigger_that_ran_no_micro_batch_is_none() -> None:
    assert batch_progress("out", reported(durationMs={"latestOffset": 3, "triggerExecution": 4})) is None


def test_rows_that_were_read_twice_for_their_dead_letters_count_once() -> None:
    observed = {WRITTEN: None, f"{READ_AGAIN}orders": Row(rows=5)}
    batch = batch_progress("out", reported(observedMetrics=observed))
    assert batch is not None
    assert (batch.rows_in, batch.rows_out) == (5, 0)


def test_the_lag_is_what_all_sources_have_beyond_the_batch() -> None:
    plan = {":plan": {"version": 1}, ":start": {"orders": {"1": 0}}}
    sources = [
        source({**plan, "orders": {"0": 5, "1": 3}}, {"orders": {"0": 9, "1": 3, "2": 1}}),
        source({"visits": {"0": 4}}, {"visits": {"0": 4}}),
    ]
    batch = batch_progress("out", reported(sources=sources))
    assert batch is not None
    assert batch.lag == 5
    # A batch that runs again after a restart was planned before: what there was then is not known.
    again = batch_progress("out", reported(sources=[source({"orders": {"0": 5}}, None)]))
    assert again is not None
    assert again.lag is None


def test_state_is_that_of_all_operators() -> None:
    operators = [
        SimpleNamespace(numRowsTotal=3, memoryUsedBytes=100),
        SimpleNamespace(numRowsTotal=4, memoryUsedBytes=50),
    ]
    batch = batch_progress("out", reported(stateOperators=operators))
    assert batch is not None
    assert (batch.state_rows, batch.state_bytes) == (7, 150)
