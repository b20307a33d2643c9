"""The offsets that groups have committed: as the records say, and as far as they are on all replicas in sync.

The newest offset of a partition is what the next operation sees. A reader sees what is committed, in the sense of
the log: until the high watermark has passed a record, the value before it is kept. Offsets of open transactions wait
beside the others for their marker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.broker.coordinator.groups.records import OffsetCommitKey, OffsetCommitValue, encode
from ottla.wire import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from ottla.broker.coordinator.shard import CoordinatorRecord

OffsetKey = tuple[str, str, int]
"""Group, topic and partition."""


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """What a group has committed for one partition."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int
    """-1 where the retention of the broker applies."""
    topic_id: Uuid
    record_offset: int
    """Where the record stands that says so."""

    @staticmethod
    def of(value: OffsetCommitValue, record_offset: int) -> CommittedOffset:
        return CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            record_offset,
        )

    def belongs_to(self, topic_id: Uuid) -> bool:
        """Whether it was committed for this topic, and not for an older one of the same name; zero is any."""
        return ZERO_UUID in (topic_id, self.topic_id) or topic_id == self.topic_id


def tombstone(key: OffsetKey) -> CoordinatorRecord:
    group, topic, partition = key
    return encode(OffsetCommitKey(group=group, topic=topic, partition=partition), None)


class OffsetStore:
    """The offsets of the groups of one shard."""

    def __init__(self) -> None:
        self._latest: dict[str, dict[tuple[str, int], CommittedOffset]] = {}
        # What was replaced by a record that is not yet committed: (offset of the record, key, value before it).
        self._replaced: dict[OffsetKey, deque[tuple[int, CommittedOffset | None]]] = {}
        self._order: deque[tuple[int, OffsetKey]] = deque()
        self._committed_to = 0
        self._pending: dict[int, dict[OffsetKey, CommittedOffset]] = {}

    # Reading

    def latest(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._latest.get(group, {}).get((topic, partition))

    def committed(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        """As of the high watermark."""
        replaced = self._replaced.get((group, topic, partition))
        return replaced[0][1] if replaced else self.latest(group, topic, partition)

    def of_group(self, group: str) -> Iterator[tuple[tuple[str, int], CommittedOffset]]:
        """The latest offsets."""
        return iter(list(self._latest.get(group, {}).items()))

    def partitions_of(self, group: str) -> list[tuple[str, int]]:
        """Every partition of which a reader may see an offset."""
        found = dict.fromkeys(self._latest.get(group, {}))
        for owner, topic, partition in self._replaced:
            if owner == group:
                found[topic, partition] = None
        return list(found)

    def has_offsets(self, group: str) -> bool:
        return bool(self._latest.get(group))

    def is_pending(self, group: str, topic: str, partition: int) -> bool:
        """Whether a transaction that is still open has an offset of the partition."""
        return any((group, topic, partition) in offsets for offsets in self._pending.values())

    def has_open_transactions(self, group: str) -> bool:
        return any(key[0] == group for offsets in self._pending.values() for key in offsets)

    def keys_of_topics(self, topics: set[str]) -> list[OffsetKey]:
        """The keys of all offsets of these topics, those of open transactions included."""
        found: dict[OffsetKey, None] = {}
        for group, offsets in self._latest.items():
            for topic, partition in offsets:
                if topic in topics:
                    found[group, topic, partition] = None
        for pending in self._pending.values():
            for key in pending:
                if key[1] in topics:
                    found[key] = None
        return list(found)

    def keys_of(self, group: str) -> list[OffsetKey]:
        """The keys of all offsets of a group, those of open transactions included."""
        found = {(group, topic, partition): None for topic, partition in self._latest.get(group, {})}
        for pending in self._pending.values():
            found.update({key: None for key in pending if key[0] == group})
        return list(found)

    # Records

    def replay(self, key: OffsetKey, value: OffsetCommitValue | None, offset: int) -> None:
        self._put(key, None if value is None else CommittedOffset.of(value, offset), offset)
        if value is None:
            for pending in self._pending.values():
                pending.pop(key, None)

    def replay_pending(self, producer_id: int, key: OffsetKey, value: OffsetCommitValue, offset: int) -> None:
        self._pending.setdefault(producer_id, {})[key] = CommittedOffset.of(value, offset)

    def end_transaction(self, producer_id: int, is_commit: bool, offset: int) -> None:
        for key, committed in self._pending.pop(producer_id, {}).items():
            known = self.latest(*key)
            # Of a commit outside of the transaction and one in it, the later one counts, wherever the marker stands.
            if is_commit and (known is None or committed.record_offset > known.record_offset):
                self._put(key, committed, offset)

    def on_committed(self, offset: int) -> None:
        """Everything below `offset` is on all replicas in sync."""
        self._committed_to = max(self._committed_to, offset)
        while self._order and self._order[0][0] < offset:
            _, key = self._order.popleft()
            replaced = self._replaced[key]
            replaced.popleft()
            if not replaced:
                del self._replaced[key]

    def _put(self, key: OffsetKey, new: CommittedOffset | None, offset: int) -> None:
        group, topic, partition = key
        offsets = self._latest.setdefault(group, {})
        if offset >= self._committed_to:
            self._replaced.setdefault(key, deque()).append((offset, offsets.get((topic, partition))))
            self._order.append((offset, key))
        if new is not None:
            offsets[topic, partition] = new
        else:
            offsets.pop((topic, partition), None)
        if not offsets:
            del self._latest[group]
