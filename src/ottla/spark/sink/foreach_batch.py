"""`Sink`: a function for `foreachBatch` that writes micro-batches to Kafka, exactly once unless told otherwise.

What Spark refuses to sinks in Python works here: output mode update, and whatever a program does to a batch before it
is written. One process of the driver sees everything, from the start of a batch to its commit; the tasks are those of
a `mapInArrow`, which hand back what they have written as rows.

Not here: the steps of the protocol (`transactional`), what a task is told by Spark (`task_numbers`).

Invariant: a micro-batch is written through a sink id once in a run of its query; a second time is an error, and not
rows that are passed over because they seem to be written.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.spark.options.connector import SinkOptions, unstable
from ottla.spark.options.parsing import OptionError, logger
from ottla.spark.process.shipping import Shipped
from ottla.spark.sink.columns import SinkColumns
from ottla.spark.sink.sent_rows import SentRows, summary
from ottla.spark.sink.stable_rows import fix_tasks, what_is_unstable

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

    from ottla.spark.sink.exactly_once.values import BatchStart

_QUERY_ID: Final = "sql.streaming.queryId"
# Spark starts the jobs of a query under the id of its run, which is another one after every restart.
_RUN_ID: Final = "spark.jobGroup.id"
_ADAPTIVE: Final = "spark.sql.adaptive.enabled"


class Sink:
    """Writes micro-batches to Kafka, with the options of `writeStream.format("ottla")`.

    >>> sink = Sink({"kafka.bootstrap.servers": "localhost:9092", "topic": "totals"})
    >>> totals.writeStream.outputMode("update").foreachBatch(sink).start()  # doctest: +SKIP

    It may also be called inside a function of one's own, with what is to be written of the batch, and the batch's id.
    A function that writes twice needs two sinks, each with an `ottla.sink.id` of its own.
    """

    def __init__(self, options: Mapping[str, object]) -> None:
        self._given = {name: _text(value) for name, value in options.items() if value is not None}
        self._options = SinkOptions.parse(self._given)
        if self._options.is_exactly_once:
            _fix_tasks_of_queries()

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        if not self._options.is_exactly_once:
            batch.write.format("ottla").mode("append").options(**self._given).save()
            return
        session = batch.sparkSession
        if (chance := what_is_unstable(batch)) is not None:
            raise unstable(chance)
        columns = SinkColumns.of(batch.schema, self._options.topic, self._options.value)
        run = _run_of(session)
        query_id = run.query_id or self._query_id_of_checkpoint()
        sink_id = self._options.sink_id or query_id
        assert sink_id is not None
        with _written.once(sink_id, run.run_id, batch_id):
            self._write(batch, batch_id, columns, sink_id, query_id)

    def _query_id_of_checkpoint(self) -> str | None:
        """Where Spark does not say it, as with Spark Connect."""
        from ottla.spark.sink.query_id import query_id_of

        return query_id_of(self._options.checkpoint, required=self._options.sink_id is None)

    def _write(
        self, batch: DataFrame, batch_id: int, columns: SinkColumns, sink_id: str, query_id: str | None
    ) -> None:
        from ottla.spark.sink.transactional import check_nothing_missing, commit_rows, start_rows

        start = start_rows(self._options, sink_id, query_id)
        messages: list[SentRows] = []
        try:
            task = _BatchTask(self._options, columns, start, query_id, batch_id)
            messages += _messages(batch, task)
            if messages:
                commit_rows(self._options, messages)
            else:
                check_nothing_missing(start, batch_id)
        except BaseException as error:
            self._abort(messages, error)
            raise
        logger.info("micro-batch %d wrote %s", batch_id, summary(messages))

    def _abort(self, messages: list[SentRows], error: BaseException) -> None:
        from ottla.errors import KafkaError
        from ottla.spark.sink.transactional import abort_rows

        try:
            abort_rows(self._options, messages)
        except KafkaError as also:
            error.add_note(
                f"what the batch has written could not be aborted now, and is at the next start: {also}"
            )


def _fix_tasks_of_queries() -> None:
    """Before the query starts, which has the settings of its session as they are then."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None:
        fix_tasks(session)


def _text(value: object) -> str:
    """As Spark's writers do it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


# In the tasks


class _BatchTask(Shipped):
    """What a task does with its rows, on its way there."""

    def __init__(
        self,
        options: SinkOptions,
        columns: SinkColumns,
        start: BatchStart,
        query_id: str | None,
        batch_id: int,
    ) -> None:
        self.options = options
        self.columns = columns
        self.start = start
        self.query_id = query_id
        self.batch_id = batch_id

    def write(self, batches: Iterator[pyarrow.RecordBatch]) -> SentRows:
        from ottla.spark.sink.task_numbers import number_in_stream
        from ottla.spark.sink.transactional import write_rows

        number = number_in_stream(self.query_id, self.batch_id)
        return write_rows(batches, self.options, self.columns, self.start, number)


def _messages(batch: DataFrame, task: _BatchTask) -> list[SentRows]:
    """Runs it; one message of each task."""

    # A function inside a function travels by value, and needs no Ottla to be loaded: the task in it says so itself.
    def write(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pickle

        import pyarrow

        yield pyarrow.record_batch([pyarrow.array([pickle.dumps(task.write(batches))])], names=["message"])

    with _fixed_partitions(batch.sparkSession):
        return [pickle.loads(row.message) for row in batch.mapInArrow(write, "message binary").collect()]


@contextmanager
def _fixed_partitions(session: Any) -> Iterator[None]:
    """A batch that runs again is to have the tasks that it had: adaptive execution chooses by what it measures.

    What Spark made of the query itself is fixed by now; this is for what a program has made of the batch since.
    """
    before = session.conf.get(_ADAPTIVE, None)
    session.conf.set(_ADAPTIVE, "false")
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(_ADAPTIVE)
        else:
            session.conf.set(_ADAPTIVE, before)


# On the driver


class _QueryRun(NamedTuple):
    """A query from one start to the next; Spark Connect does not say."""

    query_id: str | None
    run_id: str | None


def _run_of(session: Any) -> _QueryRun:
    from pyspark.errors import PySparkException

    try:
        context = session.sparkContext
    except (PySparkException, AttributeError):
        return _QueryRun(None, None)
    return _QueryRun(context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_RUN_ID))


class _WrittenBatches:
    """The last batch that was written through each sink id, and in which run of its query."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[str, tuple[str, int]] = {}

    @contextmanager
    def once(self, sink_id: str, run_id: str | None, batch_id: int) -> Iterator[None]:
        """For a write; one that raised may be tried again."""
        if run_id is None:
            yield
            return
        with self._lock:
            if self._last.get(sink_id) == (run_id, batch_id):
                raise OptionError(
                    f"micro-batch {batch_id} was already written through the sink {sink_id} by this run of the "
                    "query. A batch that is written in two parts needs a sink for each: give each an "
                    "ottla.sink.id of its own"
                )
        yield
        with self._lock:
            self._last[sink_id] = (run_id, batch_id)


_written: Final = _WrittenBatches()
