"""What a pipeline hands to Spark as options: of `format("ottla")`, of checkpoints, of triggers.

Names of the pipeline become names of the connector here and nowhere else; what they mean is the connector's.

Invariant: a pipeline gives the same names every time. The checkpoint and the sink id of a query are what exactly-once
delivery goes on from after a restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ottla.spark.options.parsing import KAFKA_PREFIX

if TYPE_CHECKING:
    from ottla.spark.pipeline.model import Pipeline, TopicSink, TopicSource

AVAILABLE_NOW: Final = "available-now"
MALFORMED_COLUMN: Final = "_malformed"
"""Where the bytes of malformed values are, of sources that have dead letters."""

# Lower case -> the key that sets it. The rest of `kafka.*` is for all sources and sinks, or for one in its options.
SET_BY_SOURCE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "subscribe": "topic",
        "subscribepattern": "pattern",
        "startingoffsets": "start",
        "value.format": "format",
        "value.schema": "schema",
        "value.malformed": "malformed",
        "value.malformed.column": "dead_letter",
        "value.nested": "nested",
        "kafka.isolation.level": "isolation",
    }
)
SET_BY_SINK: Final[Mapping[str, str]] = MappingProxyType(
    {
        "topic": "topic",
        "value.format": "format",
        "value.schema": "schema",
        "value.malformed.column": "dead_letter",
        "outputmode": "output",
        "checkpointlocation": "checkpoint",
        "ottla.delivery": "delivery",
        "ottla.sink.id": "name",
    }
)


def source_options(pipeline: Pipeline, name: str) -> dict[str, str]:
    """For `spark.readStream.format("ottla")`, or `spark.read` where the source is a table or the pipeline a batch."""
    source = pipeline.sources[name]
    options = {**_kafka(pipeline), "kafka.isolation.level": source.isolation, **_topics_of(source)}
    options["startingOffsets"] = source.start
    if source.format != "bytes":
        options |= _value_of(source)
    options = _merged(options, source.options)
    if source.dead_letter is not None:
        # A malformed record is written again as it came, headers and all.
        options = _merged(options, {"includeHeaders": "true"})
    return options


def sink_options(pipeline: Pipeline, name: str) -> dict[str, str]:
    """For `writeStream.format("ottla")`, `ottla.spark.Sink`, or `write` in a pipeline of mode batch.

    Without a topic where dead letters are written with the rows: each row has its own then.
    """
    sink = pipeline.sinks[name]
    options = {
        **_kafka(pipeline),
        "ottla.sink.id": sink_id(pipeline, name),
        "ottla.delivery": pipeline.delivery,
    }
    if not writes_dead_letters(pipeline, name):
        options["topic"] = sink.topic
    if sink.format in ("json", "avro"):
        options["value.format"] = sink.format
    if sink.schema is not None:
        options["value.schema"] = sink.schema
    checkpoint = sink_checkpoint(pipeline, name)
    if checkpoint is not None:
        options["checkpointLocation"] = checkpoint
    return _merged(options, sink.options)


def sink_id(pipeline: Pipeline, name: str) -> str:
    """The name of the sink's transactions and of its control topic."""
    return f"{pipeline.name}-{name}"


def sink_checkpoint(pipeline: Pipeline, name: str) -> str | None:
    """Where the query of a sink has its checkpoint; None in a pipeline of mode batch."""
    return None if pipeline.checkpoint is None else f"{pipeline.checkpoint.rstrip('/')}/{name}"


def trigger_options(pipeline: Pipeline) -> dict[str, str | bool]:
    """The arguments of `writeStream.trigger`; none where there is nothing to set."""
    if pipeline.trigger is None:
        return {}
    if pipeline.trigger == AVAILABLE_NOW:
        return {"availableNow": True}
    return {"processingTime": pipeline.trigger}


def writes_dead_letters(pipeline: Pipeline, name: str) -> bool:
    """Whether the query of this sink writes the dead letters: the first does, if any source has some."""
    return name == next(iter(pipeline.sinks)) and any(True for _ in dead_letter_sources(pipeline))


def dead_letter_sources(pipeline: Pipeline) -> Iterator[tuple[str, TopicSource]]:
    """The sources whose malformed values go to a topic."""
    return ((name, source) for name, source in pipeline.sources.items() if source.dead_letter is not None)


def wants_headers(source: TopicSource | TopicSink) -> bool:
    """Whether the user asked for the column `headers`; with dead letters a source reads it in any case."""
    given = {name.lower(): value for name, value in source.options.items()}
    return given.get("includeheaders", "").lower() == "true"


def _merged(options: Mapping[str, str], over: Mapping[str, str]) -> dict[str, str]:
    """`over` beats `options`. To Spark, names that differ only in case are one."""
    beaten = {name.lower() for name in over}
    return {**{name: text for name, text in options.items() if name.lower() not in beaten}, **over}


def _kafka(pipeline: Pipeline) -> dict[str, str]:
    return {KAFKA_PREFIX + name: value for name, value in pipeline.kafka.items()}


def _topics_of(source: TopicSource) -> dict[str, str]:
    if source.pattern is not None:
        return {"subscribePattern": source.pattern}
    return {"subscribe": ",".join(source.topics)}


def _value_of(source: TopicSource) -> dict[str, str]:
    options: dict[str, str] = {"value.format": source.format}
    if source.schema is not None:
        options["value.schema"] = source.schema
    if source.nested:
        options["value.nested"] = "true"
    malformed = source.malformed if source.dead_letter is None else "column"
    if malformed != "fail":
        options["value.malformed"] = malformed
    return options
