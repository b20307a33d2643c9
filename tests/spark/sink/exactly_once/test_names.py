"""What a sink is called, and what it may not be called."""

from __future__ import annotations

import pickle

import pytest

from ottla.client.topic_partition import TopicPartition
from ottla.spark.sink.exactly_once.names import SinkNames


def test_ids_and_partitions_follow_from_the_sink_id() -> None:
    names = SinkNames("billing")
    assert names.driver_id == "billing-driver"
    assert names.slot_id(7) == "billing-7"
    assert names.decisions == TopicPartition("ottla-sink-billing", 0)
    assert names.markers(7) == TopicPartition("ottla-sink-billing", 8)
    assert pickle.loads(pickle.dumps(names)) == names


def test_the_control_topic_can_be_another() -> None:
    assert SinkNames("billing", "control").markers(0) == TopicPartition("control", 1)


@pytest.mark.parametrize(
    ("sink_id", "control_topic", "said"),
    [
        ("", "", "sink id ''"),
        ("a b", "", "letters, digits"),
        ("a" * 240, "", "240 characters, and 238"),
        ("a", "a/b", "control topic 'a/b'"),
        ("a", "..", "no topic of that name"),
        ("a", "b" * 250, "250 characters, and 249"),
    ],
)
def test_what_kafka_would_refuse_is_refused_at_once(sink_id: str, control_topic: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        SinkNames(sink_id, control_topic)
