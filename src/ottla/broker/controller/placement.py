"""Where the replicas of new partitions go: striped over racks and brokers, as KRaft's placer does it.

Each partition starts one rack further than the one before, and each rack gives its brokers in turn, from a random
start; after one round everything is shuffled, so that two brokers do not always share the same partitions.

Invariant: no broker twice in one partition, and the first replica, which will lead, is alive. Brokers that are
fenced are used only when the live ones of a rack are.

Also the checks on replicas that a request chooses by hand, and the first state of a partition.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ottla.broker.controller.decision import Context
from ottla.broker.metadata.image import BrokerImage
from ottla.broker.metadata.records import PartitionRecord
from ottla.errors import InvalidReplicaAssignmentError, InvalidReplicationFactorError
from ottla.wire import Uuid


class Random(Protocol):
    """What is used of `random.Random`."""

    def randrange(self, stop: int, /) -> int: ...
    def shuffle(self, items: MutableSequence[Any], /) -> None: ...
    def randbytes(self, length: int, /) -> bytes: ...


def place(
    partitions: int, replication_factor: int, brokers: Iterable[BrokerImage], random: Random
) -> list[tuple[int, ...]]:
    """The replicas of each new partition; InvalidReplicationFactorError where there are too few brokers."""
    # One that is leaving gets nothing new; one that has left may come back.
    usable = [broker for broker in brokers if broker.fenced or not broker.in_controlled_shutdown]
    if replication_factor <= 0:
        raise InvalidReplicationFactorError(
            f"Invalid replication factor {replication_factor}: the replication factor must be positive."
        )
    if all(broker.fenced for broker in usable):
        raise InvalidReplicationFactorError(
            "All brokers are currently fenced, or have all their log directories cordoned."
        )
    if replication_factor > len(usable):
        raise InvalidReplicationFactorError(
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(usable)} broker(s) are registered or some brokers have all their log directories cordoned."
        )
    racks = _Racks(usable, random)
    return [racks.place(replication_factor) for _ in range(partitions)]


@dataclass(slots=True)
class _Ring:
    """Brokers that are given out in turn, each once per round."""

    brokers: list[int] = field(default_factory=list)
    offset: int = 0
    taken: int = 0
    round: int = 0

    def next(self, round_: int) -> int | None:
        if round_ != self.round:
            self.round, self.taken, self.offset = round_, 0, self.offset + 1
        if self.taken >= len(self.brokers):
            return None
        broker = self.brokers[(self.offset + self.taken) % len(self.brokers)]
        self.taken += 1
        return broker


@dataclass(slots=True)
class _Rack:
    live: _Ring = field(default_factory=_Ring)
    fenced: _Ring = field(default_factory=_Ring)

    def next(self, round_: int) -> int | None:
        broker = self.live.next(round_)
        return self.fenced.next(round_) if broker is None else broker


class _Racks:
    """All racks; `place` gives one partition's replicas after the other."""

    def __init__(self, brokers: list[BrokerImage], random: Random) -> None:
        self._random = random
        named: dict[str, _Rack] = {}
        for broker in sorted(brokers, key=lambda broker: (broker.rack or "", broker.id)):
            rack = named.setdefault(broker.rack or "", _Rack())
            (rack.fenced if broker.fenced else rack.live).brokers.append(broker.id)
        self._racks = list(named.values())
        self._live = sum(not broker.fenced for broker in brokers)
        for ring in self._rings():
            ring.offset = random.randrange(len(ring.brokers)) if ring.brokers else 0
        self._start = random.randrange(len(self._racks))
        self._round = 0

    def place(self, replication_factor: int) -> tuple[int, ...]:
        if self._round == self._live and self._live > 1:
            self._shuffle()
            self._round = 0
        first, leader = self._leader()
        replicas = [leader]
        at = self._start
        while len(replicas) < replication_factor:
            # The leader's rack has given its share of this lap.
            broker = None if at == first else self._rack(at).next(self._round)
            first = None if at == first else first
            if broker is not None:
                replicas.append(broker)
            at += 1
        self._round += 1
        self._start += 1
        return tuple(replicas)

    def _leader(self) -> tuple[int | None, int]:
        """The first live broker from the start on, and the position of its rack."""
        at = self._start
        while True:
            broker = self._rack(at).live.next(self._round)
            if broker is not None:
                return at, broker
            at += 1

    def _rack(self, at: int) -> _Rack:
        return self._racks[at % len(self._racks)]

    def _rings(self) -> list[_Ring]:
        return [ring for rack in self._racks for ring in (rack.live, rack.fenced)]

    def _shuffle(self) -> None:
        self._random.shuffle(self._racks)
        for ring in self._rings():
            self._random.shuffle(ring.brokers)


def check_assignment(
    context: Context, replicas: Sequence[int], replication_factor: int | None = None
) -> None:
    """Raises the error of Kafka for a bad list of replicas; None leaves its length open."""
    if not replicas:
        raise InvalidReplicaAssignmentError("The manual partition assignment includes an empty replica list.")
    previous = None
    for broker_id in sorted(replicas):
        if broker_id not in context.image.brokers:
            raise InvalidReplicaAssignmentError(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            )
        if broker_id == previous:
            raise InvalidReplicaAssignmentError(
                f"The manual partition assignment includes the broker {broker_id} more than once."
            )
        previous = broker_id
    if replication_factor is not None and len(replicas) != replication_factor:
        raise InvalidReplicaAssignmentError(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is "
            f"not consistent with previous partitions, which have {replication_factor} replica(s)."
        )


def check_any_active(context: Context, index: int, replicas: Iterable[int]) -> None:
    if not any(map(context.image.is_active, replicas)):
        raise InvalidReplicaAssignmentError(
            f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
            "controlled shutdown."
        )


def new_partition(context: Context, topic_id: Uuid, index: int, replicas: Sequence[int]) -> PartitionRecord:
    """Its active replicas are in sync, since there is nothing to catch up with, and the first of them leads."""
    isr = tuple(replica for replica in replicas if context.image.is_active(replica))
    if not isr:
        raise InvalidReplicationFactorError(
            f"Unable to replicate the partition {len(replicas)} time(s): All brokers are currently fenced or in "
            "controlled shutdown."
        )
    return PartitionRecord(topic_id, index, tuple(replicas), isr, leader=isr[0])
