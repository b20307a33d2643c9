"""The replicas of a node: they follow the metadata image, and what changes them wakes the requests that wait."""

from __future__ import annotations

import logging

import pytest

from ottla.broker.configs.node import NodeConfigs
from ottla.broker.log.validation import only_batch
from ottla.broker.log.volume import Volume
from ottla.broker.metadata.image import Delta, MetadataImage, PartitionImage, TopicImage
from ottla.broker.replication.delayed import Purgatory
from ottla.broker.replication.replica_manager import ReplicaManager, log_directory
from ottla.errors import (
    FencedLeaderEpochError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    UnknownTopicOrPartitionError,
)
from ottla.runtime import MovableClock
from ottla.wire import Uuid
from ottla.wire.resources import ConfigResourceType
from tests.broker.log.failing import FailingFileSystem
from tests.broker.log.support import NOW, make_batch

NODE, OTHER = 1, 2
ORDERS, AGAIN = Uuid(b"orders".ljust(16)), Uuid(b"orders, again".ljust(16))


class RecordingPurgatory(Purgatory):
    """Nothing is parked here; it is noted what would be woken."""

    def __init__(self) -> None:
        super().__init__(MovableClock())
        self.events: list[tuple[str, tuple[str, int], int]] = []

    def appended(self, partition: tuple[str, int], size: int) -> None:
        self.events.append(("appended", partition, size))

    def changed(self, partition: tuple[str, int]) -> None:
        self.events.append(("changed", partition, 0))


class OneNode:
    """A replica manager, and the image that it follows."""

    def __init__(self, volume: Volume | None = None, **config: object) -> None:
        self.image = MetadataImage()
        self.volume = volume or Volume()
        self.purgatory = RecordingPurgatory()
        static = {name.replace("_", "."): value for name, value in config.items()}
        self.configs = NodeConfigs(static, NODE, self.image)
        self.replicas = ReplicaManager(NODE, self.image, self.configs, self.volume, self.purgatory)

    def becomes(
        self,
        new: PartitionImage | None,
        topic_id: Uuid = ORDERS,
        index: int = 0,
        delta: Delta | None = None,
    ) -> None:
        """The controller has decided on a partition of "orders"."""
        change = delta if delta is not None else Delta()
        if new is None:
            self.image.topics.pop("orders", None)
        else:
            topic = self.image.topics.get("orders")
            if topic is None or topic.id != topic_id:
                topic = self.image.topics["orders"] = TopicImage("orders", topic_id)
            topic.partitions[index] = new
        change.note_partition("orders", topic_id, index, None, new)
        if delta is None:
            self.replicas.apply(change, NOW)

    def append(self, count: int = 1, acks: int = 1) -> int:
        partition = self.replicas.led("orders", 0)
        return self.replicas.append(partition, only_batch(make_batch(count)), acks, NOW).base_offset


def led(epoch: int = 0, replicas: tuple[int, ...] = (NODE, OTHER)) -> PartitionImage:
    return PartitionImage(replicas, (NODE,), NODE, epoch, epoch)


def followed(epoch: int = 0) -> PartitionImage:
    return PartitionImage((NODE, OTHER), (OTHER,), OTHER, epoch, epoch)


def elsewhere(epoch: int = 0) -> PartitionImage:
    return PartitionImage((OTHER,), (OTHER,), OTHER, epoch, epoch)


def test_a_partition_is_hosted_led_or_elsewhere_or_there_is_none() -> None:
    node = OneNode()
    with pytest.raises(UnknownTopicOrPartitionError):
        node.replicas.hosted("orders", 0)
    node.becomes(elsewhere())
    with pytest.raises(NotLeaderOrFollowerError):
        node.replicas.hosted("orders", 0)
    node.becomes(followed(1))
    partition = node.replicas.hosted("orders", 0)
    with pytest.raises(NotLeaderOrFollowerError):
        node.replicas.led("orders", 0)
    node.becomes(led(2))
    assert node.replicas.led("orders", 0, 2) is partition
    with pytest.raises(FencedLeaderEpochError):
        node.replicas.led("orders", 0, 1)


def test_a_replica_that_moves_away_keeps_its_files_and_one_of_a_deleted_topic_does_not() -> None:
    node = OneNode()
    directory = log_directory("orders", 0, ORDERS)
    node.becomes(led())
    node.append(3)
    node.becomes(elsewhere(1))
    assert not node.replicas.partitions
    assert node.volume.fs.list(directory)
    node.becomes(led(2))
    assert node.replicas.led("orders", 0).high_watermark == 3
    node.becomes(None)
    assert not node.replicas.partitions
    assert not node.volume.fs.list(directory)


