"""What a pipeline may be: every mistake that can be known without Spark and without a broker.

Here is what concerns a pipeline as a whole; one source is in `check_source`, one sink in `check_sink`, and what the
connector says of the options that come out of a pipeline is asked there.

Invariant: mistakes are found all together. Only where a value is of a wrong type, nothing else is looked at.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Final, get_args

from ottla.spark.options.java_regex import PatternError, python_pattern
from ottla.spark.options.parsing import KAFKA_PREFIX, OptionError
from ottla.spark.pipeline import transform
from ottla.spark.pipeline.check_sink import sink_mistakes
from ottla.spark.pipeline.check_source import WORDS, source_mistakes
from ottla.spark.pipeline.check_types import choice, type_mistakes
from ottla.spark.pipeline.mistakes import Mistake, of_property, raise_mistakes, without_secrets
from ottla.spark.pipeline.model import Mode, PipelineDelivery
from ottla.spark.pipeline.options import dead_letter_sources
from ottla.spark.pipeline.texts import pipeline_mistake, trigger_mistake, view_mistake

if TYPE_CHECKING:
    from ottla.spark.pipeline.model import Pipeline, TopicSink, TopicSource

_BOOTSTRAP: Final = "bootstrap.servers"
_KAFKA: Final = "kafka"
# A place for the connector's checks of other options, where the user's own servers are wrong.
_SOMEWHERE: Final[Mapping[str, str]] = {_BOOTSTRAP: "localhost:9092"}


def check(pipeline: Pipeline) -> None:
    """Raises PipelineError with all mistakes."""
    raise_mistakes(type_mistakes(pipeline), str(pipeline.name))
    raise_mistakes(_mistakes(pipeline), pipeline.name)


def _mistakes(pipeline: Pipeline) -> Iterator[Mistake]:
    yield from _of_names(pipeline)
    yield from _of_modes(pipeline)
    of_kafka = list(_of_kafka(pipeline))
    yield from of_kafka
    kafka = _SOMEWHERE if of_kafka else pipeline.kafka
    for name in pipeline.sources:
        yield from source_mistakes(pipeline, name, kafka)
    yield from transform.mistakes(pipeline.transform, pipeline.sources)
    for name in pipeline.sinks:
        yield from sink_mistakes(pipeline, name, kafka)
    yield from _of_topics(pipeline)
    yield from _of_spark(pipeline)


# Names


def _of_names(pipeline: Pipeline) -> Iterator[Mistake]:
    if (wrong := pipeline_mistake(pipeline.name)) is not None:
        yield Mistake(("name",), wrong)
    if not pipeline.sources:
        yield Mistake(("sources",), "there are none; name a topic to read")
    if not pipeline.sinks:
        yield Mistake(("sinks",), "there are none; name a topic to write to")
    for kind, names in (("sources", list(pipeline.sources)), ("sinks", list(pipeline.sinks))):
        for name in names:
            if (wrong := view_mistake(name)) is not None:
                yield Mistake((kind, name), wrong)
        for first, second in pairwise(sorted(names, key=str.lower)):
            if first.lower() == second.lower():
                yield Mistake((kind, second), f"to Spark {second} and {first} are one name; give it another")


# Modes


def _of_modes(pipeline: Pipeline) -> Iterator[Mistake]:
    yield from choice(("mode",), pipeline.mode, get_args(Mode))
    yield from choice(("delivery",), pipeline.delivery, get_args(PipelineDelivery))
    if pipeline.mode == "batch":
        yield from _of_batch(pipeline)
    elif pipeline.mode == "stream":
        yield from _of_stream(pipeline)


def _of_batch(pipeline: Pipeline) -> Iterator[Mistake]:
    if pipeline.trigger is not None:
        yield Mistake(
            ("trigger",), "a batch has no micro-batches; leave it out, or have a stream with 'available-now'"
        )
    if pipeline.checkpoint is not None:
        yield Mistake(
            ("checkpoint",),
            "a batch has no checkpoint; leave it out, or have a stream with the trigger 'available-now', which reads "
            "what is there and goes on from its checkpoint the next time",
        )


def _of_stream(pipeline: Pipeline) -> Iterator[Mistake]:
    if pipeline.checkpoint is None:
        yield Mistake(
            ("checkpoint",), "it is missing; name a folder in which the queries keep how far they are"
        )
    elif not pipeline.checkpoint.strip():
        yield Mistake(
            ("checkpoint",), "it is empty; name a folder in which the queries keep how far they are"
        )
    if pipeline.trigger is not None and (wrong := trigger_mistake(pipeline.trigger)) is not None:
        yield Mistake(("trigger",), wrong)
    if pipeline.sources and all(source.table for source in pipeline.sources.values()):
        first = next(iter(pipeline.sources))
        yield Mistake(
            ("sources", first, "table"),
            "no source is a stream, all are tables; leave it out of one of them, or write the mode batch",
        )


# Kafka


def _of_kafka(pipeline: Pipeline) -> Iterator[Mistake]:
    from ottla.spark.options.client import sink_config, source_config, transactional_config

    wrong = {name: said for name in pipeline.kafka if (said := _property_mistake(name)) is not None}
    yield from (Mistake((_KAFKA, name), said) for name, said in wrong.items())
    kafka = {name.lower(): text for name, text in pipeline.kafka.items() if name not in wrong}
    misspelt = any(_BOOTSTRAP in said for said in wrong.values())
    if _BOOTSTRAP not in kafka and not misspelt and not _all_have_servers(pipeline):
        yield Mistake((_KAFKA, _BOOTSTRAP), "it is missing; name at least one broker, as host:port")
    writing = transactional_config if pipeline.delivery == "exactly-once" else sink_config
    for config in (source_config, writing):
        try:
            config({**_SOMEWHERE, **kafka})
        except OptionError as error:
            name = _named_in(str(error), pipeline.kafka)
            said = without_secrets(of_property(error, name, WORDS), pipeline.kafka)
            yield Mistake((_KAFKA, name) if name else (_KAFKA,), said)


def _property_mistake(name: str) -> str | None:
    from ottla.spark.options.client import unknown

    if name.startswith(KAFKA_PREFIX):
        return f"all names here are of Kafka; write {name[len(KAFKA_PREFIX) :]}"
    if name == "isolation.level":
        return "each source has its own; leave it out here, and write isolation there"
    advice = unknown(name.lower())
    return None if advice is None else f"there is no such property; {advice}"


def _named_in(text: str, names: Mapping[str, str]) -> str:
    """The first of the names that a message has; the longest of those that begin there."""
    found = [(text.index(name), -len(name), name) for name in names if name in text]
    return min(found)[2] if found else ""


def _all_have_servers(pipeline: Pipeline) -> bool:
    both: list[TopicSource | TopicSink] = [*pipeline.sources.values(), *pipeline.sinks.values()]
    return all(_servers(pipeline, each) is not None for each in both)


def _servers(pipeline: Pipeline, one: TopicSource | TopicSink) -> frozenset[str] | None:
    """Which cluster it is on; a source or a sink may have one of its own."""
    options = {name.lower(): text for name, text in one.options.items()}
    text = options.get(KAFKA_PREFIX + _BOOTSTRAP, pipeline.kafka.get(_BOOTSTRAP))
    return None if text is None else frozenset(text.replace(" ", "").split(","))


# Topics that are read and written


def _of_topics(pipeline: Pipeline) -> Iterator[Mistake]:
    yield from _of_loops(pipeline)
    yield from _of_shared_sinks(pipeline)
    sinks = {sink.topic: name for name, sink in pipeline.sinks.items()}
    for name, source in dead_letter_sources(pipeline):
        where = ("sources", name, "dead_letter")
        topic = str(source.dead_letter)
        if topic in sinks:
            yield Mistake(
                where,
                f"{topic!r} is the topic of the sink {sinks[topic]}; give dead letters one of their own",
            )
        for reader in _readers(pipeline, topic):
            yield Mistake(
                where, f"{topic!r} is read by the source {reader}; give dead letters a topic of their own"
            )


def _of_loops(pipeline: Pipeline) -> Iterator[Mistake]:
    for name, sink in pipeline.sinks.items():
        for reader in _readers(pipeline, sink.topic):
            if _servers(pipeline, sink) == _servers(pipeline, pipeline.sources[reader]):
                yield Mistake(
                    ("sinks", name, "topic"),
                    f"{sink.topic!r} is read by the source {reader}: the pipeline would read what it has written, "
                    "without an end; write to another topic",
                )


def _readers(pipeline: Pipeline, topic: str) -> Iterator[str]:
    for name, source in pipeline.sources.items():
        if topic in source.topics or (source.pattern is not None and _finds(source.pattern, topic)):
            yield name


def _finds(pattern: str, topic: str) -> bool:
    try:
        return re.search(python_pattern(pattern), topic) is not None
    except PatternError:
        # Said of the source.
        return False


def _of_shared_sinks(pipeline: Pipeline) -> Iterator[Mistake]:
    first: dict[tuple[str, frozenset[str] | None], str] = {}
    for name, sink in pipeline.sinks.items():
        other = first.setdefault((sink.topic, _servers(pipeline, sink)), name)
        if pipeline.sinks[other].format != sink.format:
            yield Mistake(
                ("sinks", name, "format"),
                f"the sink {other} writes {pipeline.sinks[other].format} to the same topic {sink.topic!r}; write the "
                "same format, or to another topic",
            )


# Spark


def _of_spark(pipeline: Pipeline) -> Iterator[Mistake]:
    lower = Counter(name.lower() for name in pipeline.spark)
    for name, text in pipeline.spark.items():
        if (wrong := _setting_mistake(pipeline, name, text.strip().lower())) is not None:
            yield Mistake(("spark", name), wrong)
        if lower[name.lower()] > 1:
            yield Mistake(("spark", name), "it is there twice; leave one out")


def _setting_mistake(pipeline: Pipeline, name: str, text: str) -> str | None:
    exactly_once = pipeline.delivery == "exactly-once" and pipeline.mode == "stream"
    if not name.startswith("spark."):
        return f"settings of Spark begin with 'spark.'; write {_quoted(f'spark.{name}')}"
    if name == "spark.sql.streaming.checkpointLocation":
        return "each query has a folder in the pipeline's own; leave it out, and write checkpoint"
    if name == "spark.speculation" and text == "true" and pipeline.delivery == "exactly-once":
        return (
            "two attempts of one task at once would abort each other's transactions; leave it out, or write the "
            "delivery at-least-once"
        )
    if name == "spark.sql.adaptive.streaming.stateless.enabled" and text == "true" and exactly_once:
        return "a micro-batch that runs again would have other tasks; leave it out, or write false"
    return None


def _quoted(name: str) -> str:
    return f'"{name}"'
