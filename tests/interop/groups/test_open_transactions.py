"""Offsets that a transaction commits: they count when it ends, and who wants only stable ones waits for that."""

from __future__ import annotations

import uuid

import pytest

from ottla.wire.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from tests.interop.groups.group import Group
from tests.interop.groups.link import Link
from tests.interop.waiting import eventually

ILLEGAL_GENERATION = 22
UNKNOWN_MEMBER = 25
UNSTABLE_OFFSET = 88
_TRANSACTION = 1
_PASSING = (14, 15, 16, 51)
"""Coordinators that load, are unknown or moved, or are busy with the last transaction."""


class Transaction:
    """One transaction of a producer of its own that commits offsets."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._link: Link = group.link()
        self._id = f"id-{uuid.uuid4().hex[:12]}"
        # The first who looks for their coordinator has the topic of transactions made.
        find = FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=[self._id])
        self._link.get(find, 4, FindCoordinatorResponse)
        eventually(self._is_initialized, "the coordinator of transactions", every=0.02)
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            group_id=group.name,
        )
        assert self._link.get(request, 3, AddOffsetsToTxnResponse).error_code == 0

    def _is_initialized(self) -> bool:
        request = InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=60_000)
        answer = self._link.get(request, 4, InitProducerIdResponse)
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
        return answer.error_code == 0

    def commit(
        self, offset: int = 1, member_id: str = "", generation: int = -1, instance: str | None = None
    ) -> int:
        """TxnOffsetCommit of partition 0: its code."""
        part = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        topics = [
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=self._group.topic, partitions=[part])
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=self._group.name,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=topics,
        )
        codes: list[int] = []

        def is_final() -> bool:
            (answered,) = self._link.get(request, 3, TxnOffsetCommitResponse).topics
            codes[:] = [answered.partitions[0].error_code]
            return codes[0] not in _PASSING

        eventually(is_final, "the coordinators to decide", every=0.02)
        return codes[0]

    def end(self, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=committed,
        )
        assert self._link.get(request, 3, EndTxnResponse).error_code == 0


def stable(group: Group, require: bool = True) -> tuple[int, int]:
    """Code and offset of partition 0."""
    topics = [OffsetFetchRequest.OffsetFetchRequestTopics(name=group.topic, partition_indexes=[0])]
    wanted = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group.name, topics=topics)
    request = OffsetFetchRequest(groups=[wanted], require_stable=require)
    (found,) = group.outside.get(request, 9, OffsetFetchResponse).groups
    assert found.error_code == 0
    (part,) = found.topics[0].partitions
    return part.error_code, part.committed_offset


@pytest.mark.parametrize(("committed", "offset"), [(True, 9), (False, 4)])
def test_an_offset_of_an_open_transaction_is_unstable_until_it_ends(
    group: Group, committed: bool, offset: int
) -> None:
    assert group.classic().commit(4) == 0
    transaction = Transaction(group)
    assert transaction.commit(9) == 0
    assert stable(group) == (UNSTABLE_OFFSET, -1)
    assert stable(group, require=False) == (0, 4)
    transaction.end(committed)
    eventually(lambda: stable(group)[0] == 0, "the transaction to end")
    assert stable(group) == (0, offset)


def test_a_later_plain_commit_wins_over_the_offset_of_an_older_transaction(group: Group) -> None:
    transaction = Transaction(group)
    assert transaction.commit(9) == 0
    assert group.classic().commit(4) == 0
    transaction.end(committed=True)
    eventually(lambda: stable(group)[0] == 0, "the transaction to end")
    assert stable(group) == (0, 4)


def test_a_transaction_names_a_member_and_its_generation_or_nobody(group: Group) -> None:
    member = group.stable_one()
    transaction = Transaction(group)
    assert transaction.commit(1) == 0
    assert transaction.commit(2, member.member_id, 1) == 0
    assert transaction.commit(3, member.member_id, 2) == ILLEGAL_GENERATION
    assert transaction.commit(4, "nobody", 1) == UNKNOWN_MEMBER
    # Other than plain commits, those of transactions are taken while assignments are awaited.
    member.join()
    assert (group.state(), member.generation) == ("CompletingRebalance", 2)
    assert transaction.commit(5, member.member_id, 2) == 0
    transaction.end(committed=True)
    eventually(lambda: stable(group)[0] == 0, "the transaction to end")
    assert stable(group) == (0, 5)


def test_a_transaction_of_a_consumer_group_names_an_epoch_that_its_member_has(group: Group) -> None:
    group.wait_until_known(group.topic)
    member = group.consumer()
    member.join()
    transaction = Transaction(group)
    assert transaction.commit(1, member.member_id, 2) == 0
    assert transaction.commit(1, member.member_id, 3) == ILLEGAL_GENERATION
    assert transaction.commit(1, "nobody", 2) == UNKNOWN_MEMBER
    assert transaction.commit(1) == 0
    transaction.end(committed=False)
