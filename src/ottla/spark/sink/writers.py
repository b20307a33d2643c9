"""What Spark calls to write: `df.write.format("ottla").mode("append")` and `df.writeStream.format("ottla")`.

Both write at least once. A task writes by itself and is done when its rows are stored: there is nothing left to
commit. What tasks that were tried again have sent before they failed stays, as with the JVM connector. A micro-batch
that Spark runs again, after a crash before it was entered in the checkpoint, writes its rows again.

Three processes make a writer, and only the worker writes: the client is imported there, in `write`. Planning and
committing are done in other processes, which start sooner without it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ottla.spark.options.connector import SinkOptions
from ottla.spark.process.shipping import Shipped
from ottla.spark.sink.columns import SinkColumns
from ottla.spark.sink.sent_rows import SentRows, summary

if TYPE_CHECKING:
    import pyarrow

_logger = logging.getLogger("ottla.spark")


class KafkaBatchWriter(Shipped, DataSourceArrowWriter):
    """df.write: made on the driver, where it checks the columns; `write` runs in a worker of each task."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self.options = options
        self.columns = SinkColumns.of(schema, options.topic)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> SentRows:
        from ottla.spark.sink.row_sender import send_rows

        return send_rows(iterator, self.options, self.columns)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _logger.info("wrote %s", summary(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _logger.warning("a job that wrote %s has failed; what it wrote stays", summary(messages))


class KafkaStreamWriter(Shipped, DataSourceStreamArrowWriter):
    """df.writeStream: made on the driver for every micro-batch.

    `write` runs in a worker of each task, `commit` on the driver.
    """

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self.options = options
        self.columns = SinkColumns.of(schema, options.topic)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> SentRows:
        from ottla.spark.sink.row_sender import send_rows

        return send_rows(iterator, self.options, self.columns)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        _logger.info("micro-batch %d wrote %s", batchId, summary(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        _logger.warning(
            "micro-batch %d wrote %s and has failed; what it wrote stays", batchId, summary(messages)
        )
