"""What a run of metadata records has changed, for whoever acts on it: which partitions to open, move or close.

Invariant: `old` is the state before the first record of the run and `new` the one after its last; what came and
went in between is not seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.wire import Uuid

if TYPE_CHECKING:
    from ottla.broker.metadata.image import PartitionImage


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
    """Everything that changed; the dicts keep the order of the records."""

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
