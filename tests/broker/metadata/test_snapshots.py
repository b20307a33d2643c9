"""Snapshots of the metadata log: whatever led to an image, a snapshot leads there too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.metadata.image import Delta, MetadataImage
from ottla.broker.metadata.records import (
    BrokerChangeRecord,
    BrokerEndpoint,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    SupportedFeature,
    TopicRecord,
    UnregisterBrokerRecord,
)
from ottla.broker.metadata.snapshots import read_snapshot, write_snapshot
from ottla.wire import Uuid
from ottla.wire.resources import ConfigResourceType

NOW = 1_700_000_000_000
REPLICAS = (1, 2, 3)

Steps = list[tuple[int, int, int]]
steps: st.SearchStrategy[Steps] = st.lists(
    st.tuples(st.integers(0, 10), st.integers(0, 3), st.integers(0, 3)), max_size=60
)


def make(image: MetadataImage, kind: int, first: int, second: int) -> MetadataRecord | None:
    """One record that the controller may write when the cluster is like this; None where it would write nothing."""
    topics = list(image.topics.values())
    chosen = topics[first % len(topics)] if topics else None
    broker = image.brokers.get(first)
    if kind == 0:
        endpoint = BrokerEndpoint("PLAINTEXT", f"host-{first}", 9000 + second)
        features = (SupportedFeature("metadata.version", 1, 20 + second),)
        return RegisterBrokerRecord(
            first, image.offset + 1, Uuid(bytes([first, second] * 8)), (endpoint,), "a", features=features
        )
    if kind == 1 and broker is not None:
        return BrokerChangeRecord(
            broker.id, broker.epoch, fenced=bool(second & 1), in_controlled_shutdown=bool(second & 2)
        )
    if kind == 2 and broker is not None:
        return UnregisterBrokerRecord(broker.id, broker.epoch)
    if kind == 3 and f"topic-{first}" not in image.topics:
        return TopicRecord(f"topic-{first}", Uuid((image.offset + 2).to_bytes(16, "big")))
    if kind == 4 and chosen is not None:
        return PartitionRecord(chosen.id, len(chosen.partitions), REPLICAS, REPLICAS[: second + 1], 1)
    if kind in (5, 6) and chosen is not None and chosen.partitions:
        changes: list[dict[str, Any]] = [
            {"leader": second, "isr": (second,), "recovering": True},
            {"adding": (4,), "removing": (1,), "replicas": (*REPLICAS, 4)},
            {"leader": -1, "isr": (), "elr": (2, 3), "last_known_elr": (1,)},
            {"isr": REPLICAS, "recovering": False},
        ]
        return PartitionChangeRecord(chosen.id, second % len(chosen.partitions), **changes[second])
    if kind == 7 and chosen is not None:
        return RemoveTopicRecord(chosen.id)
    if kind == 8:
        value = None if second == 0 else str(second)
        return ConfigRecord(ConfigResourceType.TOPIC, f"topic-{first}", "retention.ms", value)
    if kind == 10 and chosen is not None:
        return ClearElrRecord("" if second == 0 else chosen.name)
    if kind == 9:
        return (
            FeatureLevelRecord("transaction.version", second)
            if first % 2
            else ProducerIdsRecord(1, 0, 1000 * (second + 1))
        )
    return None


def lived(image: MetadataImage, life: Sequence[tuple[int, int, int]]) -> Delta:
    delta = Delta()
    for step in life:
        record = make(image, *step)
        if record is not None:
            image.apply(record, delta)
    return delta


@given(steps)
def test_an_image_is_the_same_by_its_snapshot(life: Steps) -> None:
    image = MetadataImage()
    lived(image, life)
    assert read_snapshot(write_snapshot(image, NOW), image.offset + 1) == image


@given(steps, steps)
def test_a_node_that_was_behind_learns_from_a_snapshot_what_the_records_would_have_told(
    before: Steps, since: Steps
) -> None:
    ahead, behind = MetadataImage(), MetadataImage()
    for image in (ahead, behind):
        lived(image, before)
    told = lived(ahead, since)
    learned = behind.become(read_snapshot(write_snapshot(ahead, NOW), ahead.offset + 1))
    assert behind == ahead
    # Records also tell of what came and went, and of what has become what it was.
    changed = {key: (each.old, each.new) for key, each in told.partitions.items() if each.old != each.new}
    assert {key: (each.old, each.new) for key, each in learned.partitions.items()} == changed
    assert learned.created_topics == told.created_topics
    assert learned.deleted_topics == told.deleted_topics
    assert learned.brokers.keys() <= told.brokers.keys()
    assert learned.configs.keys() <= told.configs.keys()
    assert learned.features.keys() <= told.features.keys()
    assert learned.producer_ids <= told.producer_ids
