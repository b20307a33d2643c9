"""OttlaDataSource: what Spark makes for `format("ottla")`.

Options are parsed here, on the driver, and go on as values: a reader or writer that exists has options that fit.
Everything else is theirs.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from ottla.spark.options.connector import SinkOptions, SourceOptions, value_options
from ottla.spark.options.parsing import OptionError, flag, optional
from ottla.spark.process.shipping import Shipped
from ottla.spark.source.schema import default_schema


class OttlaDataSource(Shipped, DataSource):
    """Reads and writes Kafka, as batches and as streams."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> StructType:
        """The columns of a query that has no schema of its own.

        Spark calls this before it says whether the query is a stream, so only the options are parsed that columns
        depend on.
        """
        given = {name.lower(): text for name, text in self.options.items()}
        include_headers = optional(given, "includeHeaders", flag) or False
        return default_schema(value_options(given), include_headers=include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        from ottla.spark.source.batch_reader import KafkaBatchReader

        return KafkaBatchReader(SourceOptions.parse(self.options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        from ottla.spark.source.stream_reader import KafkaStreamReader

        return KafkaStreamReader(SourceOptions.parse(self.options, streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from ottla.spark.sink.writers import KafkaBatchWriter

        if overwrite:
            raise OptionError(
                "Save mode Overwrite not allowed for Kafka: records cannot be replaced. Write with mode('append')"
            )
        return KafkaBatchWriter(SinkOptions.parse(self.options), schema)

    def streamWriter(  # noqa: N802  Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        from ottla.spark.sink.writers import KafkaStreamWriter

        return KafkaStreamWriter(SinkOptions.parse(self.options), schema)
