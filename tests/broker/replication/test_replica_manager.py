"""The replicas of a node: they follow the metadata image, and what changes them wakes the requests that wait."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

import pytest

from ottla import sim
from ottla.broker.configs.node import NodeConfigs
from ottla.broker.log.fs import MemoryFileSystem
from ottla.broker.log.log_dir import LogDirectories, LogDirectory
from ottla.broker.log.validation import only_batch
from ottla.broker.metadata.image import BrokerImage, Delta, MetadataImage, PartitionImage, TopicImage
from ottla.broker.replication.delayed import FetchPurgatory, ProgressPurgatory
from ottla.broker.replication.partition import FetchTimes, PartitionKey
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.errors import (
    FencedLeaderEpochError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    UnknownTopicOrPartitionError,
)
from ottla.runtime import MovableClock, SystemRuntime
from ottla.wire import Message, Uuid
from ottla.wire.messages import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from ottla.wire.resources import ConfigResourceType
from tests.broker.log.failing import FailingFileSystem
from tests.broker.log.support import NOW, make_batch

NODE, OTHER = 1, 2
ORDERS, AGAIN = Uuid(b"orders".ljust(16)), Uuid(b"orders, again".ljust(16))


_P = ParamSpec("_P")


def on_a_loop(test: Callable[_P, Coroutine[Any, Any, None]]) -> Callable[_P, None]:
    """Runs a test in virtual time: a replica that follows has a task that fetches."""

    @functools.wraps(test)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
        async def main(runtime: sim.SimRuntime) -> None:
            await test(*args, **kwargs)

        sim.run(main, seed=1)

    return run


class RecordingFetches(FetchPurgatory):
    """Nothing is parked here; it is noted what would be woken."""

    def __init__(self, events: list[tuple[str, int]]) -> None:
        super().__init__(MovableClock())
        self._events = events

    def appended(self, partition: PartitionKey, size: int) -> None:
        self._events.append(("appended", size))

    def committed(self, partition: PartitionKey, size: int) -> None:
        self._events.append(("committed", size))

    def changed(self, partition: PartitionKey) -> None:
        self._events.append(("changed", 0))


class RecordingProgress(ProgressPurgatory):
    def __init__(self, name: str, events: list[tuple[str, int]]) -> None:
        super().__init__(MovableClock())
        self._name = name
        self._events = events

    def changed(self, partition: PartitionKey) -> None:
        self._events.append((self._name, 0))


class SilentController:
    """Hears proposals and never answers them."""

    broker_epoch = 1

    def __init__(self) -> None:
        self.requests: list[AlterPartitionRequest] = []

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        self.requests.append(request)
        never: asyncio.Future[AlterPartitionResponse] = asyncio.get_running_loop().create_future()
        return await never

    async def assign_replicas(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        never: asyncio.Future[AssignReplicasToDirsResponse] = asyncio.get_running_loop().create_future()
        return await never

    def log_dir_failed(self, directory_id: Uuid) -> None:
        raise AssertionError(f"{directory_id} is in memory and cannot fail")


class SilentLink:
    """Takes requests and never answers them."""

    def __init__(self) -> None:
        self.requests: list[tuple[int, Message]] = []

    async def request(self, leader: int, request: Message, version: int, timeout: float) -> Message:
        self.requests.append((leader, request))
        never: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        return await never

    def hurry(self, leader: int) -> None:
        """There is nothing to hurry."""


def fail(what: str, error: Exception) -> None:
    raise AssertionError(what) from error


class OneNode:
    """A replica manager, and the image that it follows."""

    def __init__(self, fs: MemoryFileSystem | None = None, **config: object) -> None:
        self.image = MetadataImage()
        self.fs = fs or MemoryFileSystem()
        self.clock = MovableClock()
        self.controller = SilentController()
        self.link = SilentLink()
        static = {name.replace("_", "."): value for name, value in config.items()}
        self.configs = NodeConfigs(static, NODE, self.image)
        self.replicas = ReplicaManager(
            NODE,
            self.image,
            self.configs,
            LogDirectories([LogDirectory("/ottla/node-1", self.fs, ORDERS, in_memory=True)]),
            SystemRuntime(self.clock),
            controller=self.controller,
            link=self.link,
            fail=fail,
        )
        self.events: list[tuple[str, int]] = []
        """What would wake the requests that wait for "orders"."""
        self.replicas.fetches = RecordingFetches(self.events)
        self.replicas.produces = RecordingProgress("produces", self.events)
        self.replicas.deletions = RecordingProgress("deletions", self.events)

    def register(self, broker_id: int, *, epoch: int, fenced: bool = False, stopping: bool = False) -> None:
        self.image.brokers[broker_id] = BrokerImage(
            broker_id, epoch, ORDERS, (), None, fenced, in_controlled_shutdown=stopping, features=()
        )

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


@on_a_loop
async def test_a_partition_is_hosted_led_or_elsewhere_or_there_is_none() -> None:
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
    await node.replicas.close()


@pytest.mark.parametrize("gone", [elsewhere(1), None], ids=["moved away", "topic deleted"])
def test_a_replica_that_goes_takes_its_files_along(gone: PartitionImage | None) -> None:
    node = OneNode()
    directory = "orders-0"
    node.becomes(led())
    node.append(3)
    assert node.fs.list(directory)
    node.becomes(gone)
    assert not node.replicas.partitions
    assert not node.fs.list(directory)
    node.becomes(led(2))
    assert node.replicas.led("orders", 0).high_watermark == 0


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


@on_a_loop
async def test_what_changes_a_partition_is_said_to_the_requests_that_wait_for_it() -> None:
    node = OneNode()
    key = ("orders", 0)
    all_look_again = [("changed", 0), ("produces", 0), ("deletions", 0)]
    node.becomes(led())
    assert node.events == all_look_again
    node.events.clear()
    batch = make_batch(2, producer=(7, 0, 0))
    size = len(batch)
    for _ in range(2):  # a duplicate brings nothing new
        node.replicas.append(node.replicas.led(*key), only_batch(bytearray(batch)), 1, NOW)
    assert node.events == [("appended", size), ("committed", size), ("produces", 0)]
    node.events.clear()
    assert node.replicas.delete_records(node.replicas.led(*key), 1) == 1
    assert node.events == [("changed", 0)]
    node.events.clear()
    node.becomes(followed(1))
    node.becomes(elsewhere(2))
    assert node.events == all_look_again * 2
    await node.replicas.close()


def test_an_append_needs_as_many_replicas_in_sync_as_its_topic_says() -> None:
    node = OneNode(min_insync_replicas=2)
    node.becomes(led())
    with pytest.raises(NotEnoughReplicasError):
        node.append(acks=-1)
    assert node.append(acks=1) == 0
    assert node.replicas.led("orders", 0).high_watermark == 0


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


@on_a_loop
async def test_leaders_and_followers_delete_what_is_no_longer_retained_of_what_is_committed() -> None:
    node = OneNode(log_retention_ms=1000)
    node.becomes(led())
    node.append(3)
    node.becomes(PartitionImage((NODE, OTHER), (NODE, OTHER), NODE, 1, 1))
    node.append(2)
    partition = node.replicas.led("orders", 0)
    partition.log.roll(NOW)
    node.replicas.enforce_retention(NOW + 5000)
    assert (partition.log.log_start_offset, partition.high_watermark) == (0, 3)
    node.becomes(followed(2))
    partition.follow(5, 0)
    node.replicas.enforce_retention(NOW + 5000)
    assert partition.log.log_start_offset == 5
    await node.replicas.close()


def test_a_log_that_cannot_be_cleaned_does_not_keep_others_from_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fs = FailingFileSystem()
    node = OneNode(fs, log_retention_ms=1000)
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


@on_a_loop
async def test_a_node_that_ends_lets_every_replica_go_though_one_cannot_be_closed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = OneNode()
    for index in (0, 1):
        node.becomes(led(), index=index)
    partitions = list(node.replicas.partitions.values())

    def close() -> None:
        raise OSError("planted")

    monkeypatch.setattr(partitions[0].log, "close", close)
    await node.replicas.close()
    assert not node.replicas.partitions
    assert not any(partition.is_leader for partition in partitions)
    assert "orders-0" in caplog.text


def follower_image(leader: int, epoch: int) -> PartitionImage:
    return PartitionImage((NODE, OTHER, 3), (leader,), leader, epoch, epoch)


@on_a_loop
async def test_a_replica_is_fetched_from_the_leader_of_its_epoch_and_from_no_other() -> None:
    node = OneNode()
    node.becomes(follower_image(OTHER, 1))
    key = ("orders", 0)
    assert [leader for leader, fetcher in node.replicas.fetchers.items() if key in fetcher.partitions] == [2]
    first = node.replicas.fetchers[OTHER].partitions[key]
    # Another member of the ISR is nothing to a follower; another epoch of the same leader is.
    node.becomes(PartitionImage((NODE, OTHER, 3), (OTHER, 3), OTHER, 1, 2))
    assert node.replicas.fetchers[OTHER].partitions[key] is first
    node.becomes(follower_image(OTHER, 3))
    assert node.replicas.fetchers[OTHER].partitions[key] is not first
    node.becomes(follower_image(3, 4))
    assert [leader for leader, fetcher in node.replicas.fetchers.items() if key in fetcher.partitions] == [3]
    for without_leader in (led(5), follower_image(-1, 6), elsewhere(7)):
        node.becomes(without_leader)
        assert not any(fetcher.partitions for fetcher in node.replicas.fetchers.values())
    await node.replicas.close()


@on_a_loop
async def test_a_follower_without_epochs_keeps_only_what_it_knows_to_be_committed() -> None:
    node = OneNode()
    node.becomes(led())
    node.append(3)
    node.becomes(PartitionImage((NODE, OTHER), (NODE, OTHER), NODE, 1, 1))
    node.append(2)
    partition = node.replicas.led("orders", 0)
    partition.log.epochs.clear()
    node.becomes(followed(2))
    assert (partition.log.log_end_offset, partition.high_watermark) == (3, 3)
    await node.replicas.close()


@on_a_loop
async def test_a_fetch_of_a_follower_proposes_it_commits_and_wakes_who_waits_for_its_start() -> None:
    node = OneNode()
    node.register(OTHER, epoch=4)
    node.becomes(PartitionImage((NODE, OTHER), (NODE, OTHER), NODE, 1, 1))
    node.append(2)
    partition = node.replicas.led("orders", 0)
    node.events.clear()
    node.replicas.follower_fetched(partition, OTHER, 2, 0, FetchTimes(0.0), 4)
    assert [name for name, _ in node.events] == ["committed", "produces", "deletions"]
    node.events.clear()
    node.replicas.follower_fetched(partition, OTHER, 2, 0, FetchTimes(1.0), 4)
    assert node.events == []
    node.becomes(PartitionImage((NODE, OTHER), (NODE,), NODE, 1, 2))
    node.replicas.follower_fetched(partition, OTHER, 2, 0, FetchTimes(1.0), 4)
    await asyncio.sleep(0.1)
    (request,) = node.controller.requests
    members = request.topics[0].partitions[0].new_isr_with_epochs
    assert [(member.broker_id, member.broker_epoch) for member in members] == [(NODE, -1), (OTHER, 4)]
    await node.replicas.close()


@pytest.mark.parametrize(
    ("fenced", "stopping", "epoch"), [(True, False, 4), (False, True, 4), (False, False, 3)]
)
@on_a_loop
async def test_a_broker_that_is_fenced_or_stopping_or_an_earlier_incarnation_is_not_proposed(
    fenced: bool, stopping: bool, epoch: int
) -> None:
    node = OneNode()
    node.register(OTHER, epoch=4, fenced=fenced, stopping=stopping)
    node.becomes(led())
    partition = node.replicas.led("orders", 0)
    node.replicas.follower_fetched(partition, OTHER, 0, 0, FetchTimes(0.0), epoch)
    assert set(partition.maximal_isr) == {NODE}
    node.register(OTHER, epoch=4)
    node.replicas.follower_fetched(partition, OTHER, 0, 0, FetchTimes(0.0), 4)
    assert set(partition.maximal_isr) == {NODE, OTHER}
    await node.replicas.close()


@on_a_loop
async def test_followers_that_lag_are_proposed_to_go() -> None:
    node = OneNode(replica_lag_time_max_ms=10_000)
    node.becomes(PartitionImage((NODE, OTHER), (NODE, OTHER), NODE, 1, 1))
    node.replicas.shrink_isrs()
    await asyncio.sleep(0)
    assert node.controller.requests == []
    node.clock.advance(11)
    node.replicas.shrink_isrs()
    await asyncio.sleep(0)
    (request,) = node.controller.requests
    (member,) = request.topics[0].partitions[0].new_isr_with_epochs
    assert member.broker_id == NODE
    await node.replicas.close()


@on_a_loop
async def test_a_replica_that_is_opened_again_begins_with_the_watermark_of_the_checkpoint() -> None:
    for is_clean, expected in ((True, 3), (False, 2)):
        fs = MemoryFileSystem()
        node = OneNode(fs)
        node.becomes(led())
        node.append(2)
        node.replicas.checkpoint_high_watermarks()
        node.append(1)
        await node.replicas.close(clean=is_clean)
        again = OneNode(fs)
        again.becomes(followed(1))
        partition = again.replicas.hosted("orders", 0)
        assert (partition.log.log_end_offset, partition.high_watermark) == (3, expected)
        await again.replicas.close()


@on_a_loop
async def test_fewer_replicas_that_have_to_be_in_sync_commit_what_waited_for_more() -> None:
    node = OneNode(min_insync_replicas=2)
    node.becomes(led())
    node.append(2)
    partition = node.replicas.led("orders", 0)
    before = partition.high_watermark
    node.image.configs[ConfigResourceType.TOPIC, "orders"] = {"min.insync.replicas": "1"}
    node.replicas.reconfigure(node.configs.apply(Delta(configs={(ConfigResourceType.TOPIC, "orders"): None})))
    assert (before, partition.high_watermark) == (0, 2)


@on_a_loop
async def test_a_follower_that_is_fenced_is_waited_for_no_more() -> None:
    node = OneNode()
    node.register(OTHER, epoch=4)
    node.becomes(led())
    partition = node.replicas.led("orders", 0)
    node.replicas.follower_fetched(partition, OTHER, 0, 0, FetchTimes(node.clock.monotonic()), 4)
    partition.pending = None  # it has just been refused
    node.append(2)
    assert partition.high_watermark == 0, "it has caught up, so it is about to join"
    node.register(OTHER, epoch=4, fenced=True)
    node.replicas.apply(Delta(brokers={OTHER: None}), NOW)
    assert partition.log.log_end_offset == partition.high_watermark
    await node.replicas.close()
