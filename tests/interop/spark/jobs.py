"""The jobs that read: each a function of a run and a case's options, with a plain outcome.

A job that changes topics does so on its own ones. What a job leaves in its checkpoint is seen by nobody else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.interop.spark.outcome import Plain, rows_of, schema_of
from tests.interop.spark.run import Options, Run, Stream
from tests.interop.spark.topics import entries

Job = Callable[[Run, Options], Plain]

AVAILABLE_NOW: dict[str, Any] = {"availableNow": True}
ONCE: dict[str, Any] = {"once": True}
CONTINUALLY: dict[str, Any] = {"processingTime": "0 seconds"}


def read(run: Run, options: Options) -> Plain:
    frame = run.read(options)
    return {"schema": schema_of(frame.schema), **rows_of(frame)}


def read_rows(run: Run, options: Options) -> Plain:
    """Whichever task has read them."""
    return rows_of(run.read(options))["rows"]


def count_tasks(run: Run, options: Options) -> Plain:
    return {"tasks": run.read(options).rdd.getNumPartitions()}


def count(run: Run, options: Options) -> Plain:
    """Without any column, which is a plan of its own."""
    return {"count": run.read(options).count()}


def stream(run: Run, options: Options) -> Plain:
    return Stream(run, options, **AVAILABLE_NOW).finished()


def stream_once(run: Run, options: Options) -> Plain:
    return Stream(run, options, **ONCE).finished()


def read_key_and_value(run: Run, options: Options) -> Plain:
    """With a schema of the user, which leaves columns out."""
    reader = run.spark.read.format(run.format).schema("key binary, value binary")
    return rows_of(reader.options(**run.options(options)).load())


def stream_ends(run: Run, options: Options) -> Plain:
    """Just the offsets that the checkpoint has, all of them."""
    running = Stream(run, options, **AVAILABLE_NOW)
    running.finished()
    return running.ends()


def stream_schema(run: Run, options: Options) -> Plain:
    return schema_of(run.stream(options).schema)


def stream_more(run: Run, options: Options) -> Plain:
    """A running query that gets more to read, twice."""
    run.topics.create(run.topic("t"), partitions=2)
    run.topics.write(run.topic("t"), entries(3))
    # Records that are written together arrive one by one, and a query may look in between.
    whole = {**options, "minOffsetsPerTrigger": "4"}
    running = Stream(run, whole, **CONTINUALLY)
    for first in (3, 6):
        running.settled()
        run.topics.write(run.topic("t"), entries(3, first=first) + entries(1, partition=1, first=first))
    running.settled()
    return running.stopped()


def restart(
    change: Callable[[Run], None],
    *,
    begun_by: str | None = None,
    then: Options | None = None,
    partitions: int = 2,
) -> Job:
    """A query that ends, a change, and the query again from its checkpoint, with the options of `then` on top."""

    def job(run: Run, options: Options) -> Plain:
        run.topics.create(run.topic("t"), partitions)
        for partition in range(partitions):
            run.topics.write(run.topic("t"), entries(5, partition))
        first = Stream(run, options, begun_by, **AVAILABLE_NOW).finished()
        change(run)
        return [first, Stream(run, {**options, **(then or {})}, **AVAILABLE_NOW).finished()]

    return job


def nothing(_run: Run) -> None:
    """No change."""


def more_records(run: Run) -> None:
    run.topics.write(run.topic("t"), entries(4, first=5) + entries(2, partition=1, first=5))


def new_partition(run: Run) -> None:
    run.topics.grow(run.topic("t"), 3)
    run.topics.write(run.topic("t"), entries(2, first=5) + entries(3, partition=2))


def new_topic(run: Run) -> None:
    run.topics.create(run.topic("u"))
    run.topics.write(run.topic("u"), entries(3))


def lost_records(run: Run) -> None:
    """Records that the query has not read are deleted."""
    run.topics.write(run.topic("t"), entries(6, first=5))
    run.topics.trim(run.topic("t"), before=8)


def lost_old_records(run: Run) -> None:
    """Records that the query has read are deleted, which is no loss."""
    run.topics.write(run.topic("t"), entries(2, first=5))
    run.topics.trim(run.topic("t"), before=5)


def lost_topic(run: Run) -> None:
    run.topics.delete(run.topic("t"))


def topic_made_anew(run: Run) -> None:
    """The same name, with fewer records than the query has read."""
    run.topics.delete(run.topic("t"))
    run.topics.create(run.topic("t"), partitions=2)
    run.topics.write(run.topic("t"), entries(2) + entries(2, partition=1))
