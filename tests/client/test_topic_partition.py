"""The name of one log."""

from __future__ import annotations

from ottla.client.topic_partition import TopicPartition


def test_it_reads_as_kafka_writes_it_and_sorts_by_topic_then_number() -> None:
    assert str(TopicPartition("orders", 3)) == "orders-3"
    names = [TopicPartition("b", 0), TopicPartition("a", 10), TopicPartition("a", 9)]
    assert sorted(names) == [("a", 9), ("a", 10), ("b", 0)]
