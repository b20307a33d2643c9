"""What Spark calls to write: `df.write.format("ottla").mode("append")` and `df.writeStream.format("ottla")`.

Exactly once, unless ottla.delivery says otherwise. Spark pickles a writer on its way to the tasks, and only there
(twice, but one instance): this is where a batch starts. A task leaves its transaction open, and the driver commits
those of all tasks together. `commit` and `abort` of a stream run on a writer that was made anew in another process:
all that they know are the messages of the tasks.

At least once, a task writes by itself and is done when its rows are stored: there is nothing left to commit. What
tasks that were tried again have sent before they failed stays, as with the JVM connector. A micro-batch that Spark
runs again, after a crash before it was entered in the checkpoint, writes its rows again.

Several processes make a writer, and the client is imported in those that use it: in tasks, and exactly once in those
that start and commit a batch. The others start sooner without it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ottla.spark.options.connector import SinkOptions
from ottla.spark.process.shipping import Shipped
from ottla.spark.sink.columns import SinkColumns
from ottla.spark.sink.sent_rows import SentRows, summary

if TYPE_CHECKING:
    import pyarrow

    from ottla.spark.sink.exactly_once.leases import Lease
    from ottla.spark.sink.exactly_once.values import BatchStart

_logger = logging.getLogger("ottla.spark")
_Messages: TypeAlias = list[WriterCommitMessage | None]


class KafkaBatchWriter(Shipped, DataSourceArrowWriter):
    """df.write: made on the driver, where it checks the columns; `write` runs in a worker of each task.

    `commit` and `abort` run on what was pickled for the tasks.
    """

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self.options = options
        self.columns = SinkColumns.of(schema, options.topic, options.value)
        self.lease: Lease | None = None

    def __getstate__(self) -> dict[str, Any]:
        if self.options.is_exactly_once and self.lease is None:
            from ottla.spark.sink.transactional import lease_rows

            self.lease = lease_rows(self.options)
        return self.__dict__

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> SentRows:
        if self.lease is None:
            from ottla.spark.sink.row_sender import send_rows

            return send_rows(iterator, self.options, self.columns)
        from ottla.spark.sink.task_numbers import number_in_job
        from ottla.spark.sink.transactional import write_rows

        return write_rows(iterator, self.options, self.columns, self.lease.start, number_in_job(self.lease))

    def commit(self, messages: _Messages) -> None:
        if self.lease is not None:
            from ottla.spark.sink.transactional import commit_lease

            commit_lease(self.options, self.lease, messages)
        _logger.info("wrote %s", summary(messages))

    def abort(self, messages: _Messages) -> None:
        if self.lease is None:
            _logger.warning("a job that wrote %s has failed; what it wrote stays", summary(messages))
            return
        from ottla.spark.sink.transactional import abort_lease

        abort_lease(self.options, self.lease, messages)
        _logger.warning("a job that wrote %s has failed; it is aborted", summary(messages))


class KafkaStreamWriter(Shipped, DataSourceStreamArrowWriter):
    """df.writeStream: made on the driver for every micro-batch, and again for its end.

    `write` runs in a worker of each task, `commit` and `abort` on the driver.
    """

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self.options = options
        self.columns = SinkColumns.of(schema, options.topic, options.value)
        self.start: BatchStart | None = None
        self.query_id: str | None = None
        """As the checkpoint has it, if it could be read."""

    def __getstate__(self) -> dict[str, Any]:
        if self.options.is_exactly_once and self.start is None:
            from ottla.spark.sink.query_id import query_id_of
            from ottla.spark.sink.transactional import start_rows

            self.query_id = query_id_of(self.options.checkpoint, required=self.options.sink_id is None)
            sink_id = self.options.sink_id or self.query_id
            assert sink_id is not None
            self.start = start_rows(self.options, sink_id, self.query_id)
        return self.__dict__

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> SentRows:
        if self.start is None:
            from ottla.spark.sink.row_sender import send_rows

            return send_rows(iterator, self.options, self.columns)
        from ottla.spark.sink.task_numbers import number_in_stream
        from ottla.spark.sink.transactional import write_rows

        return write_rows(iterator, self.options, self.columns, self.start, number_in_stream(self.query_id))

    def commit(self, messages: _Messages, batchId: int) -> None:  # noqa: N803  Spark's name
        if self.options.is_exactly_once:
            from ottla.spark.sink.transactional import commit_rows

            commit_rows(self.options, messages)
        _logger.info("micro-batch %d wrote %s", batchId, summary(messages))

    def abort(self, messages: _Messages, batchId: int) -> None:  # noqa: N803  Spark's name
        if not self.options.is_exactly_once:
            _logger.warning(
                "micro-batch %d wrote %s and has failed; what it wrote stays", batchId, summary(messages)
            )
            return
        from ottla.spark.sink.transactional import abort_rows

        abort_rows(self.options, messages)
        _logger.warning(
            "micro-batch %d wrote %s and has failed; it is written again when the query is started again",
            batchId,
            summary(messages),
        )
