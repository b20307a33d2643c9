"""A shard of coordinators: what one partition of an internal topic is to the state machine that it belongs to.

The state of a group, or of a transaction, is a `CoordinatorShard`'s business. What such a state machine says of an
operation (`Result`, `Parked`), what it gets of its node (`ShardContext`, `ShardTimers`) and what it is told is here;
who loads it, writes its records and waits for the replicas is the runtime (runtime.py).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from ottla.broker.configs.node import NodeConfigs
    from ottla.broker.metadata.image import Delta, MetadataImage
    from ottla.errors import BrokerError
    from ottla.runtime import Random, Runtime, Timer

_R = TypeVar("_R")

RETRY_BACKOFF: Final = 0.5
"""Seconds, as in Kafka, until an operation that came to nothing is tried again."""


@dataclass(frozen=True, slots=True)
class CoordinatorRecord:
    """One record of an internal topic."""

    key: bytes
    value: bytes | None
    """None is a tombstone."""


class Parked(Generic[_R]):
    """The response of a request that waits for what others do: a join, a sync. The first that it gets, counts."""

    __slots__ = ("_on_done", "error", "response")

    def __init__(self) -> None:
        self.response: _R | None = None
        self.error: BrokerError | None = None
        self._on_done: Callable[[Parked[_R]], object] | None = None

    @property
    def is_done(self) -> bool:
        return self.response is not None or self.error is not None

    def complete(self, response: _R) -> None:
        if not self.is_done:
            self.response = response
            self._tell()

    def fail(self, error: BrokerError) -> None:
        if not self.is_done:
            self.error = error
            self._tell()

    def then(self, call: Callable[[Parked[_R]], object]) -> None:
        """Calls it at the end of the wait, or at once."""
        self._on_done = call
        if self.is_done:
            self._tell()

    def _tell(self) -> None:
        if self._on_done is not None:
            call, self._on_done = self._on_done, None
            call(self)


@dataclass(slots=True)
class Result(Generic[_R]):
    """What an operation on a shard gives."""

    records: Sequence[CoordinatorRecord]
    response: _R | Parked[_R]
    """Leaves when `records` are committed; one that is parked, when another operation completes it."""
    replay: bool = True
    """False where the operation has changed the shard itself, as those of classic groups do."""
    on_commit: Callable[[BrokerError | None], object] | None = None
    """Called when the records are committed, before the response leaves, or with the error why they are not."""
    atomic: bool = True
    """False where each record stands for itself, so that many of them may be several batches."""


class CoordinatorShard(Protocol):
    """What a coordinator keeps for the keys of one partition."""

    def replay(self, key: bytes, value: bytes | None, offset: int) -> None:
        """A record that was written, or is loaded; `offset` is where it stands."""

    def replay_transactional(self, producer_id: int, key: bytes, value: bytes | None, offset: int) -> None:
        """A record that counts when the transaction of its producer commits."""

    def end_transaction(self, producer_id: int, is_commit: bool, offset: int) -> None:
        """The transaction of a producer has ended."""

    def on_loaded(self) -> None:
        """All records are replayed: timers begin."""

    def on_unloaded(self) -> None:
        """Another node leads the partition, or this one ends: nothing that the shard set off may go on."""

    def on_metadata(self, delta: Delta) -> None:
        """The image has changed."""

    def on_committed(self, offset: int) -> None:
        """Everything below `offset` is on all replicas in sync."""


class ShardTimers:
    """The timers of one shard, each with a key; one that is scheduled again under the same key replaces the other."""

    def __init__(
        self,
        clock_runtime: Runtime,
        run: Callable[[Callable[[Any], Result[Any]], Callable[[], object]], None],
    ) -> None:
        self._runtime = clock_runtime
        self._run = run
        self._timers: dict[Hashable, Timer] = {}

    def schedule(self, key: Hashable, delay: float, operation: Callable[[Any], Result[Any]]) -> None:
        """After `delay` seconds the operation runs like a write that no request waits for."""
        self.cancel(key)
        self._timers[key] = self._runtime.clock.call_later(max(0.0, delay), self._due, key, operation)

    def cancel(self, key: Hashable) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._timers

    def clear(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers = {}

    def _due(self, key: Hashable, operation: Callable[[Any], Result[Any]]) -> None:
        self._timers.pop(key, None)
        self._run(operation, lambda: self._again(key, operation))

    def _again(self, key: Hashable, operation: Callable[[Any], Result[Any]]) -> None:
        if key not in self._timers:
            self.schedule(key, RETRY_BACKOFF, operation)


@dataclass(slots=True)
class ShardContext:
    """What a shard gets of its node."""

    partition: int
    timers: ShardTimers
    submit: Callable[[Callable[[Any], Result[Any]]], None]
    """Runs an operation soon, as a write that no request waits for."""
    image: MetadataImage
    configs: NodeConfigs
    now_ms: Callable[[], int]
    random: Random
    high_watermark: Callable[[], int]
    """Below it, every record of the partition is on all replicas in sync."""
