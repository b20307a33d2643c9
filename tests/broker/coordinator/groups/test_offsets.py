"""The offsets of groups: the newest, those that are committed, and those of open transactions."""

from __future__ import annotations

from ottla.broker.coordinator.groups.offsets import OffsetStore
from ottla.broker.coordinator.groups.records import OffsetCommitValue
from ottla.wire import ZERO_UUID, Uuid

KEY = ("g", "orders", 0)
OLD, NEW = Uuid(b"o" * 16), Uuid(b"n" * 16)


def value(offset: int, topic_id: Uuid = ZERO_UUID) -> OffsetCommitValue:
    return OffsetCommitValue(offset=offset, topic_id=topic_id)


def seen(store: OffsetStore) -> tuple[int | None, int | None]:
    """What is committed, and what is newest."""
    committed, latest = store.committed(*KEY), store.latest(*KEY)
    return (
        None if committed is None else committed.offset,
        None if latest is None else latest.offset,
    )


def test_a_reader_sees_an_offset_when_its_record_is_committed() -> None:
    store = OffsetStore()
    store.replay(KEY, value(5), 0)
    store.replay(KEY, value(6), 1)
    assert seen(store) == (None, 6)
    store.on_committed(1)
    assert seen(store) == (5, 6)
    store.on_committed(2)
    assert seen(store) == (6, 6)


def test_a_tombstone_hides_an_offset_when_it_is_committed() -> None:
    store = OffsetStore()
    store.replay(KEY, value(5), 0)
    store.on_committed(1)
    store.replay(KEY, None, 1)
    assert seen(store) == (5, None)
    assert store.partitions_of("g") == [("orders", 0)]
    store.on_committed(2)
    assert seen(store) == (None, None)
    assert not store.has_offsets("g")
    assert store.partitions_of("g") == []


def test_the_offsets_of_a_transaction_wait_for_its_marker() -> None:
    store = OffsetStore()
    store.replay_pending(7, KEY, value(5), 0)
    assert store.is_pending(*KEY)
    assert store.has_open_transactions("g")
    assert seen(store) == (None, None)
    store.end_transaction(7, is_commit=True, offset=1)
    store.on_committed(2)
    assert seen(store) == (5, 5)
    assert not store.has_open_transactions("g")


def test_an_aborted_transaction_leaves_nothing() -> None:
    store = OffsetStore()
    store.replay_pending(7, KEY, value(5), 0)
    store.end_transaction(7, is_commit=False, offset=1)
    assert seen(store) == (None, None)


def test_of_a_commit_in_a_transaction_and_one_beside_it_the_later_one_counts() -> None:
    store = OffsetStore()
    store.replay_pending(7, KEY, value(5), 0)
    store.replay(KEY, value(9), 1)
    store.end_transaction(7, is_commit=True, offset=2)
    assert seen(store)[1] == 9


def test_a_tombstone_ends_what_a_transaction_has_pending() -> None:
    store = OffsetStore()
    store.replay_pending(7, KEY, value(5), 0)
    store.replay(KEY, None, 1)
    store.end_transaction(7, is_commit=True, offset=2)
    assert seen(store)[1] is None


def test_the_offsets_of_topics_and_of_groups_are_found() -> None:
    store = OffsetStore()
    store.replay(KEY, value(1), 0)
    store.replay(("h", "orders", 1), value(1), 1)
    store.replay(("h", "others", 0), value(1), 2)
    store.replay_pending(7, ("i", "orders", 2), value(1), 3)
    assert store.keys_of_topics({"orders"}) == [KEY, ("h", "orders", 1), ("i", "orders", 2)]
    assert store.keys_of("h") == [("h", "orders", 1), ("h", "others", 0)]
    assert store.keys_of("i") == [("i", "orders", 2)]


def test_an_offset_belongs_to_the_topic_that_it_was_committed_for() -> None:
    store = OffsetStore()
    store.replay(KEY, value(1, OLD), 0)
    committed = store.latest(*KEY)
    assert committed is not None
    assert committed.belongs_to(OLD)
    assert committed.belongs_to(ZERO_UUID)
    assert not committed.belongs_to(NEW)
