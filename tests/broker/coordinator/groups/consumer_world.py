"""A shard of groups without a node: a log that is a list, a clock that the test moves, members that send requests.

What an operation writes is replayed as the runtime does it; after `reload` the shard is what another coordinator
makes of the same log.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ottla.broker.configs.node import NodeConfigs
from ottla.broker.coordinator.groups import heartbeat as heartbeats
from ottla.broker.coordinator.groups.classic import Sender
from ottla.broker.coordinator.groups.consumer_group import ConsumerGroup
from ottla.broker.coordinator.groups.manager import GroupShard
from ottla.broker.coordinator.groups.records import decode
from ottla.broker.coordinator.shard import CoordinatorRecord, Parked, Result, ShardContext
from ottla.broker.metadata.image import Delta, MetadataImage
from ottla.broker.metadata.records import (
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ottla.wire import Uuid
from ottla.wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.resources import ConfigResourceType

_R = TypeVar("_R")

GROUP = "readers"
CONFIGS: Mapping[str, object] = {"group.consumer.assignment.interval.ms": "0"}

Heartbeat = ConsumerGroupHeartbeatRequest


class ManualTimers:
    """Timers that end when the test says so, in the order of their time."""

    def __init__(self, world: ConsumerWorld) -> None:
        self._world = world
        self.due: dict[Hashable, tuple[float, Callable[[Any], Result[Any]]]] = {}

    def schedule(self, key: Hashable, delay: float, operation: Callable[[Any], Result[Any]]) -> None:
        self.due[key] = (self._world.now + delay, operation)

    def cancel(self, key: Hashable) -> None:
        self.due.pop(key, None)

    def __contains__(self, key: Hashable) -> bool:
        return key in self.due

    def clear(self) -> None:
        self.due = {}


class ConsumerWorld:
    def __init__(self, topics: Mapping[str, int] | None = None, **configs: str) -> None:
        self.now = 1_000_000.0
        self.image = MetadataImage()
        self.log: list[CoordinatorRecord] = []
        self.submitted: list[Callable[[Any], Result[Any]]] = []
        self.static = {**CONFIGS, **{name.replace("_", "."): value for name, value in configs.items()}}
        self.shard = self._make_shard()
        for name, width in (topics or {"t": 4}).items():
            self.create_topic(name, width)

    def _make_shard(self) -> GroupShard:
        self.timers = ManualTimers(self)
        self.submitted = []
        return GroupShard(
            ShardContext(
                partition=0,
                timers=self.timers,  # type: ignore[arg-type]
                submit=self.submitted.append,
                image=self.image,
                configs=NodeConfigs(self.static, 1, self.image),
                now_ms=lambda: int(self.now * 1000),
                random=random.Random(5),
                high_watermark=lambda: len(self.log),
            )
        )

    # The shard

    @property
    def group(self) -> ConsumerGroup:
        group = self.shard.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def write(self, operation: Callable[[GroupShard], Result[_R]]) -> _R:
        """Runs an operation; its records are in the log, and in the shard."""
        result = operation(self.shard)
        for record in result.records:
            self.log.append(record)
            if result.replay:
                self.shard.replay(record.key, record.value, len(self.log) - 1)
        if result.on_commit is not None:
            result.on_commit(None)
        if isinstance(result.response, Parked):
            assert result.response.response is not None, "it is parked"
            return result.response.response
        return result.response

    def run_submitted(self) -> None:
        """What the shard wanted to do soon."""
        while self.submitted:
            self.write(self.submitted.pop(0))

    def advance(self, seconds: float) -> None:
        """Moves the clock; timers end on the way."""
        end = self.now + seconds
        while True:
            due = sorted((time, str(key), key) for key, (time, _) in self.timers.due.items() if time <= end)
            if not due:
                break
            time, _, key = due[0]
            self.now = max(self.now, time)
            _, operation = self.timers.due.pop(key)
            self.write(operation)
        self.now = end

    def reload(self) -> None:
        """Another coordinator takes over, with nothing but the log."""
        self.shard = self._make_shard()
        for offset, record in enumerate(self.log):
            self.shard.replay(record.key, record.value, offset)
        self.shard.on_loaded()

    def written(self, since: int = 0) -> list[tuple[str, bool]]:
        """What kinds of records the log has, and whether each has a value."""
        kinds = []
        for record in self.log[since:]:
            key, value = decode(record.key, record.value)
            kinds.append((type(key).__name__.removeprefix("ConsumerGroup"), value is not None))
        return kinds

    # The cluster around it

    def change(self, records: Iterable[MetadataRecord]) -> Delta:
        delta = self.image.apply_all(records)
        self.shard.on_metadata(delta)
        return delta

    def topic_id(self, name: str) -> Uuid:
        return self.image.topics[name].id

    def create_topic(self, name: str, width: int) -> None:
        self.change([TopicRecord(name, Uuid(name.encode().ljust(16, b"\0")))])
        self.widen_topic(name, width)

    def widen_topic(self, name: str, width: int) -> None:
        topic = self.image.topics[name]
        self.change(
            [PartitionRecord(topic.id, index, (1,), (1,), 1) for index in range(len(topic.partitions), width)]
        )

    def delete_topic(self, name: str) -> None:
        self.change([RemoveTopicRecord(self.topic_id(name))])

    def configure(self, name: str, value: str) -> None:
        """A config of the group."""
        self.change([ConfigRecord(ConfigResourceType.GROUP, GROUP, name, value)])

    # Members

    def beat(self, request: Heartbeat, version: int = 1) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat, as the handler would pass it on; its BrokerError is raised."""
        groups = self.shard.consumer_groups
        heartbeats.check_request(request, version, groups.configs.assignors)
        sender = Sender("client", "/127.0.0.1", version)
        return self.write(lambda shard: heartbeats.heartbeat(shard.consumer_groups, request, sender))

    def owned(self, partitions: Iterable[tuple[Uuid, int]]) -> list[Heartbeat.TopicPartitions]:
        topics: dict[Uuid, list[int]] = {}
        for topic, index in sorted(partitions):
            topics.setdefault(topic, []).append(index)
        return [Heartbeat.TopicPartitions(topic_id=topic, partitions=each) for topic, each in topics.items()]

    def member(self, member_id: str, topics: Iterable[str] | None = ("t",), **fields: Any) -> WorldMember:
        return WorldMember(self, member_id, None if topics is None else list(topics), fields)


