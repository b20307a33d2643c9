"""What administration returns: frozen values, and `Results` for calls about several things at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from ottla.client.topic_partition import TopicPartition
from ottla.errors import KafkaError
from ottla.wire import Uuid
from ottla.wire.resources import ConfigSource

K = TypeVar("K")
V = TypeVar("V")

Errors = Literal["raise", "collect"]
"""What a call about several things does when some of them fail; see `Results`."""


class Results(dict[K, V]):
    """What came of each thing that a call was about, by its name, for those that succeeded.

    A call raises the error of the first thing that failed, with a note for each other one. With errors="collect"
    it returns, and those that failed are in `errors`.
    """

    def __init__(self, found: Mapping[K, V], errors: Mapping[K, KafkaError]) -> None:
        super().__init__(found)
        self.errors: dict[K, KafkaError] = dict(errors)

    def checked(self, errors: Errors) -> Results[K, V]:
        """These, or the first error."""
        if errors not in ("raise", "collect"):
            raise ValueError(f'errors={errors!r}: it is "raise" or "collect"')
        if self.errors and errors == "raise":
            raise _first_of(self.errors)
        return self


def _first_of(errors: Mapping[K, KafkaError]) -> KafkaError:
    (_, first), *others = errors.items()
    for key, other in others:
        if other is not first:
            first.add_note(f"{key} failed too: {other}")
    return first


def in_order(keys: Iterable[K], found: Mapping[K, V], errors: Mapping[K, KafkaError]) -> Results[K, V]:
    """`found` and `errors` in the order in which the caller named the keys; what it did not name comes last."""
    order = dict.fromkeys([*keys, *found, *errors])
    return Results(
        {key: found[key] for key in order if key in found},
        {key: errors[key] for key in order if key in errors},
    )


# Topics


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created; -1 leaves a number to the brokers' configs."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, object] = field(default_factory=dict)
    """By Kafka's names: {"retention.ms": 60_000}."""
    assignments: Mapping[int, Iterable[int]] | None = None
    """The brokers that have a replica of each partition, the preferred leader first; instead of the two numbers."""


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic that was created, or would have been; what an old broker does not say is None."""

    name: str
    topic_id: Uuid | None
    partitions: int | None
    replication_factor: int | None
    configs: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition and its replicas, by broker id; `leader` is None while there is none."""

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic; its partitions by number."""

    name: str
    topic_id: Uuid | None
    internal: bool
    partitions: tuple[PartitionDescription, ...]


# Configs


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """Another config that the value would come from, or does."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config; the value of a sensitive one is None."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT


# Offsets, records, producers


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """An offset; None where no record is as late as the time that was given."""

    offset: int | None
    timestamp: int | None
    """Of the record there, in milliseconds; None where the call was not about time."""
    leader_epoch: int | None


@dataclass(frozen=True, slots=True)
class ProducerState:
    """An idempotent producer as a replica of a partition knows it; -1 where there is nothing to know."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start_offset: int | None


# Transactions


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    """A transactional id in a listing, with the state of its last transaction."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int | None
    """The broker that keeps it."""


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id as its coordinator knows it."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_at: int | None
    """When the transaction began, in milliseconds; None where there is none."""
    partitions: tuple[TopicPartition, ...]
    """What it has written to; while it ends, those partitions that do not know of it yet."""
    coordinator: int | None


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A transaction that is open in a partition, and that no coordinator will ever end there."""

    partition: TopicPartition
    producer: ProducerState
    transactional_id: str | None
    """None where no coordinator knows the producer."""


@dataclass(frozen=True, slots=True)
class FencedProducer:
    """The producer id that a transactional id has from now on, and its epoch: older epochs are refused."""

    producer_id: int
    producer_epoch: int


# Groups


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group in a listing; an old broker says neither its state nor its type."""

    group_id: str
    protocol_type: str
    """"consumer" for groups that read topics; empty for one that only has offsets, committed without members."""
    state: str | None
    group_type: str | None


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group; what only the other kind of group knows of its members is None."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    topics: tuple[str, ...]
    """What it is subscribed to by name; a classic group tells only while it is stable."""
    assignment: tuple[TopicPartition, ...]
    rack: str | None = None
    topic_regex: str | None = None
    member_epoch: int | None = None
    target: tuple[TopicPartition, ...] | None = None
    """What it will have when the group has come to rest (KIP-848)."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group with its members; `coordinator` is the id of the broker that keeps it."""

    group_id: str
    group_type: Literal["classic", "consumer"]
    state: str
    protocol_type: str
    assignor: str
    coordinator: int | None
    members: tuple[MemberDescription, ...]
    group_epoch: int | None = None
    assignment_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """What a group has committed for a partition: the offset of the next record that it reads."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class GroupReset:
    """Where a group stood in a partition, and where it goes on; `before` is None where nothing was committed."""

    before: int | None
    after: int


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How many records of a partition a group has not committed; None where it has committed nothing."""

    committed: int | None
    end: int
    lag: int | None


# The cluster


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker, and where clients reach it."""

    node_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool = False


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A cluster; `controller_id` is a broker to send changes to, not necessarily the controller itself."""

    cluster_id: str
    controller_id: int | None
    brokers: tuple[BrokerDescription, ...]


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The lowest and the highest version."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Features:
    """Feature levels: what the cluster has agreed on, and what the broker that responded supports."""

    finalized: Mapping[str, VersionRange]
    supported: Mapping[str, VersionRange]
    epoch: int | None


@dataclass(frozen=True, slots=True)
class Reassignment:
    """Replicas that are being moved, by broker id: all of them, those that come, those that go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReplicaSize:
    """A replica in a log directory."""

    size: int
    offset_lag: int
    is_future: bool
    """It is being moved here from another directory of the broker."""


@dataclass(frozen=True, slots=True)
class LogDir:
    """A directory of a broker, with the replicas in it; without its sizes where the broker does not know them."""

    error: KafkaError | None
    total_bytes: int | None
    usable_bytes: int | None
    replicas: Mapping[TopicPartition, ReplicaSize]
    cordoned: bool = False
    """It gets no new replicas (KIP-1066)."""
