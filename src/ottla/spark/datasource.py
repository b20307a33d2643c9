"""OttlaDataSource: what Spark makes for `format("ottla")`.

Options are parsed here, on the driver, and go on as values: a reader or writer that exists has options that fit.
Everything else is theirs.

Six kinds of Python processes have a part in a query, and all of them import this: what one of them has no use for is
imported in the method that needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from ottla.spark.process.shipping import Shipped

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
    )
    from pyspark.sql.types import StructType


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
        from ottla.spark.options.connector import value_options
        from ottla.spark.options.parsing import flag, optional
        from ottla.spark.source.schema import default_schema

        given = {name.lower(): text for name, text in self.options.items()}
        include_headers = optional(given, "includeHeaders", flag) or False
        return default_schema(value_options(given), include_headers=include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        from ottla.spark.options.connector import SourceOptions
        from ottla.spark.source.batch_reader import KafkaBatchReader

        options = SourceOptions.parse(self.options, streaming=False)
        if options.is_table:
            from ottla.spark.source.table_reader import KafkaTableReader

            return KafkaTableReader(options, schema)
        return KafkaBatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        from ottla.spark.options.connector import SourceOptions
        from ottla.spark.source.stream_reader import KafkaStreamReader

        return KafkaStreamReader(SourceOptions.parse(self.options, streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from ottla.spark.options.connector import SinkOptions
        from ottla.spark.options.parsing import OptionError
        from ottla.spark.sink.writers import KafkaBatchWriter

        if overwrite:
            raise OptionError(
                "Save mode Overwrite not allowed for Kafka: records cannot be replaced. Write with mode('append')"
            )
        return KafkaBatchWriter(SinkOptions.parse(self.options), schema)

    def streamWriter(  # noqa: N802  Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        from ottla.spark.options.connector import SinkOptions
        from ottla.spark.sink.writers import KafkaStreamWriter

        return KafkaStreamWriter(SinkOptions.parse(self.options), schema)
