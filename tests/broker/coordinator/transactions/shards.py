"""A shard of transactions without a runtime: what it writes is replayed at once, and committed when a test says."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random
from typing import TypeVar, cast

from ottla.broker.configs.node import NodeConfigs
from ottla.broker.coordinator.shard import CoordinatorRecord, Parked, Result, ShardContext, ShardTimers
from ottla.broker.coordinator.transactions.manager import TransactionShard
from ottla.broker.coordinator.transactions.markers import MarkerSender, PendingEnd
from ottla.broker.coordinator.transactions.state import (
    ProducerIdAndEpoch,
    ProducerIdNeeded,
    TransactionalIdState,
)
from ottla.broker.metadata.image import MetadataImage
from ottla.errors import BrokerError
from tests.broker.coordinator.groups.classic_world import ManualTimers

_R = TypeVar("_R")

ID = "me"


class ManualMarkers:
    """Keeps the ends that a shard hands over; a test says which markers are written."""

    def __init__(self) -> None:
        self.sent: list[PendingEnd] = []
        self.dropped: list[int] = []

    def send(self, end: PendingEnd) -> None:
        self.sent.append(end)

    def drop(self, shard: int) -> None:
        self.dropped.append(shard)

    def write_all(self) -> None:
        """Every marker that is on its way arrives."""
        sent, self.sent = self.sent, []
        for end in sent:
            end.remaining.clear()
            end.is_over = True
            end.on_written()


class LoneTransactions:
    """A shard, its clock, its log, and its markers."""

    def __init__(self, version: int = 2, epoch: int = 1, **configs: object) -> None:
        self.image = MetadataImage()
        self.image.features["transaction.version"] = version
        self.epoch = epoch
        self.timers = ManualTimers(lambda operation: self.write(operation))
        self.log: list[CoordinatorRecord] = []
        self.refusal: BrokerError | None = None
        """What the log says to the next append."""
        self.commits_at_once = True
        self.ids = count(1000)
        named = {name.replace("_", "."): value for name, value in configs.items()}
        context = ShardContext(
            3,
            cast(ShardTimers, _Contained(self.timers)),
            self.write,
            self.image,
            NodeConfigs(named, 1, self.image),
            lambda: self.timers.now_ms,
            Random(1),
            lambda: len(self.log),
        )
        self.markers = ManualMarkers()
        self.shard = TransactionShard(
            context,
            cast(MarkerSender, self.markers),
            lambda: self.epoch,
            lambda then: then(next(self.ids)),
        )

    def begin(self) -> LoneTransactions:
        self.shard.on_loaded()
        return self

    def write(self, operation: Callable[[TransactionShard], Result[_R]]) -> _R:
        result = operation(self.shard)
        if result.records and self.refusal is not None:
            raise self.refusal
        for record in result.records:
            self.log.append(record)
            self.shard.replay(record.key, record.value, len(self.log) - 1)
        if self.commits_at_once:
            self.commit()
        assert not isinstance(result.response, Parked)
        return result.response

    def commit(self) -> None:
        """All that was written is on all replicas in sync."""
        self.shard.on_committed(len(self.log))

    def loaded(self, **configs: object) -> LoneTransactions:
        """The next coordinator, which has read the same log."""
        other = LoneTransactions(self.shard.transaction_version, self.epoch + 1, **configs)
        other.timers.now_ms = self.timers.now_ms
        other.ids = self.ids
        for offset, record in enumerate(self.log):
            other.shard.replay(record.key, record.value, offset)
        other.log = list(self.log)
        other.commit()
        return other.begin()

    # Requests

    def _spared(self, operation: Callable[[TransactionShard, int | None], Result[_R]]) -> _R:
        try:
            return self.write(lambda shard: operation(shard, None))
        except ProducerIdNeeded:
            spare_id = next(self.ids)
        return self.write(lambda shard: operation(shard, spare_id))

    def init(
        self, expected: tuple[int, int] | None = None, *, name: str = ID, timeout_ms: int = 60_000
    ) -> ProducerIdAndEpoch | None:
        was = None if expected is None else ProducerIdAndEpoch(*expected)
        return self._spared(lambda shard, spare: shard.init(name, timeout_ms, was, spare))

    def first(self, *, name: str = ID, timeout_ms: int = 60_000) -> ProducerIdAndEpoch:
        producer = self.init(name=name, timeout_ms=timeout_ms)
        assert producer is not None
        return producer

    def add(
        self,
        producer: ProducerIdAndEpoch,
        *partitions: tuple[str, int],
        name: str = ID,
        client_version: int = 2,
    ) -> None:
        self.write(lambda shard: shard.add(name, producer, partitions, client_version))

    def end(
        self, producer: ProducerIdAndEpoch, is_commit: bool, *, name: str = ID, bumps: bool = True
    ) -> ProducerIdAndEpoch:
        return self._spared(lambda shard, spare: shard.end(name, producer, is_commit, bumps, spare))

    def state(self, name: str = ID) -> TransactionalIdState:
        return self.shard.states[name]

    @property
    def labels(self) -> list[str]:
        """The states that were written, of the id that tests use if they name none."""
        found = []
        for record in self.log:
            other = LoneTransactions()
            other.shard.replay(record.key, record.value, 0)
            found += [state.status.label for name, state in other.shard.states.items() if name == ID]
        return found


class _Contained:
    """Manual timers that can say whether there is one."""

    def __init__(self, timers: ManualTimers) -> None:
        self.schedule = timers.schedule
        self.cancel = timers.cancel
        self._timers = timers

    def __contains__(self, key: object) -> bool:
        return key in self._timers.keys


def code(call: Callable[[], object]) -> int:
    """The error code that a call raises; 0 where it does not."""
    try:
        call()
    except BrokerError as error:
        return error.code
    return 0
