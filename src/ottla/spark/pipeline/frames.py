"""From sources to DataFrames, and from what the transform makes of them to what a sink writes.

A source with dead letters is read with a column for malformed values. One stream, used twice: its rows without
malformed values are the view, the others are dead letters, added to the rows of the first sink. To Spark it is one
source of the query, with one range of offsets for each micro-batch: good and malformed rows of a range are written in
the same transactions.

A table is the newest value of each key. Spark asks a source once what it reads, and keeps that for all micro-batches
of a query: so a table is read by tasks that find out where its topic ends themselves (`table_reader`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

from ottla.spark.options.connector import TABLE
from ottla.spark.pipeline.mistakes import Mistake, PipelineError, in_a_program
from ottla.spark.pipeline.options import (
    MALFORMED_COLUMN,
    source_options,
    wants_headers,
    writes_dead_letters,
)
from ottla.spark.pipeline.progress import READ_AGAIN
from ottla.spark.source.schema import HEADERS_TYPE, KAFKA_TYPES
from ottla.spark.values.avro_schema import parse_avro

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession

    from ottla.spark.pipeline.model import Pipeline, TopicSink, TopicSource

_HEADERS: Final = "headers"
_DEAD_LETTER: Final = "ottla.dead_letter."
"""What the headers begin with that say where a dead letter came from, as those of ottla.DeadLetters."""


@dataclass(frozen=True)
class SourceFrames:
    """A source as the transform sees it, and its malformed rows, as they are read."""

    view: DataFrame
    malformed: DataFrame | None = None


# Sources


def source_frames(pipeline: Pipeline, spark: SparkSession) -> dict[str, SourceFrames]:
    """All sources of a pipeline, by name."""
    return {name: _source(pipeline, name, spark) for name in pipeline.sources}


def _source(pipeline: Pipeline, name: str, spark: SparkSession) -> SourceFrames:
    source = pipeline.sources[name]
    options = source_options(pipeline, name)
    if source.table:
        options[TABLE] = "true"
        expanded = not source.nested and _has_fields(source)
        if expanded:
            # One struct of all fields tells a record without a value from one whose fields are all null.
            options["value.nested"] = "true"
        newest = _newest(spark.read.format("ottla").options(**options).load())
        return SourceFrames(_expanded(newest) if expanded else newest)
    reader = spark.read if pipeline.mode == "batch" else spark.readStream
    read = reader.format("ottla").options(**options).load()
    if source.dead_letter is None:
        return SourceFrames(_watermarked(read, source))
    good = read.where(f.col(MALFORMED_COLUMN).isNull()).drop(MALFORMED_COLUMN)
    if not wants_headers(source):
        good = good.drop(_HEADERS)
    return SourceFrames(_watermarked(good, source), read)


def _watermarked(frame: DataFrame, source: TopicSource) -> DataFrame:
    if source.watermark is None:
        return frame
    return frame.withWatermark(source.watermark.column, source.watermark.delay)


def _has_fields(source: TopicSource) -> bool:
    """Whether a value is several columns, of which each may be null by itself. Avro need not be a record."""
    if source.format != "avro":
        return source.format == "json"
    assert source.schema is not None
    return isinstance(parse_avro(source.schema).spark, StructType)


def _newest(read: DataFrame) -> DataFrame:
    """A key lives in one partition: the row with its largest offset is the newest. One without a value removes it."""
    rest = f.struct(*(name for name in read.columns if name != "key"))
    newest = read.where("key IS NOT NULL").groupBy("key").agg(f.max_by(rest, "offset").alias("newest"))
    return newest.select("key", "newest.*").where("value IS NOT NULL")


def _expanded(table: DataFrame) -> DataFrame:
    """With the fields of the value in its place."""
    return table.select(*("value.*" if name == "value" else name for name in table.columns))


# The transform


def transformed(pipeline: Pipeline, sources: Mapping[str, SourceFrames], spark: SparkSession) -> DataFrame:
    """What the sinks are fed with."""
    from ottla.spark.pipeline.transform import apply

    return apply(pipeline, spark, {name: frames.view for name, frames in sources.items()})


# Sinks


def sink_frame(
    pipeline: Pipeline, name: str, result: DataFrame, sources: Mapping[str, SourceFrames]
) -> DataFrame:
    """Rows as the connector's sink takes them, dead letters among them."""
    sink = pipeline.sinks[name]
    rows = _records(result, name, sink, identity=pipeline.transform is None)
    if writes_dead_letters(pipeline, name):
        rows = rows.withColumn("topic", f.lit(sink.topic))
        for letters in _dead_letters(pipeline, sources):
            rows = rows.unionByName(letters, allowMissingColumns=True)
    return rows


