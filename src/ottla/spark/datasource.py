"""OttlaDataSource: what Spark asks for when somebody writes `format("ottla")`.

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

from ottla.spark.option_values import OptionError, flag, optional
from ottla.spark.options import SinkOptions, SourceOptions, value_options
from ottla.spark.schema import default_schema
from ottla.spark.shipping import Shipped


class OttlaDataSource(Shipped, DataSource):
    """Reads and writes Kafka, as batches and as streams."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> StructType:
        """The columns of those who do not choose any.

        Spark asks before it says whether a stream is wanted, so only the options that columns depend on are parsed.
        """
        given = {name.lower(): text for name, text in self.options.items()}
        include_headers = optional(given, "includeHeaders", flag) or False
        return default_schema(value_options(given), include_headers=include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        from ottla.spark.batch_reader import BatchReader

        return BatchReader(SourceOptions.parse(self.options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        from ottla.spark.stream_reader import StreamReader

        return StreamReader(SourceOptions.parse(self.options, streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from ottla.spark.batch_writer import BatchWriter

        if overwrite:
            raise OptionError(
                "Save mode Overwrite not allowed for Kafka: records cannot be replaced. Write with mode('append')"
            )
        return BatchWriter(SinkOptions.parse(self.options), schema)

    def streamWriter(  # noqa: N802  Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        from ottla.spark.stream_writer import StreamWriter

        return StreamWriter(SinkOptions.parse(self.options), schema)
