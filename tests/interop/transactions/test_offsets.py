"""Offsets that a transaction commits: they count when it commits, and until then nobody may rely on the old ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.wire.messages import OffsetFetchRequest, OffsetFetchResponse
from tests.interop.groups.group import Group
from tests.interop.transactions.conftest import producer_of
from tests.interop.transactions.producer import Links, TxnProducer, name_of, patiently
from tests.interop.waiting import eventually


@pytest.fixture
def group(txn: Links) -> Iterator[Group]:
    """A group that nobody has heard of yet, and a topic of its own."""
    with Group(txn.broker, txn.create_topic(4)) as group:
        yield group


def committed(group: Group, stable: bool = True) -> tuple[str, int]:
    """Error and offset of partition 0."""
    topics = [OffsetFetchRequest.OffsetFetchRequestTopics(name=group.topic, partition_indexes=[0])]
    wanted = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group.name, topics=topics)
    request = OffsetFetchRequest(groups=[wanted], require_stable=stable)
    (found,) = group.outside.get(request, 9, OffsetFetchResponse).groups
    assert found.error_code == 0
    (part,) = found.topics[0].partitions
    return name_of(part.error_code), part.committed_offset


@pytest.mark.parametrize(("commit", "after"), [(True, 10), (False, 5)], ids=["commit", "abort"])
def test_tv2_an_offset_of_an_open_transaction_is_unstable_until_it_ends(
    txn: Links, group: Group, commit: bool, after: int
) -> None:
    assert group.classic().commit(5) == 0
    producer = producer_of(txn)
    # At TV2 the group's coordinator adds itself to the transaction.
    producer.commit_offset(group.name, group.topic, 10)
    assert producer.partitions() == [("__consumer_offsets", group.offsets_partition())]
    assert committed(group) == ("UNSTABLE_OFFSET_COMMIT", -1)
    assert committed(group, stable=False) == ("NONE", 5)
    producer.end(commit)
    eventually(lambda: committed(group)[0] == "NONE", "the marker to reach the group")
    assert committed(group) == ("NONE", after)


@pytest.mark.parametrize(("commit", "after"), [(True, 10), (False, 5)], ids=["commit", "abort"])
def test_tv1_offsets_are_added_to_the_transaction_first(txn1: Links, commit: bool, after: int) -> None:
    with Group(txn1.broker, txn1.create_topic(4)) as group:
        assert group.classic().commit(5) == 0
        producer = producer_of(txn1, 1)
        assert producer.try_commit_offset(group.name, group.topic, 10) == "TRANSACTION_ABORTABLE"
        assert committed(group) == ("NONE", 5)
        producer.commit_offset(group.name, group.topic, 10)
        assert committed(group) == ("UNSTABLE_OFFSET_COMMIT", -1)
        producer.end(commit)
        eventually(lambda: committed(group)[0] == "NONE", "the marker to reach the group")
        assert committed(group) == ("NONE", after)


def test_an_old_generation_commits_nothing(txn: Links, group: Group) -> None:
    member = group.stable_one()
    producer = producer_of(txn)

    def commit(offset: int, member_id: str, generation: int) -> str:
        return patiently(
            lambda: producer.try_commit_offset(
                group.name, group.topic, offset, member_id=member_id, generation=generation
            )
        )

    assert commit(10, member.member_id, 0) == "ILLEGAL_GENERATION"
    assert commit(10, "nobody", 1) == "UNKNOWN_MEMBER_ID"
    assert committed(group) == ("NONE", -1)
    assert commit(10, member.member_id, 1) == "NONE"
    assert committed(group) == ("UNSTABLE_OFFSET_COMMIT", -1)
    producer.end(commit=True)
    eventually(lambda: committed(group) == ("NONE", 10), "the marker to reach the group")


def test_an_offset_that_is_deleted_while_it_is_pending_does_not_come_back(txn: Links, group: Group) -> None:
    assert group.classic().commit(5) == 0
    producer = producer_of(txn)
    producer.commit_offset(group.name, group.topic, 10)
    assert group.delete_offsets([0]) == (0, {0: 0})
    producer.end(commit=True)
    eventually(lambda: committed(group)[0] == "NONE", "the marker to reach the group")
    assert committed(group) == ("NONE", -1)


def test_a_later_plain_commit_wins_over_an_older_transaction(txn: Links, group: Group) -> None:
    producer = producer_of(txn)
    producer.commit_offset(group.name, group.topic, 10)
    assert group.classic().commit(5) == 0
    producer.end(commit=True)
    eventually(lambda: committed(group)[0] == "NONE", "the marker to reach the group")
    assert committed(group) == ("NONE", 5)


def test_offsets_of_a_fenced_producer_are_refused(txn: Links, group: Group) -> None:
    old = producer_of(txn)
    TxnProducer(txn, transactional_id=old.id).init()
    assert old.try_commit_offset(group.name, group.topic, 10) == "INVALID_PRODUCER_EPOCH"
    assert old.try_commit_offset(group.name, group.topic, 10, version=4) == "INVALID_PRODUCER_EPOCH"
    assert old.try_add_offsets(group.name) == "PRODUCER_FENCED"
    assert old.try_add_offsets(group.name, version=1) == "INVALID_PRODUCER_EPOCH"
