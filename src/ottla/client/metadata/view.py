"""What the client knows about a cluster: values that never change, and a new one for every update.

How a response becomes a view is in merge.py, what requests it in loop.py. Codes are Kafka's numbers, 0 is no error.

Invariant: `partitions[i].index == i`, also where a broker has left a partition out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol

from ottla.wire import ZERO_UUID, Uuid

NO_LEADER: Final = -1
NO_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class BrokerView:
    """A broker that is alive, and where it listens."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition: `leader` is -1 while there is none, `leader_epoch` is -1 where brokers do not say it."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    error_code: int = 0

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic. One that is gone has the code of UNKNOWN_TOPIC_OR_PARTITION, and its last id and partitions.

    Another `topic_id` under the same name is another topic: the old one was deleted.
    """

    name: str
    topic_id: Uuid = ZERO_UUID
    internal: bool = False
    error_code: int = 0
    partitions: tuple[PartitionView, ...] = ()
    former_ids: tuple[Uuid, ...] = ()
    """Of those that had the name before, the last ones."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The cluster as of the last response: all brokers, and the topics that are tracked."""

    cluster_id: str | None = None
    controller_id: int = -1
    brokers: Mapping[int, BrokerView] = field(default_factory=lambda: MappingProxyType({}))
    topics: Mapping[str, TopicView] = field(default_factory=lambda: MappingProxyType({}))
    _names: dict[Uuid, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = {topic.topic_id: name for name, topic in self.topics.items() if topic.topic_id != ZERO_UUID}
        object.__setattr__(self, "_names", names)

    def topic_name(self, topic_id: Uuid) -> str | None:
        return self._names.get(topic_id)


class MetadataListener(Protocol):
    """What depends on the leaders of partitions: the producer and the consumers."""

    def on_metadata(self, view: ClusterView) -> Iterable[str]:
        """Takes a new view; returns why metadata should be requested again soon, or nothing.

        Called between two turns of the loop; it must neither wait nor raise. The same reason in the same words
        is hurried for a few times only; a new one gets its own quick retries.
        """
