"""What one sink of a pipeline may be, the connector's own checks of its options included.

Not here: how it stands to other sinks and to sources (`checks`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, get_args

from ottla.spark.options.connector import SinkOptions
from ottla.spark.options.parsing import KAFKA_PREFIX, SPELLED, OptionError
from ottla.spark.pipeline.check_source import WORDS, columns_of, connector_mistake, unknown_option
from ottla.spark.pipeline.check_types import choice
from ottla.spark.pipeline.mistakes import Mistake, of_option
from ottla.spark.pipeline.model import OutputMode, ValueFormat
from ottla.spark.pipeline.options import SET_BY_SINK, sink_id, sink_options
from ottla.spark.pipeline.texts import (
    did_you_mean,
    pipeline_mistake,
    topic_mistake,
    view_mistake,
)

if TYPE_CHECKING:
    from ottla.spark.pipeline.model import Pipeline, TopicSink

_OF_SINKS: Final = frozenset({"includeheaders"})


def sink_mistakes(pipeline: Pipeline, name: str, kafka: Mapping[str, str]) -> Iterator[Mistake]:
    """`kafka` are properties that are in order: the pipeline's, or others if those are not."""
    sink = pipeline.sinks[name]
    found = [*_own_mistakes(pipeline, sink), *_option_mistakes(sink)]
    if not found:
        found += list(_of_id(pipeline, name)) or list(_of_connector(pipeline, name, kafka))
    for where, what in found:
        yield Mistake(("sinks", name, *where), what)


def _own_mistakes(pipeline: Pipeline, sink: TopicSink) -> Iterator[Mistake]:
    if not sink.topic:
        yield Mistake(("topic",), "it is missing; name the topic to write to")
    elif (wrong := topic_mistake(sink.topic)) is not None:
        yield Mistake(("topic",), wrong)
    yield from choice(("format",), sink.format, get_args(ValueFormat))
    yield from choice(("output",), sink.output, get_args(OutputMode))
    if pipeline.mode == "batch" and sink.output in ("update", "complete"):
        yield Mistake(("output",), f"{sink.output} is of streams, and a batch has one result; leave it out")
    yield from _of_schema(sink)
    for key, text in (("key", sink.key), ("where", sink.where)):
        if text is not None and not text.strip():
            yield Mistake((key,), "it is empty; write an expression in SQL, or leave it out")
    yield from _of_columns(pipeline, sink)


def _of_schema(sink: TopicSink) -> Iterator[Mistake]:
    if sink.schema is None:
        return
    if sink.format != "avro":
        if sink.format in get_args(ValueFormat):
            yield Mistake(
                ("schema",),
                f"what is written as {sink.format} takes no schema; leave it out, or write the format avro",
            )
        return
    if not sink.schema.strip():
        yield Mistake(
            ("schema",), "it is empty; write an Avro schema, or leave it out to have one made of the columns"
        )
        return
    from ottla.spark.values.avro_schema import columns_of as columns_of_avro
    from ottla.spark.values.avro_schema import parse_avro

    try:
        fields = columns_of_avro(parse_avro(sink.schema)).names
    except OptionError as error:
        yield Mistake(("schema",), of_option(error, "value.schema", WORDS))
        return
    for column in sink.columns:
        if column not in fields:
            advice = did_you_mean(column, fields) or f" there are {', '.join(fields)}"
            yield Mistake(("columns",), f"the schema has no field {column};{advice}")


def _of_columns(pipeline: Pipeline, sink: TopicSink) -> Iterator[Mistake]:
    for number, column in enumerate(sink.columns):
        if not column.strip():
            yield Mistake(("columns",), "a name in it is empty; write the names of columns")
        elif column.lower() in [each.lower() for each in sink.columns[:number]]:
            yield Mistake(("columns",), f"{column} is there twice; leave one out")
    untyped = sink.format in ("bytes", "string")
    if untyped and len(sink.columns) > 1:
        yield Mistake(
            ("columns",),
            f"a sink of format {sink.format} writes one column; name one, or write the format json",
        )
        return
    there = _known_columns(pipeline)
    if there is None:
        return
    wanted = sink.columns or (("value",) if untyped else ())
    for column in wanted:
        if column.strip() and column.lower() not in map(str.lower, there):
            advice = did_you_mean(column, there) or f" there are {', '.join(there)}"
            where, which = ("columns", "it names") if sink.columns else ("format", f"{sink.format} writes")
            yield Mistake((where,), f"{which} the column {column}, which the rows lack;{advice}")


def _known_columns(pipeline: Pipeline) -> list[str] | None:
    """The columns of the rows, where that can be known: those of the only source, if nothing transforms it."""
    if pipeline.transform is not None or len(pipeline.sources) != 1:
        return None
    (source,) = pipeline.sources.values()
    if source.format not in get_args(ValueFormat):
        return None
    try:
        return [*columns_of(source), "headers"]
    except OptionError:
        # Said of the source.
        return None


def _option_mistakes(sink: TopicSink) -> Iterator[Mistake]:
    for name in sink.options:
        lower = name.lower()
        if lower == "ottla.sink.id":
            yield Mistake(
                ("options", name), "it is the pipeline's name and the sink's; choose another name of the sink"
            )
        elif lower in SET_BY_SINK:
            of = "pipeline" if SET_BY_SINK[lower] in ("checkpoint", "delivery") else "sink"
            yield Mistake(
                ("options", name), f"the pipeline sets it; write {SET_BY_SINK[lower]} of the {of} instead"
            )
        elif lower in SPELLED and lower not in _OF_SINKS and not lower.startswith(("value.", "ottla.")):
            yield Mistake(("options", name), "it is an option of sources; leave it out here")
        elif (wrong := unknown_option(lower)) is not None:
            yield Mistake(("options", name), wrong)


def _of_id(pipeline: Pipeline, name: str) -> Iterator[Mistake]:
    """Names that are wrong by themselves are said elsewhere."""
    from ottla.spark.sink.exactly_once.names import SinkNames

    if pipeline_mistake(pipeline.name) is None and view_mistake(name) is None:
        try:
            SinkNames(sink_id(pipeline, name))
        except ValueError as error:
            yield Mistake(
                (), f"the name of the pipeline and of the sink make its {error}; write shorter ones"
            )


def _of_connector(pipeline: Pipeline, name: str, kafka: Mapping[str, str]) -> Iterator[Mistake]:
    sink = pipeline.sinks[name]
    if pipeline_mistake(pipeline.name) is not None or view_mistake(name) is not None:
        return
    own = {option.lower() for option in sink.options}
    replaced = {KAFKA_PREFIX + each for each in pipeline.kafka if KAFKA_PREFIX + each.lower() not in own}
    options = {key: text for key, text in sink_options(pipeline, name).items() if key not in replaced}
    options |= {KAFKA_PREFIX + key: text for key, text in kafka.items() if KAFKA_PREFIX + key not in own}
    if pipeline.delivery not in ("exactly-once", "at-least-once"):
        del options["ottla.delivery"]
    try:
        SinkOptions.parse(options)
    except OptionError as error:
        yield connector_mistake(error, sink.options)
