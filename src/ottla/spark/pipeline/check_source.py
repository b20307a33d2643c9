"""What one source of a pipeline may be, the connector's own checks of its options included.

Not here: how it stands to other sources and to sinks (`checks`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, get_args

from ottla.spark.options.connector import SourceOptions
from ottla.spark.options.offsets import SpecificOffsets, starting_offsets
from ottla.spark.options.parsing import KAFKA_PREFIX, SPELLED, OptionError
from ottla.spark.pipeline.check_types import choice
from ottla.spark.pipeline.mistakes import Mistake, of_option, of_property, without_secrets
from ottla.spark.pipeline.model import Isolation, ValueFormat, WhenMalformed
from ottla.spark.pipeline.options import MALFORMED_COLUMN, SET_BY_SINK, SET_BY_SOURCE, source_options
from ottla.spark.pipeline.texts import did_you_mean, interval_mistake, topic_mistake

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

    from ottla.spark.pipeline.model import Pipeline, TopicSource

WORDS: Final[Mapping[str, str]] = {
    SPELLED.get(name, name): key for name, key in (*SET_BY_SINK.items(), *SET_BY_SOURCE.items())
}
"""Options by their names, and the keys that set them."""
_OPTION_FIRST: Final = re.compile(
    rf"(?:option ')?({'|'.join(re.escape(name) for name in WORDS if name.startswith('value.'))})(?![\w.])"
)
_OF_SPARK: Final = ("checkpointlocation", "path", "paths", "queryname", "outputmode", "sourcename")
_OF_STREAMS: Final = ("maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay", "ottla.commit.group")
_OF_BATCHES: Final = ("endingoffsets", "endingoffsetsbytimestamp", "endingtimestamp")
_EXAMPLE: Final = "'id bigint, customer string'"


def source_mistakes(pipeline: Pipeline, name: str, kafka: Mapping[str, str]) -> Iterator[Mistake]:
    """`kafka` are properties that are in order: the pipeline's, or others if those are not."""
    source = pipeline.sources[name]
    found = [*_own_mistakes(pipeline, source), *_option_mistakes(pipeline, source)]
    if not found:
        # Only now: it would say once more what has been said, in the words of options.
        found += _of_connector(pipeline, name, kafka)
    for where, what in found:
        yield Mistake(("sources", name, *where), what)


def _own_mistakes(pipeline: Pipeline, source: TopicSource) -> Iterator[Mistake]:
    yield from _of_topics(source)
    yield from choice(("format",), source.format, get_args(ValueFormat))
    yield from choice(("malformed",), source.malformed, get_args(WhenMalformed))
    yield from choice(("isolation",), source.isolation, get_args(Isolation))
    columns: Mapping[str, DataType] | None = None
    if source.format in get_args(ValueFormat):
        of_format = list(_of_format(source))
        yield from of_format
        if not of_format:
            try:
                columns = columns_of(source)
            except OptionError as error:
                yield Mistake(("schema",), of_option(error, "value.schema", WORDS))
    yield from _of_dead_letters(source, columns)
    yield from _of_start(pipeline, source)
    yield from _of_watermark(source, columns)
    if source.table:
        yield from _of_table(source)


# Topics


def _of_topics(source: TopicSource) -> Iterator[Mistake]:
    if source.pattern is not None and source.topics:
        yield Mistake(("pattern",), "topics are named too; leave out one of the two")
    elif source.pattern is None and not source.topics:
        yield Mistake(("topics",), "it is missing; name a topic, several or a pattern")
    for number, topic in enumerate(source.topics):
        if (wrong := topic_mistake(topic)) is not None:
            yield Mistake(("topics",), wrong)
        elif topic in source.topics[:number]:
            yield Mistake(("topics",), f"{topic!r} is there twice; leave one out")
    if source.pattern is not None:
        yield from _of_pattern(source.pattern)


def _of_pattern(pattern: str) -> Iterator[Mistake]:
    from ottla.spark.options.topics import parse_topics

    try:
        parse_topics({"subscribepattern": pattern})
    except OptionError as error:
        yield Mistake(("pattern",), of_option(error, "subscribePattern", WORDS))


