"""StreamWriter: `df.writeStream.format("ottla")`, at least once.

As with batches (batch_writer.py), a task is done when its rows are stored. A micro-batch that Spark runs again, after
a crash before it was noted in the checkpoint, writes its rows again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ottla.spark.options import SinkOptions
from ottla.spark.row_sender import send_rows
from ottla.spark.sent_rows import SentRows, summary
from ottla.spark.shipping import Shipped
from ottla.spark.sink_columns import SinkColumns

_logger = logging.getLogger("ottla.spark")


class StreamWriter(Shipped, DataSourceStreamArrowWriter):
    """Made on the driver for every micro-batch; `write` runs in a worker of each task, `commit` on the driver."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self.options = options
        self.columns = SinkColumns.of(schema, options.topic)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> SentRows:
        return send_rows(iterator, self.options, self.columns)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        _logger.info("micro-batch %d wrote %s", batchId, summary(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        _logger.warning(
            "micro-batch %d wrote %s and has failed; what it wrote stays", batchId, summary(messages)
        )
