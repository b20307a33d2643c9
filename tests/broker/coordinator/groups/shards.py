"""A shard of groups without a runtime: what it writes is replayed at once, and committed when a test says."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, TypeVar, cast

from ottla.broker.configs.node import NodeConfigs
from ottla.broker.coordinator.groups.manager import GroupShard
from ottla.broker.coordinator.shard import CoordinatorRecord, Parked, Result, ShardContext, ShardTimers
from ottla.broker.metadata.image import MetadataImage
from ottla.errors import BrokerError
from tests.broker.coordinator.groups.classic_world import ManualTimers

_R = TypeVar("_R")


class LoneShard:
    """A shard, its clock, and its log."""

    def __init__(self, **configs: object) -> None:
        image = MetadataImage()
        self.timers = ManualTimers(lambda operation: self._run(operation))
        self.log: list[CoordinatorRecord] = []
        self.refusal: BrokerError | None = None
        """What the log says to the next append."""
        named = {name.replace("_", "."): value for name, value in configs.items()}
        context = ShardContext(
            0,
            cast(ShardTimers, self.timers),
            self._run,
            image,
            NodeConfigs({"group.initial.rebalance.delay.ms": 0, **named}, 1, image),
            lambda: self.timers.now_ms,
            Random(1),
            lambda: len(self.log),
        )
        self.shard = GroupShard(context)

    def _run(self, operation: Callable[[Any], Result[Any]]) -> None:
        self.apply(operation(self.shard))

    def write(self, operation: Callable[[GroupShard], Result[_R]]) -> _R | Parked[_R]:
        return self.apply(operation(self.shard))

    def apply(self, result: Result[_R]) -> _R | Parked[_R]:
        if result.records and self.refusal is not None:
            if result.on_commit is not None:
                result.on_commit(self.refusal)
            raise self.refusal
        for record in result.records:
            self.log.append(record)
            if result.replay:
                self.shard.replay(record.key, record.value, len(self.log) - 1)
        if result.on_commit is not None:
            result.on_commit(None)
        return result.response

    def commit(self) -> None:
        """All that was written is on all replicas in sync."""
        self.shard.on_committed(len(self.log))

    def loaded(self, **configs: object) -> LoneShard:
        """Another coordinator that has read the same log."""
        other = LoneShard(**configs)
        other.timers.now_ms = self.timers.now_ms
        for offset, record in enumerate(self.log):
            other.shard.replay(record.key, record.value, offset)
        other.log = list(self.log)
        other.commit()
        other.shard.on_loaded()
        return other
