"""What one node knows about the cluster, after replaying the metadata log up to some offset, and what a run changed.

Nodes and the controller keep one each and never share it: a node that has fetched less sees an older cluster,
as in Kafka. Whether a record makes sense was decided when it was written; here it is only applied.

Invariant: two images that applied the same records are equal. Partitions and brokers are values that are
replaced, not changed, so a reader may keep one over an await. In a Delta, `old` is the state before the first record
of the run and `new` the one after its last; what came and went in between is not seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Final, TypeVar

from ottla.broker.metadata.records import (
    NO_LEADER,
    AssignReplicaRecord,
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
from ottla.wire import Uuid
from ottla.wire.resources import ConfigResourceType

_NO_CONFIGS: Final[Mapping[str, str]] = {}

_K = TypeVar("_K")


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A registered broker; every incarnation has an `epoch` of its own."""

    id: int
    epoch: int
    """Where its registration stands in the log: a broker that has read so far may be unfenced."""
    incarnation_id: Uuid
    listeners: tuple[BrokerEndpoint, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    features: tuple[SupportedFeature, ...]
    log_dirs: tuple[Uuid, ...] = ()
    """The ids of its directories that work."""

    @property
    def alive(self) -> bool:
        """Clients see it."""
        return not self.fenced

    @property
    def active(self) -> bool:
        """It may lead partitions: alive, and not about to leave."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def host(self) -> str:
        return self.listeners[0].host if self.listeners else ""

    @property
    def port(self) -> int:
        return self.listeners[0].port if self.listeners else -1


@dataclass(frozen=True, slots=True)
class PartitionImage:
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovering: bool = False
    """The leader comes from an unclean election and has not yet made its log whole (KIP-704)."""
    elr: tuple[int, ...] = ()
    """Eligible leader replicas (KIP-966): not in the ISR, but with every record up to the high watermark, which
    stands still while the ISR is smaller than min.insync.replicas."""
    last_known_elr: tuple[int, ...] = ()
    """The last leader of a partition that has none."""

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    @property
    def preferred_leader(self) -> int:
        return self.replicas[0]

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    def merge(self, change: PartitionChangeRecord) -> PartitionImage:
        """This partition after a change, with the epochs that KRaft gives it."""
        return PartitionImage(
            replicas=self.replicas if change.replicas is None else change.replicas,
            isr=self.isr if change.isr is None else change.isr,
            leader=self.leader if change.leader is None else change.leader,
            leader_epoch=self.leader_epoch + (change.leader is not None),
            partition_epoch=self.partition_epoch + 1,
            adding=self.adding if change.adding is None else change.adding,
            removing=self.removing if change.removing is None else change.removing,
            recovering=self.recovering if change.recovering is None else change.recovering,
            elr=self.elr if change.elr is None else change.elr,
            last_known_elr=self.last_known_elr if change.last_known_elr is None else change.last_known_elr,
        )


@dataclass(slots=True)
class TopicImage:
    name: str
    id: Uuid
    partitions: dict[int, PartitionImage] = field(default_factory=dict)


@dataclass(slots=True)
class PartitionDelta:
    """One partition before and after; without `old` it is new, without `new` it has been deleted."""

    topic: str
    topic_id: Uuid
    index: int
    old: PartitionImage | None
    new: PartitionImage | None


@dataclass(slots=True)
class Delta:
    """Everything that a run of records changed, for the node to act on; the dicts keep the order of the records."""

    partitions: dict[tuple[Uuid, int], PartitionDelta] = field(default_factory=dict)
    created_topics: dict[Uuid, str] = field(default_factory=dict)
    deleted_topics: dict[Uuid, str] = field(default_factory=dict)
    brokers: dict[int, None] = field(default_factory=dict)
    configs: dict[tuple[int, str], None] = field(default_factory=dict)
    features: dict[str, None] = field(default_factory=dict)
    producer_ids: bool = False

    def note_partition(
        self,
        topic: str,
        topic_id: Uuid,
        index: int,
        old: PartitionImage | None,
        new: PartitionImage | None,
    ) -> None:
        known = self.partitions.get((topic_id, index))
        if known is None:
            self.partitions[topic_id, index] = PartitionDelta(topic, topic_id, index, old, new)
        else:
            known.new = new

    def note_topic(self, topic_id: Uuid, name: str) -> None:
        self.created_topics[topic_id] = name

    def note_removal(self, topic_id: Uuid, name: str) -> None:
        if self.created_topics.pop(topic_id, None) is None:
            self.deleted_topics[topic_id] = name


@dataclass(slots=True)
class MetadataImage:
    """Everything, by the keys that are in requests. Read it as you like; only `apply` changes it."""

    offset: int = -1
    """Of the last record applied; the log has no gaps."""
    brokers: dict[int, BrokerImage] = field(default_factory=dict)
    topics: dict[str, TopicImage] = field(default_factory=dict)
    topics_by_id: dict[Uuid, TopicImage] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    directories: dict[Uuid, dict[tuple[int, int], Uuid]] = field(default_factory=dict)
    """Where replicas lie, by topic, and by partition and broker; of brokers with several directories (KIP-858)."""

    def apply_all(self, records: Iterable[MetadataRecord]) -> Delta:
        """Applies a run of records; what it changed."""
        delta = Delta()
        for record in records:
            self.apply(record, delta)
        return delta

    def apply(self, record: MetadataRecord, delta: Delta | None = None) -> None:
        """Applies the record at `offset + 1`."""
        delta = Delta() if delta is None else delta
        self.offset += 1
        match record:
            case PartitionChangeRecord():
                self._change_partition(record, delta)
            case PartitionRecord():
                self._add_partition(record, delta)
            case AssignReplicaRecord():
                places = self.directories.setdefault(record.topic_id, {})
                places[record.index, record.broker_id] = record.directory_id
            case ClearElrRecord():
                self._clear_elr(record, delta)
            case TopicRecord():
                topic = TopicImage(record.name, record.topic_id)
                self.topics[topic.name] = self.topics_by_id[topic.id] = topic
                delta.note_topic(topic.id, topic.name)
            case RemoveTopicRecord():
                self._remove_topic(record, delta)
            case RegisterBrokerRecord():
                self._register(record)
                delta.brokers[record.broker_id] = None
            case BrokerChangeRecord():
                self._change_broker(record)
                delta.brokers[record.broker_id] = None
            case UnregisterBrokerRecord():
                del self.brokers[record.broker_id]
                delta.brokers[record.broker_id] = None
            case ConfigRecord():
                self._configure(record)
                delta.configs[record.resource_type, record.resource_name] = None
            case ProducerIdsRecord():
                self.next_producer_id = record.next_producer_id
                delta.producer_ids = True
            case FeatureLevelRecord():
                self._set_feature(record)
                delta.features[record.name] = None

    def become(self, other: MetadataImage) -> Delta:
        """Becomes another image, that of a snapshot, which is given up with that; what it changed."""
        delta = Delta()
        for topic in self.topics.values():
            if topic.id not in other.topics_by_id:
                delta.note_removal(topic.id, topic.name)
                for index, partition in topic.partitions.items():
                    delta.note_partition(topic.name, topic.id, index, partition, None)
        for topic in other.topics.values():
            known = self.topics_by_id.get(topic.id)
            if known is None:
                delta.note_topic(topic.id, topic.name)
            for index, partition in topic.partitions.items():
                old = None if known is None else known.partitions.get(index)
                if old != partition:
                    delta.note_partition(topic.name, topic.id, index, old, partition)
        delta.brokers = _differing(self.brokers, other.brokers)
        delta.configs = _differing(self.configs, other.configs)
        delta.features = _differing(self.features, other.features)
        delta.producer_ids = self.next_producer_id != other.next_producer_id
        for each in fields(self):
            setattr(self, each.name, getattr(other, each.name))
        return delta

    def config_overrides(self, resource_type: int, resource_name: str) -> Mapping[str, str]:
        """What has been set for one resource, as text; the broker "" stands for every broker's default."""
        return self.configs.get((resource_type, resource_name), _NO_CONFIGS)

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        known = self.topics.get(topic)
        return None if known is None else known.partitions.get(index)

    def is_active(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.active

    def directory_of(self, topic_id: Uuid, index: int, broker_id: int) -> Uuid | None:
        """Where a replica lies; None if its broker has one directory only, or has not said it yet."""
        return self.directories.get(topic_id, {}).get((index, broker_id))

    def has_directory(self, topic_id: Uuid, index: int, broker_id: int) -> bool:
        """Whether the directory of a replica works, as far as its broker has said."""
        directory = self.directory_of(topic_id, index, broker_id)
        broker = self.brokers.get(broker_id)
        return directory is None or broker is None or directory in broker.log_dirs

    def alive_brokers(self) -> list[BrokerImage]:
        """By id."""
        return [broker for _, broker in sorted(self.brokers.items()) if broker.alive]

    def all_partitions(self) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
        for topic in self.topics.values():
            for index, partition in topic.partitions.items():
                yield topic, index, partition

    def _add_partition(self, record: PartitionRecord, delta: Delta) -> None:
        topic = self.topics_by_id[record.topic_id]
        new = PartitionImage(
            record.replicas,
            record.isr,
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            record.adding,
            record.removing,
            record.recovering,
            record.elr,
            record.last_known_elr,
        )
        delta.note_partition(topic.name, topic.id, record.index, None, new)
        topic.partitions[record.index] = new

    def _change_partition(self, record: PartitionChangeRecord, delta: Delta) -> None:
        topic = self.topics_by_id[record.topic_id]
        old = topic.partitions[record.index]
        new = topic.partitions[record.index] = old.merge(record)
        places = self.directories.get(record.topic_id, {})
        for replica in old.replicas:
            if replica not in new.replicas:
                # Where it comes back it is another replica, wherever this one has lain.
                places.pop((record.index, replica), None)
        delta.note_partition(topic.name, topic.id, record.index, old, new)

    def _clear_elr(self, record: ClearElrRecord, delta: Delta) -> None:
        for topic in [self.topics[record.topic]] if record.topic else self.topics.values():
            for index, partition in topic.partitions.items():
                if partition.elr or partition.last_known_elr:
                    cleared = PartitionChangeRecord(topic.id, index, elr=(), last_known_elr=())
                    self._change_partition(cleared, delta)

    def _remove_topic(self, record: RemoveTopicRecord, delta: Delta) -> None:
        topic = self.topics_by_id.pop(record.topic_id)
        del self.topics[topic.name]
        self.directories.pop(topic.id, None)
        if self.configs.pop((ConfigResourceType.TOPIC, topic.name), None) is not None:
            delta.configs[ConfigResourceType.TOPIC, topic.name] = None
        for index, partition in topic.partitions.items():
            delta.note_partition(topic.name, topic.id, index, partition, None)
        delta.note_removal(topic.id, topic.name)

    def _register(self, record: RegisterBrokerRecord) -> None:
        self.brokers[record.broker_id] = BrokerImage(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            listeners=record.listeners,
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            features=record.features,
            log_dirs=record.log_dirs,
        )

    def _change_broker(self, record: BrokerChangeRecord) -> None:
        broker = self.brokers[record.broker_id]
        if record.fenced is not None:
            broker = replace(broker, fenced=record.fenced)
        if record.in_controlled_shutdown is not None:
            broker = replace(broker, in_controlled_shutdown=record.in_controlled_shutdown)
        if record.log_dirs is not None:
            broker = replace(broker, log_dirs=record.log_dirs)
        self.brokers[record.broker_id] = broker

    def _configure(self, record: ConfigRecord) -> None:
        key = (record.resource_type, record.resource_name)
        overrides = dict(self.configs.get(key, _NO_CONFIGS))
        if record.value is None:
            overrides.pop(record.name, None)
        else:
            overrides[record.name] = record.value
        if overrides:
            self.configs[key] = overrides
        else:
            self.configs.pop(key, None)

    def _set_feature(self, record: FeatureLevelRecord) -> None:
        if record.level:
            self.features[record.name] = record.level
        else:
            self.features.pop(record.name, None)


def _differing(old: Mapping[_K, object], new: Mapping[_K, object]) -> dict[_K, None]:
    """The keys whose values differ, or that only one of the two has."""
    return {key: None for key in {**old, **new} if old.get(key) != new.get(key)}
