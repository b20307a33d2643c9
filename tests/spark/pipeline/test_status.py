"""How far a pipeline is, out of the files of its checkpoint; topics and transactions are those of a cluster."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.broker import Cluster
from ottla.client.topic_partition import TopicPartition
from ottla.spark.options.parsing import OptionError
from ottla.spark.pipeline.model import Pipeline, TopicSink, TopicSource
from ottla.spark.pipeline.status import SourcePosition, offsets_in, pipeline_status


def pipeline(kafka: Cluster, checkpoint: Path | None) -> Pipeline:
    return Pipeline(
        "copy",
        kafka={"bootstrap.servers": kafka.bootstrap},
        sources={"orders": TopicSource(topics=("orders",))},
        sinks={"copies": TopicSink(topic="copies", format="bytes")},
        checkpoint=None if checkpoint is None else str(checkpoint),
        mode="batch" if checkpoint is None else "stream",
    )


def test_a_pipeline_without_a_checkpoint_has_no_status(kafka: Cluster) -> None:
    with pytest.raises(OptionError, match="copy has no checkpoint"):
        pipeline_status(pipeline(kafka, None))


def test_a_topic_that_is_gone_has_a_position_and_no_end(kafka: Cluster, tmp_path: Path) -> None:
    kafka.create_topic("orders", 1)
    kafka.seed("orders", [b"a", b"b"])
    folder = tmp_path / "copies"
    for name, text in (("commits", "v1\n{}"), ("offsets", 'v1\n{}\n{"gone":{"0":5},"orders":{"0":1}}')):
        (folder / name).mkdir(parents=True)
        (folder / name / "3").write_text(text)
    [sink] = pipeline_status(pipeline(kafka, tmp_path))
    assert (sink.batch, sink.begun, sink.is_new, sink.is_writing, sink.lag) == (3, None, False, False, 1)
    assert sink.positions == (SourcePosition("gone", 0, 5, None), SourcePosition("orders", 0, 1, 2))
    assert sink.delivery is None


def test_a_source_with_brokers_of_its_own_is_looked_for_there(kafka: Cluster, tmp_path: Path) -> None:
    with Cluster(brokers=1, topics={"orders": 1}) as other:
        other.seed("orders", [b"a", b"b", b"c"])
        own = {"kafka.bootstrap.servers": other.bootstrap}
        both = replace(
            pipeline(kafka, tmp_path), sources={"orders": TopicSource(topics=("orders",), options=own)}
        )
        [sink] = pipeline_status(both)
        assert sink.positions == (SourcePosition("orders", 0, None, 3),)
        # Without any of the pipeline's, there are none to look at but those.
        sinks = {"copies": TopicSink(topic="copies", format="bytes", options=own)}
        [sink] = pipeline_status(replace(both, kafka={}, sinks=sinks))
        assert sink.positions == (SourcePosition("orders", 0, None, 3),)


def test_offsets_of_several_sources_count_as_far_as_all_have_come() -> None:
    lines = [{"a": {"0": 5, "1": 7}}, {":start": {"a": {"0": 0}}, "a": {"0": 3}, "b": {"0": 1}}]
    text = "\n".join(["v1", "{}", "-", *map(json.dumps, lines)])
    assert offsets_in(text) == {
        TopicPartition("a", 0): 3,
        TopicPartition("a", 1): 7,
        TopicPartition("b", 0): 1,
    }