@dataclass(eq=False)
class WorldMember:
    """A member that does what it is told: it gives up what an assignment lacks before it says so."""

    world: ConsumerWorld
    id: str
    topics: list[str] | None
    fields: dict[str, Any] = field(default_factory=dict)
    """Instance, rack, regex, assignor."""
    epoch: int = 0
    owned: set[tuple[Uuid, int]] = field(default_factory=set)
    """What it reads, by the last assignment that came to it."""
    rebalance_timeout_ms: int = 60_000

    def join(self) -> ConsumerGroupHeartbeatResponse:
        self.owned = set()
        return self.take(
            self.send(
                0,
                rebalance_timeout_ms=self.rebalance_timeout_ms,
                subscribed_topic_names=self.topics,
                topic_partitions=[],
                **self.fields,
            )
        )

    def send(self, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat whose response is lost."""
        fields.setdefault("subscribed_topic_names", None)
        fields.setdefault("topic_partitions", None)
        if "instance_id" in self.fields:
            fields["instance_id"] = self.fields["instance_id"]
        return self.world.beat(Heartbeat(group_id=GROUP, member_id=self.id, member_epoch=epoch, **fields))

    def take(self, response: ConsumerGroupHeartbeatResponse) -> ConsumerGroupHeartbeatResponse:
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.owned = {
                (topic.topic_id, index)
                for topic in response.assignment.topic_partitions
                for index in topic.partitions
            }
        return response

    def beat(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """One that says nothing new."""
        return self.take(self.send(self.epoch, **fields))

    def acknowledge(self) -> ConsumerGroupHeartbeatResponse:
        """One that says what it owns."""
        return self.beat(topic_partitions=self.world.owned(self.owned))

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        return self.send(epoch)

    @property
    def partitions(self) -> list[int]:
        """The numbers of what it owns, where there is one topic."""
        return sorted(index for _, index in self.owned)
