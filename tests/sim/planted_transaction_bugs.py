"""Bugs for the trial of transactions to find: at least one for each of its rules.

A bug is a function that patches the cluster, or the client, for as long as its `MonkeyPatch` lasts.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Final

import pytest

from ottla.broker.coordinator.groups.classic_state import RecordedGroup
from ottla.broker.coordinator.groups.consumer_group import ConsumerGroup
from ottla.broker.coordinator.groups.offsets import OffsetStore
from ottla.broker.coordinator.transactions import markers
from ottla.broker.log import reading, transactions
from ottla.broker.log.producers import ProducerStates, RememberedBatch
from ottla.broker.replication.partition import Partition
from ottla.client.consume.cursor import Cursor
from ottla.client.transactions import session
from ottla.client.transactions.manager import TransactionManager
from ottla.client.transactions.session import AsyncTransactSession
from ottla.config import ClientConfig
from ottla.wire.messages import WriteTxnMarkersRequest
from tests.sim.planted_bugs import Plant


def all_that_is_replicated_is_stable(patch: pytest.MonkeyPatch) -> None:
    """Readers of committed records do not wait for open transactions."""
    patch.setattr(Partition, "last_stable_offset", property(lambda self: self.high_watermark))


def aborted_transactions_are_not_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reading, "aborted_between", lambda indexes, start, end: [])


def aborted_transactions_are_told_from_too_early_on(patch: pytest.MonkeyPatch) -> None:
    """What the same producer has committed before, in the same response, goes with it."""
    between = transactions.aborted_between

    def from_the_start(indexes: Any, start: int, end: int) -> list[tuple[int, int]]:
        return [(producer_id, start) for producer_id, _ in between(indexes, start, end)]

    patch.setattr(reading, "aborted_between", from_the_start)


def one_partition_is_told_of_aborts_only(patch: pytest.MonkeyPatch) -> None:
    _turn_commits_to_aborts(patch, every=1)


def some_markers_say_the_opposite(patch: pytest.MonkeyPatch) -> None:
    _turn_commits_to_aborts(patch, every=2)


def _turn_commits_to_aborts(patch: pytest.MonkeyPatch, every: int) -> None:
    """Of some commits, one of the partitions is told that they were aborts."""
    build, counted = markers.markers_request, count()

    def build_wrongly(queued: Any) -> WriteTxnMarkersRequest:
        request = build(queued)
        for marker in request.markers:
            for topic in marker.topics:
                if topic.name == "level-0" and 1 in topic.partition_indexes and next(counted) % every == 0:
                    marker.transaction_result = False
        return request

    patch.setattr(markers, "markers_request", build_wrongly)


def sequences_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerStates, "duplicate_of", lambda self, batch: None)
    patch.setattr(ProducerStates, "_check_sequence", lambda self, state, batch, offset: None)


def repeated_batches_are_said_to_lie_at_the_start(patch: pytest.MonkeyPatch) -> None:
    """The response to a batch that is sent again says where another one lies."""
    duplicate_of = ProducerStates.duplicate_of

    def at_the_start(self: ProducerStates, batch: Any) -> RememberedBatch | None:
        found = duplicate_of(self, batch)
        return None if found is None else found._replace(first_offset=0, last_offset=0)

    patch.setattr(ProducerStates, "duplicate_of", at_the_start)


def a_new_leader_is_read_from_further_back(patch: pytest.MonkeyPatch) -> None:
    follow = Cursor.follow

    def follow_and_go_back(self: Cursor, leader: int, epoch: int) -> bool:
        has_changed = follow(self, leader, epoch)
        if has_changed and self.has_offset:
            self.offset = max(0, self.offset - 3)
        return has_changed

    patch.setattr(Cursor, "follow", follow_and_go_back)


def offsets_of_transactions_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Their commits change nothing: whoever reads next reads the same again."""

    def end_transaction(self: OffsetStore, producer_id: int, is_commit: bool, offset: int) -> None:
        self._pending.pop(producer_id, None)

    patch.setattr(OffsetStore, "end_transaction", end_transaction)


def offsets_of_aborted_transactions_count(patch: pytest.MonkeyPatch) -> None:
    end_transaction = OffsetStore.end_transaction

    def always_commit(self: OffsetStore, producer_id: int, is_commit: bool, offset: int) -> None:
        end_transaction(self, producer_id, True, offset)

    patch.setattr(OffsetStore, "end_transaction", always_commit)


def former_members_commit(patch: pytest.MonkeyPatch) -> None:
    """Neither the coordinator nor the session itself minds that partitions are another member's by now."""
    for group in (RecordedGroup, ConsumerGroup):
        patch.setattr(group, "validate_commit", lambda self, attempt: None)
    patch.setattr(AsyncTransactSession, "_has_lost", lambda self: False)


def sessions_read_what_is_aborted(patch: pytest.MonkeyPatch) -> None:
    """What their consumers are given is not only what is committed."""
    configured = session.session_config

    def read_everything(config: ClientConfig, manager: TransactionManager) -> ClientConfig:
        return configured(config, manager).replace(isolation_level="read_uncommitted")

    patch.setattr(session, "session_config", read_everything)


PLANTED_IN_TRANSACTIONS: Final[dict[Plant, tuple[tuple[str, ...], tuple[int, ...]]]] = {
    all_that_is_replicated_is_stable: (("precommitted read",), (0,)),
    aborted_transactions_are_not_told: (("aborted read",), (0,)),
    aborted_transactions_are_told_from_too_early_on: (("poll skip",), (0,)),
    one_partition_is_told_of_aborts_only: (("unseen",), (0,)),
    some_markers_say_the_opposite: (("lost write", "torn transaction"), (0,)),
    sequences_are_not_looked_at: (("duplicate",), (3,)),
    repeated_batches_are_said_to_lie_at_the_start: (("inconsistent offset", "non-monotonic send"), (3,)),
    a_new_leader_is_read_from_further_back: (("non-monotonic poll",), (0,)),
    offsets_of_transactions_are_forgotten: (("offsets and copies differ",), (0,)),
    offsets_of_aborted_transactions_count: (("not copied",), (5,)),
    sessions_read_what_is_aborted: (("copied from nowhere",), (0,)),
    former_members_commit: (("copied twice", "offset consumed twice"), (0,)),
}
"""Every bug, with the rules that find it, and seeds that have shown it."""
