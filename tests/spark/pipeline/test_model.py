"""A Pipeline that exists is valid: what is wrong with one in a program is said all together, by its attributes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.spark import Pipeline, PipelineError, TopicSink, TopicSource, Watermark

KAFKA = {"bootstrap.servers": "localhost:9092"}
ORDERS = TopicSource(topics=("orders",), format="json", schema="id bigint, at timestamp")
TOTALS = TopicSink(topic="totals")
GOOD = Pipeline(
    "revenue",
    kafka=KAFKA,
    sources={"orders": ORDERS},
    sinks={"totals": TOTALS},
    checkpoint="checkpoints",
)


def said_of(**changes: Any) -> str:
    with pytest.raises(PipelineError) as caught:
        replace(GOOD, **changes)
    return str(caught.value)


def test_one_mistake_is_one_line() -> None:
    assert said_of(trigger="5s") == "trigger: '5s' is no interval of Spark; write '5 seconds'"


def test_several_are_named_together() -> None:
    source = replace(ORDERS, watermark=Watermark(column="ta", delay="10 seconds"), start="earlier")
    assert said_of(sources={"orders": source}, sinks={"totals": replace(TOTALS, topic="")}).splitlines() == [
        "the pipeline 'revenue' has 3 mistakes",
        "  sources['orders'].start: 'earlier' is no place to begin; did you mean earliest?",
        "  sources['orders'].watermark.column: the source has no column 'ta'; there are key, id, at, topic, "
        "partition, offset, timestamp, timestampType",
        "  sinks['totals'].topic: it is missing; name the topic to write to",
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": 5}, "name: it is a number; it must be text"),
        ({"checkpoint": Path("x")}, "checkpoint: it is of type PosixPath; it must be text"),
        ({"kafka": {"linger.ms": 5}}, "kafka['linger.ms']: it is a number; it must be text, '5'"),
        ({"kafka": {"enable.idempotence": True}}, "it is a flag; it must be text, 'true'"),
        ({"kafka": {"sasl.password": 4711}}, "kafka['sasl.password']: it is a number; it must be text"),
        ({"spark": ["x"]}, "spark: it is a list; it must be a dict of texts"),
        ({"transform": 5}, "transform: it is a number; it must be SQL or a function"),
        ({"sources": [ORDERS]}, "sources: it is a list; it must be a dict of TopicSource by name"),
        ({"sources": {1: ORDERS}}, "sources: the name 1 is a number; it must be text"),
        (
            {"sources": {"orders": TOTALS}},
            "sources['orders']: it is of type TopicSink; it must be a TopicSource",
        ),
        ({"sources": {}}, "sources: there are none; name a topic to read"),
        ({"sinks": {}}, "sinks: there are none; name a topic to write to"),
    ],
)
def test_what_no_pipeline_is_made_of_is_said(changes: dict[str, object], said: str) -> None:
    assert said in said_of(**changes)
    assert "4711" not in said_of(**changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"topics": "orders"}, ".topics: it is text; it must be a tuple of texts, ('orders',)"),
        ({"topics": (1,)}, ".topics: it must be a tuple of texts"),
        ({"table": "yes"}, ".table: it is text; it must be True or False"),
        ({"schema": {}}, ".schema: it is a table; it must be text"),
        ({"start": None}, ".start: it is None; it must be text"),
        (
            {"options": {"minPartitions": 2}},
            ".options['minPartitions']: it is a number; it must be text, '2'",
        ),
        ({"options": {1: "x"}}, ".options: the name 1 is a number; it must be text"),
        ({"watermark": "at"}, ".watermark: it is text; it must be a Watermark"),
        ({"watermark": Watermark(column="at", delay=5)}, ".watermark.delay: it is a number"),  # type: ignore[arg-type]
    ],
)
def test_what_no_source_is_made_of_is_said(changes: dict[str, Any], said: str) -> None:
    assert said in said_of(sources={"orders": replace(ORDERS, **changes)})


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        (
            {"columns": ("id", "totel")},
            "it names the column totel, which the rows lack; there are key, id, at",
        ),
        ({"format": "string"}, "string writes the column value, which the rows lack"),
        ({"columns": ("ID", "at", "key")}, ""),
    ],
)
def test_without_a_transform_the_columns_of_the_rows_are_known(sink: dict[str, Any], said: str) -> None:
    changes = {"sinks": {"totals": replace(TOTALS, **sink)}}
    if said:
        assert said in said_of(**changes)
    else:
        replace(GOOD, **changes)  # type: ignore[arg-type]


def test_sources_and_sinks_may_have_clusters_of_their_own() -> None:
    """A topic of one name is another topic there, and the pipeline needs no servers for all."""
    there = {"kafka.bootstrap.servers": "there:9092"}
    here = {"kafka.bootstrap.servers": "here:9092"}
    source = replace(ORDERS, options=here)
    copied = replace(
        GOOD, kafka={}, sources={"orders": source}, sinks={"copy": TopicSink(topic="orders", options=there)}
    )
    assert copied.kafka == {}
    said = said_of(sources={"orders": source}, sinks={"copy": TopicSink(topic="orders", options=here)})
    assert said.startswith("sinks['copy'].topic: 'orders' is read by the source orders")
    assert "kafka['bootstrap.servers']: it is missing" in said_of(kafka={}, sources={"orders": source})


def test_a_topic_that_a_pattern_finds_is_read() -> None:
    source = TopicSource(pattern="^tot")
    assert "'totals' is read by the source orders" in said_of(sources={"orders": source})


def test_what_is_changed_afterwards_changes_no_pipeline() -> None:
    kafka = dict(KAFKA)
    pipeline = replace(GOOD, kafka=kafka)
    kafka["acks"] = "1"
    assert pipeline.kafka == KAFKA


def test_no_repr_has_the_options_among_which_passwords_are() -> None:
    secret = {"kafka.sasl.password": "hunter2"}
    pipeline = replace(
        GOOD,
        kafka={**KAFKA, "sasl.password": "hunter2"},
        sources={"orders": replace(ORDERS, options=secret)},
        sinks={"totals": replace(TOTALS, options=secret)},
        spark={"spark.hadoop.fs.s3a.secret.key": "hunter2"},
    )
    assert "revenue" in repr(pipeline)
    assert "hunter2" not in repr(pipeline)


def test_a_pipeline_is_made_without_a_session_and_without_a_jvm() -> None:
    program = """
import sys
import ottla.spark
pipeline = ottla.spark.Pipeline(
    "copy",
    kafka={"bootstrap.servers": "localhost:9092"},
    sources={"orders": ottla.spark.TopicSource(topics=("orders",), format="json", schema="id bigint")},
    sinks={"copy": ottla.spark.TopicSink(topic="copy")},
    checkpoint="checkpoints",
)
started = {"pyspark.java_gateway", "py4j.java_gateway"} & set(sys.modules)
gateway = sys.modules["pyspark.core.context"].SparkContext._gateway if "pyspark.core.context" in sys.modules else None
assert gateway is None, started
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
