"""Sink without Spark: its options, its refusals, and what it keeps in mind. In Spark: test_exactly_once."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.spark import OptionError, Sink
from ottla.spark.sink.foreach_batch import _fixed_partitions, _WrittenBatches
from tests.spark.sinks import schema_of

SERVERS = {"kafka.bootstrap.servers": "localhost:1"}


class Conf(dict[str, str]):
    """That of a session."""

    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        del self[name]


class Batch:
    """As much of a DataFrame as is looked at before a task runs; without a context, as with Spark Connect."""

    def __init__(self) -> None:
        self.sparkSession = self
        self.conf = Conf()
        self.schema = schema_of("value")


def call(sink: Sink, batch: Any) -> None:
    sink(batch, 0)


def test_options_are_checked_when_it_is_made() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers"):
        Sink({"topic": "totals"})
    with pytest.raises(OptionError, match=r"ottla\.delivery"):
        Sink({**SERVERS, "ottla.delivery": "twice"})
    Sink({**SERVERS, "includeHeaders": True, "topic": None})


def test_where_the_query_is_not_known_a_name_is_asked_for() -> None:
    with pytest.raises(OptionError, match=r"set ottla\.sink\.id"):
        call(Sink({**SERVERS, "topic": "totals"}), Batch())


def test_a_batch_is_written_once_in_a_run_through_one_sink_id() -> None:
    written = _WrittenBatches()
    with written.once("a", "run", 0):
        pass
    with written.once("b", "run", 0):
        pass
    with pytest.raises(
        OptionError, match=r"micro-batch 0 was already written through the sink a.*ottla\.sink\.id"
    ):
        enter(written, "a", "run", 0)
    # The next batch, and the same one after a restart.
    enter(written, "a", "run", 1)
    enter(written, "a", "another run", 1)


def test_a_batch_that_failed_may_be_written_again() -> None:
    written = _WrittenBatches()
    with pytest.raises(RuntimeError), written.once("a", "run", 0):
        raise RuntimeError
    enter(written, "a", "run", 0)


@pytest.mark.parametrize("before", [None, "true"])
def test_adaptive_execution_is_off_while_the_batch_runs(before: str | None) -> None:
    name = "spark.sql.adaptive.enabled"
    session = Batch()
    if before is not None:
        session.conf.set(name, before)
    with _fixed_partitions(session):
        assert session.conf[name] == "false"
    assert session.conf.get(name) == before


def enter(written: _WrittenBatches, sink_id: str, run_id: str, batch_id: int) -> None:
    with written.once(sink_id, run_id, batch_id):
        pass
