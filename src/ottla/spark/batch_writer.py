"""BatchWriter: `df.write.format("ottla").mode("append").save()`, at least once.

A task writes by itself and is done when its rows are stored: there is nothing left to commit. What tasks that were
tried again have sent before they failed stays, as with the JVM connector.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ottla.spark.options import SinkOptions
from ottla.spark.row_sender import send_rows
from ottla.spark.sent_rows import SentRows, summary
from ottla.spark.shipping import Shipped
from ottla.spark.sink_columns import SinkColumns

_logger = logging.getLogger("ottla.spark")


class BatchWriter(Shipped, DataSourceArrowWriter):
    """Made on the driver, where it checks the columns; `write` runs in a worker of each task."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self.options = options
        self.columns = SinkColumns.of(schema, options.topic)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> SentRows:
        return send_rows(iterator, self.options, self.columns)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _logger.info("wrote %s", summary(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _logger.warning("a job that wrote %s has failed; what it wrote stays", summary(messages))