# The value


def _of_format(source: TopicSource) -> Iterator[Mistake]:
    if source.format in ("bytes", "string"):
        if source.schema is not None:
            yield Mistake(
                ("schema",),
                f"values of format {source.format} have none; leave it out, or write json or avro",
            )
        if source.nested:
            yield Mistake(("nested",), f"values of format {source.format} have one column; leave it out")
    elif source.schema is None:
        advice = (
            f"write their columns, as in {_EXAMPLE}" if source.format == "json" else "name a file with one"
        )
        yield Mistake(("schema",), f"it is missing, and values of format {source.format} need one; {advice}")
    elif not source.schema.strip():
        yield Mistake(("schema",), f"it is empty; write the columns, as in {_EXAMPLE}")
    if source.format == "bytes" and source.malformed != "fail":
        yield Mistake(("malformed",), "bytes are taken as they are; leave it out, or write another format")


def columns_of(source: TopicSource) -> dict[str, DataType]:
    """The columns of the source's view; raises OptionError where the connector cannot read its schema."""
    from ottla.spark.source.schema import default_schema
    from ottla.spark.values import ValueOptions

    options: dict[str, str] = {}
    if source.format != "bytes":
        options["value.format"] = source.format
    if source.schema is not None:
        options["value.schema"] = source.schema
    if source.nested:
        options["value.nested"] = "true"
    schema = default_schema(ValueOptions.parse(options), include_headers=False)
    return {field.name: field.dataType for field in schema.fields}


def _of_dead_letters(source: TopicSource, columns: Mapping[str, DataType] | None) -> Iterator[Mistake]:
    if source.dead_letter is None:
        return
    where = ("dead_letter",)
    if (wrong := topic_mistake(source.dead_letter)) is not None:
        yield Mistake(where, wrong)
    if source.format == "bytes":
        yield Mistake(
            where, "bytes are never malformed; leave it out, or write the format string, json or avro"
        )
    if source.malformed == "drop":
        yield Mistake(where, "malformed values are dropped already; leave out one of the two")
    if columns is not None and MALFORMED_COLUMN in map(str.lower, columns):
        yield Mistake(
            ("schema",),
            f"the column {MALFORMED_COLUMN} is the one of dead letters; call it otherwise, or leave them out",
        )


# Where to begin


def _of_start(pipeline: Pipeline, source: TopicSource) -> Iterator[Mistake]:
    streaming = pipeline.mode != "batch" and not source.table
    try:
        start = starting_offsets({"startingoffsets": source.start}, streaming=streaming)
    except OptionError as error:
        near = did_you_mean(source.start, ("earliest", "latest"))
        said = (
            f"{source.start!r} is no place to begin;{near}"
            if near
            else of_option(error, "startingOffsets", WORDS)
        )
        yield Mistake(("start",), said)
        return
    if pipeline.mode == "batch" and source.start.strip().lower() == "latest":
        yield Mistake(("start",), "a batch ends where the latest record is; write earliest, or leave it out")
    if isinstance(start, SpecificOffsets) and source.topics:
        for topic in dict.fromkeys(partition.topic for partition in start.by_partition):
            if topic not in source.topics:
                advice = did_you_mean(topic, source.topics) or f" read are {', '.join(source.topics)}"
                yield Mistake(("start",), f"{topic!r} is not read by this source;{advice}")


# Time, tables


def _of_watermark(source: TopicSource, columns: Mapping[str, DataType] | None) -> Iterator[Mistake]:
    if source.watermark is None:
        return
    if (wrong := interval_mistake(source.watermark.delay)) is not None:
        yield Mistake(("watermark", "delay"), wrong)
    if columns is None:
        return
    # To Spark, names that differ only in case are one.
    types = {name.lower(): kind.simpleString() for name, kind in columns.items()}
    name = source.watermark.column
    kind = types.get(name.strip("`").lower())
    if kind is None:
        advice = did_you_mean(name, columns) or f" there are {', '.join(columns)}"
        yield Mistake(("watermark", "column"), f"the source has no column {name!r};{advice}")
    elif kind != "timestamp":
        yield Mistake(
            ("watermark", "column"), f"{name} is a {kind}; make it a timestamp in the schema, or name one"
        )