def observed(pipeline: Pipeline, rows: DataFrame, observation: str | Observation) -> DataFrame:
    """The rows of a sink, counted on their way."""
    topics = [each.dead_letter for each in pipeline.sources.values() if each.dead_letter is not None]
    is_letter = f.col("topic").isin(topics) if "topic" in rows.columns else f.lit(False)
    return rows.observe(
        observation, f.count(f.lit(1)).alias("rows"), f.count_if(is_letter).alias("dead_letters")
    )


def _records(result: DataFrame, name: str, sink: TopicSink, *, identity: bool) -> DataFrame:
    """Key, value and headers of each row that the sink wants."""
    rows = result if sink.where is None else result.where(sink.where)
    columns: list[Column] = []
    key = "key" if sink.key is None and "key" in rows.columns else None
    if sink.key is not None:
        columns.append(f.expr(sink.key).alias("key"))
    elif key is not None:
        columns.append(f.col("key"))
    has_headers = _HEADERS not in sink.columns and _is_headers(rows)
    if has_headers:
        columns.append(f.col(_HEADERS))
    columns.append(_value(rows, name, sink, [key] if key else [], has_headers, identity).alias("value"))
    records = rows.select(*columns)
    if "key" not in records.columns:
        return records
    return records.withColumn("key", _as_key(records, name))


def _is_headers(rows: DataFrame) -> bool:
    return _HEADERS in rows.columns and rows.schema[_HEADERS].dataType == HEADERS_TYPE


def _value(
    rows: DataFrame, name: str, sink: TopicSink, key: list[str], has_headers: bool, identity: bool
) -> Column:
    columns = list(sink.columns) or [
        each
        for each in rows.columns
        if each not in key
        and not (has_headers and each == _HEADERS)
        # Where nothing is transformed, what Kafka says of a record is no part of its value.
        and not (identity and each in KAFKA_TYPES and each != "value")
    ]
    if sink.format in ("json", "avro"):
        # The connector's sink encodes it.
        return f.struct(*(_column(each) for each in columns))
    if len(sink.columns) == 1:
        [column] = sink.columns
    elif "value" in rows.columns:
        column = "value"
    else:
        raise _refused(
            name,
            "format",
            f"{sink.format} takes a column named value, and the result has {', '.join(rows.columns)}: "
            "name one of them in columns, or call it value",
        )
    kind = rows.schema[column].dataType
    if isinstance(kind, StructType | ArrayType | MapType):
        raise _refused(
            name, "format", f"the column {column} is {kind.simpleString()}: use json or avro for it"
        )
    text = _column(column) if isinstance(kind, BinaryType) else _column(column).cast("string")
    return text.cast("binary")


def _column(name: str) -> Column:
    """Of this very name: dots in it lead nowhere."""
    return f.col("`" + name.replace("`", "``") + "`")


def _as_key(records: DataFrame, name: str) -> Column:
    """Binary; numbers and the like as text."""
    kind = records.schema["key"].dataType
    if isinstance(kind, StructType | ArrayType | MapType):
        raise _refused(
            name,
            "key",
            f"it is {kind.simpleString()}, and has to be a string or binary: to_json(...) makes it one",
        )
    key = f.col("key")
    if isinstance(kind, BinaryType):
        return key
    return (key if isinstance(kind, StringType) else key.cast("string")).cast("binary")


def _refused(sink: str, key: str, what: str) -> PipelineError:
    return PipelineError([mistake := Mistake(("sinks", sink, key), what)], in_a_program(mistake))


def _dead_letters(pipeline: Pipeline, sources: Mapping[str, SourceFrames]) -> Iterator[DataFrame]:
    """Of each source: the malformed records as they came, with headers that say where that was."""
    for name, frames in sources.items():
        source = pipeline.sources[name]
        if frames.malformed is None or source.dead_letter is None:
            continue
        read = frames.malformed.observe(READ_AGAIN + name, f.count(f.lit(1)).alias("rows"))
        why = {
            "topic": f.col("topic"),
            "partition": f.col("partition").cast("string"),
            "offset": f.col("offset").cast("string"),
            "timestamp": f.unix_millis("timestamp").cast("string"),
            "error": f.lit(f"the value is not {source.format} of the schema of source {name}"),
        }
        reasons = f.array(
            *(
                f.struct(f.lit(_DEAD_LETTER + each).alias("key"), text.cast("binary").alias("value"))
                for each, text in why.items()
            )
        ).cast(HEADERS_TYPE)
        came = f.coalesce(f.col(_HEADERS), f.array().cast(HEADERS_TYPE))
        yield read.where(f.col(MALFORMED_COLUMN).isNotNull()).select(
            f.col("key"),
            f.concat(came, reasons).alias(_HEADERS),
            f.lit(source.dead_letter).alias("topic"),
            _as_it_came(pipeline),
        )


def _as_it_came(pipeline: Pipeline) -> Column:
    """The bytes of a malformed value, in the column that the first sink writes as it is."""
    first = next(iter(pipeline.sinks.values()))
    column = MALFORMED_COLUMN if first.format in ("json", "avro") else "value"
    return f.col(MALFORMED_COLUMN).alias(column)