def test_a_topic_that_was_deleted_and_made_again_in_one_go_is_another_one() -> None:
    node = OneNode()
    node.becomes(led())
    node.append(3)
    delta = Delta()
    node.becomes(None, ORDERS, delta=delta)
    node.becomes(led(), AGAIN, delta=delta)
    # In whichever order the two are applied.
    for changes in (list(delta.partitions.items()), list(reversed(delta.partitions.items()))):
        node.replicas.apply(Delta(partitions=dict(changes)), NOW)
        partition = node.replicas.led("orders", 0)
        assert (partition.topic_id, partition.high_watermark) == (AGAIN, 0)


def test_what_changes_a_partition_is_said_to_the_requests_that_wait_for_it() -> None:
    node = OneNode()
    key = ("orders", 0)
    node.becomes(led())
    assert node.purgatory.events == [("changed", key, 0)]
    node.purgatory.events.clear()
    batch = make_batch(2, producer=(7, 0, 0))
    size = len(batch)
    for _ in range(2):  # a duplicate brings nothing new
        node.replicas.append(node.replicas.led(*key), only_batch(bytearray(batch)), 1, NOW)
    assert node.purgatory.events == [("appended", key, size)]
    node.purgatory.events.clear()
    assert node.replicas.delete_records(node.replicas.led(*key), 1) == 1
    node.becomes(followed(1))
    node.becomes(elsewhere(2))
    assert node.purgatory.events == [("changed", key, 0)] * 3


def test_an_append_needs_as_many_replicas_in_sync_as_its_topic_says() -> None:
    node = OneNode(min_insync_replicas=2)
    node.becomes(led())
    with pytest.raises(NotEnoughReplicasError):
        node.append(acks=-1)
    assert node.purgatory.events == [("changed", ("orders", 0), 0)]
    assert node.append(acks=1) == 0


def test_logs_have_the_configs_of_their_topic_and_get_new_ones() -> None:
    node = OneNode(log_retention_ms=1000)
    node.becomes(led())
    log = node.replicas.led("orders", 0).log
    assert log.config.retention_ms == 1000
    node.image.configs[ConfigResourceType.BROKER, ""] = {"log.retention.ms": "2000"}
    changed = node.configs.apply(Delta(configs={(ConfigResourceType.BROKER, ""): None}))
    node.replicas.reconfigure(["payments"])
    assert log.config.retention_ms == 1000
    node.replicas.reconfigure(changed)
    assert log.config.retention_ms == 2000


def test_leaders_delete_what_is_no_longer_retained() -> None:
    node = OneNode(log_retention_ms=1000)
    node.becomes(led())
    node.append(3)
    partition = node.replicas.led("orders", 0)
    node.becomes(followed(1))
    node.replicas.enforce_retention(NOW + 5000)
    assert partition.log.log_start_offset == 0
    node.becomes(led(2))
    node.replicas.enforce_retention(NOW + 5000)
    assert partition.log.log_start_offset == 3


def test_a_log_that_cannot_be_cleaned_does_not_keep_others_from_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fs = FailingFileSystem()
    node = OneNode(Volume(fs), log_retention_ms=1000)
    for index in (0, 1):
        node.becomes(led(), index=index)
        node.replicas.append(node.replicas.led("orders", index), only_batch(make_batch()), 1, NOW)
    fs.fail_if(lambda call, path: "orders-0" in path)
    with caplog.at_level(logging.ERROR):
        node.replicas.enforce_retention(NOW + 5000)
    fs.mend()
    assert "orders-0" in caplog.text
    assert [node.replicas.led("orders", index).log.log_start_offset for index in (0, 1)] == [0, 1]


def test_idle_producers_are_forgotten() -> None:
    node = OneNode()
    node.becomes(led())
    partition = node.replicas.led("orders", 0)
    node.replicas.append(partition, only_batch(make_batch(producer=(7, 0, 0))), 1, NOW)
    node.replicas.expire_producers(NOW)
    assert [state.producer_id for state in partition.log.producers.active()] == [7]
    node.replicas.expire_producers(NOW + 10 * 86_400_000)
    assert list(partition.log.producers.active()) == []


def test_a_node_that_ends_lets_every_replica_go_though_one_cannot_be_closed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = OneNode()
    for index in (0, 1):
        node.becomes(led(), index=index)
    partitions = list(node.replicas.partitions.values())
    released = node.volume.release

    def release(directory: str, *, delete: bool = False) -> None:
        released(directory, delete=delete)
        if "orders-0" in directory:
            raise OSError("planted")

    monkeypatch.setattr(node.volume, "release", release)
    node.replicas.close()
    assert not node.replicas.partitions
    assert not any(partition.is_leader for partition in partitions)
    assert "orders-0" in caplog.text