def _of_table(source: TopicSource) -> Iterator[Mistake]:
    if source.watermark is not None:
        yield Mistake(("watermark",), "a table is read anew for each micro-batch and has none; leave it out")
    if source.dead_letter is not None:
        yield Mistake(
            ("dead_letter",),
            "a table is read anew for each micro-batch, and would have the same ones each time; leave it out, or "
            "write malformed drop",
        )
    if source.start != "earliest":
        yield Mistake(("start",), "a table is read from the beginning each time; leave it out")


# Options


def _option_mistakes(pipeline: Pipeline, source: TopicSource) -> Iterator[Mistake]:
    for name in source.options:
        if (wrong := _option_mistake(pipeline, source, name.lower())) is not None:
            yield Mistake(("options", name), wrong)


def _option_mistake(pipeline: Pipeline, source: TopicSource, name: str) -> str | None:
    if name == "assign":
        return "partitions cannot be chosen here; name a topic, and offsets to begin at in start"
    if name == "topic":
        return "the pipeline sets it; write topic above"
    if name in SET_BY_SOURCE:
        return f"the pipeline sets it; write {SET_BY_SOURCE[name]} of the source instead"
    if name in _OF_STREAMS and (source.table or pipeline.mode == "batch"):
        return f"it is for streams only, and this is a {'table' if source.table else 'batch'}; leave it out"
    if name in _OF_BATCHES and pipeline.mode != "batch":
        return "it is for batches only; leave it out, or write the mode batch"
    return unknown_option(name)


def unknown_option(name: str) -> str | None:
    """Of an option of `format("ottla")`, in lower case, that neither the connector nor Kafka's client knows."""
    from ottla.spark.options.client import unknown

    if name in _OF_SPARK or (name.startswith("ottla.") and name != "ottla.commit.group"):
        return "the pipeline sees to it; leave it out"
    if name.startswith(KAFKA_PREFIX):
        advice = unknown(name[len(KAFKA_PREFIX) :], prefix=KAFKA_PREFIX)
        return None if advice is None else f"there is no such property; {advice}"
    if name in SPELLED:
        return None
    near = did_you_mean(name, SPELLED.values())
    return f"there is no such option;{near or ' docs/spark.md has them all'}"


def _of_connector(pipeline: Pipeline, name: str, kafka: Mapping[str, str]) -> Iterator[Mistake]:
    source = pipeline.sources[name]
    own = {option.lower() for option in source.options}
    replaced = {KAFKA_PREFIX + each for each in pipeline.kafka if KAFKA_PREFIX + each.lower() not in own}
    options = {key: text for key, text in source_options(pipeline, name).items() if key not in replaced}
    options |= {KAFKA_PREFIX + key: text for key, text in kafka.items() if KAFKA_PREFIX + key not in own}
    try:
        SourceOptions.parse(options, streaming=pipeline.mode != "batch" and not source.table)
    except OptionError as error:
        yield connector_mistake(error, source.options)


def connector_mistake(error: OptionError, options: Mapping[str, str]) -> Mistake:
    """At the option of the user that the connector names, or at the key that sets the one that it begins with."""
    text = without_secrets(str(error), options)
    for name in sorted(options, key=len, reverse=True):
        bare = name.lower().removeprefix(KAFKA_PREFIX)
        if bare != name.lower() and bare in text:
            return Mistake(("options", name), of_property(OptionError(text), bare, WORDS))
        if name.lower() in text.lower():
            return Mistake(("options", name), of_option(OptionError(text), name, WORDS))
    first = _OPTION_FIRST.match(text)
    option = "" if first is None else first[1]
    return Mistake((WORDS[option],) if option else (), of_option(OptionError(text), option, WORDS))
