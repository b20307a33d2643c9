"""What the tests of the sink share: options for a cluster, batches of rows as Spark hands them over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from ottla.broker import Cluster
from ottla.spark.options.connector import SinkOptions
from ottla.spark.sink.columns import SinkColumns
from ottla.spark.sink.row_sender import send_rows
from ottla.spark.sink.sent_rows import SentRows

HEADERS = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))
_ARROW = {
    "value": pyarrow.binary(),
    "key": pyarrow.binary(),
    "topic": pyarrow.string(),
    "partition": pyarrow.int32(),
    "headers": HEADERS,
}
_SPARK: dict[str, DataType] = {
    "value": BinaryType(),
    "key": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "headers": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}


def schema_of(*names: str, **types: DataType) -> StructType:
    """Columns with these names and the types they should have, or those that are given."""
    return StructType(
        [StructField(name, types[name] if name in types else _SPARK[name]) for name in (*names, *types)]
    )


def rows(**columns: Sequence[Any]) -> pyarrow.RecordBatch:
    """A batch with these columns, in Spark's types."""
    arrays = [pyarrow.array(values, _ARROW[name]) for name, values in columns.items()]
    return pyarrow.RecordBatch.from_arrays(arrays, names=list(columns))


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def sink_options(
    kafka: Cluster | str, topic: str | None = None, delivery: str = "at-least-once", **options: str
) -> SinkOptions:
    """`options` for Kafka's client, with underscores."""
    bootstrap = kafka if isinstance(kafka, str) else kafka.bootstrap
    given = {f"kafka.{name.replace('_', '.')}": value for name, value in options.items()}
    if topic is not None:
        given["topic"] = topic
    return SinkOptions.parse({"kafka.bootstrap.servers": bootstrap, "ottla.delivery": delivery, **given})


def send(
    kafka: Cluster | str,
    batches: Sequence[pyarrow.RecordBatch] | Iterator[pyarrow.RecordBatch],
    topic: str | None = None,
    columns: Sequence[str] = (),
    **options: str,
) -> SentRows:
    """What a task does; `columns` are needed only where there is no first batch to look at."""
    names = columns or batches[0].schema.names  # type: ignore[index]
    found = SinkColumns.of(schema_of(*names), topic)
    return send_rows(iter(batches), sink_options(kafka, topic, **options), found)


def values(kafka: Cluster, topic: str, partition: int | None = None) -> list[bytes | None]:
    return [record.value for record in kafka.dump(topic, partition)]
