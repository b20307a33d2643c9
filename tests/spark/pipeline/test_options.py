"""The options that come out of a pipeline are those of format("ottla"), by source and by sink."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.spark.options.connector import SinkOptions, SourceOptions
from ottla.spark.options.offsets import Earliest
from ottla.spark.pipeline.model import Pipeline, TopicSink, TopicSource
from ottla.spark.pipeline.options import (
    sink_checkpoint,
    sink_options,
    source_options,
    trigger_options,
    wants_headers,
    writes_dead_letters,
)

ORDERS = TopicSource(
    topics=("orders", "more"), format="json", schema="id bigint", nested=True, malformed="drop"
)
PIPELINE = Pipeline(
    "revenue",
    kafka={"bootstrap.servers": "one:9092", "linger.ms": "5"},
    sources={"orders": ORDERS},
    sinks={
        "totals": TopicSink(topic="totals"),
        "raw": TopicSink(topic="raw", format="bytes", columns=("value",)),
    },
    checkpoint="s3a://bucket/revenue/",
)


def test_a_source_has_the_options_of_its_keys() -> None:
    assert source_options(PIPELINE, "orders") == {
        "kafka.bootstrap.servers": "one:9092",
        "kafka.linger.ms": "5",
        "kafka.isolation.level": "read_committed",
        "subscribe": "orders,more",
        "startingOffsets": "earliest",
        "value.format": "json",
        "value.schema": "id bigint",
        "value.nested": "true",
        "value.malformed": "drop",
    }


def test_a_source_of_bytes_by_pattern_has_no_value_options() -> None:
    source = TopicSource(pattern="orders-.*", start="latest", isolation="read_uncommitted")
    options = source_options(replace(PIPELINE, sources={"orders": source}), "orders")
    assert {name: text for name, text in options.items() if not name.startswith("kafka.b")} == {
        "kafka.linger.ms": "5",
        "kafka.isolation.level": "read_uncommitted",
        "subscribePattern": "orders-.*",
        "startingOffsets": "latest",
    }


def test_with_dead_letters_a_source_keeps_what_is_malformed_and_the_headers() -> None:
    source = replace(ORDERS, malformed="fail", dead_letter="dead", options={"INCLUDEHEADERS": "false"})
    pipeline = replace(PIPELINE, sources={"orders": source})
    options = source_options(pipeline, "orders")
    assert options["value.malformed"] == "column"
    assert [name for name in options if name.lower() == "includeheaders"] == ["includeHeaders"]
    assert options["includeHeaders"] == "true"
    assert not wants_headers(source)
    assert wants_headers(replace(source, options={"includeheaders": "True"}))
    assert [writes_dead_letters(pipeline, name) for name in pipeline.sinks] == [True, False]
    assert "topic" not in sink_options(pipeline, "totals")
    assert sink_options(pipeline, "raw")["topic"] == "raw"


def test_a_sink_has_a_name_and_a_checkpoint_of_its_own() -> None:
    assert sink_options(PIPELINE, "totals") == {
        "kafka.bootstrap.servers": "one:9092",
        "kafka.linger.ms": "5",
        "ottla.sink.id": "revenue-totals",
        "ottla.delivery": "exactly-once",
        "topic": "totals",
        "value.format": "json",
        "checkpointLocation": "s3a://bucket/revenue/totals",
    }
    assert "value.format" not in sink_options(PIPELINE, "raw")
    assert not writes_dead_letters(PIPELINE, "totals")


def test_options_of_one_source_or_sink_beat_those_of_all() -> None:
    other = {"kafka.bootstrap.servers": "two:9092", "kafka.Linger.ms": "9"}
    source = replace(ORDERS, options={**other, "maxOffsetsPerTrigger": "10"})
    pipeline = replace(
        PIPELINE, sources={"orders": source}, sinks={"totals": TopicSink(topic="t", options=other)}
    )
    for options in (source_options(pipeline, "orders"), sink_options(pipeline, "totals")):
        assert options["kafka.bootstrap.servers"] == "two:9092"
        assert "kafka.linger.ms" not in options


def test_the_connector_takes_them() -> None:
    source = SourceOptions.parse(source_options(PIPELINE, "orders"), streaming=True)
    assert source.topics.subscribe == ("orders", "more")
    assert source.start == Earliest()
    sink = SinkOptions.parse(sink_options(PIPELINE, "totals"))
    assert (sink.sink_id, sink.topic, sink.is_exactly_once) == ("revenue-totals", "totals", True)


@pytest.mark.parametrize(
    ("trigger", "arguments"),
    [(None, {}), ("5 seconds", {"processingTime": "5 seconds"}), ("available-now", {"availableNow": True})],
)
def test_a_trigger_is_an_argument_of_spark(trigger: str | None, arguments: dict[str, object]) -> None:
    assert trigger_options(replace(PIPELINE, trigger=trigger)) == arguments


def test_a_batch_has_no_checkpoint() -> None:
    batch = replace(PIPELINE, mode="batch", checkpoint=None)
    assert sink_checkpoint(batch, "totals") is None
    assert "checkpointLocation" not in sink_options(batch, "totals")
