"""Bugs for the nemesis to find: each breaks one rule of replication, or of those who rely on it.

A bug is a function that patches the cluster, or the client, for as long as its `MonkeyPatch` lasts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from ottla.broker.controller import elections, in_sync
from ottla.broker.handlers import api_00_produce, api_01_fetch
from ottla.broker.log.log import Log
from ottla.broker.metadata.image import PartitionImage
from ottla.broker.metadata.records import PartitionChangeRecord
from ottla.broker.replication.fetcher import Followed, ReplicaFetcher
from ottla.broker.replication.isr_changes import IsrChanges
from ottla.broker.replication.partition import IsrChange, Partition
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.wire.messages import FetchResponse

Plant = Callable[[pytest.MonkeyPatch], None]


def high_watermark_is_the_log_end(patch: pytest.MonkeyPatch) -> None:
    def commit(self: Partition, now: float) -> int:
        return self._advance(self.log.log_end_offset) if self.is_leader else 0

    patch.setattr(Partition, "commit", commit)


def high_watermark_waits_for_one_follower(patch: pytest.MonkeyPatch) -> None:
    """A majority is enough for other protocols, where a majority elects."""

    def commit(self: Partition, now: float) -> int:
        if not self.is_leader or self.is_under_min_isr:
            return 0
        followers = (each.log_end_offset for each in self.followers.values())
        return self._advance(min(self.log.log_end_offset, max(followers, default=0)))

    patch.setattr(Partition, "commit", commit)


def pending_members_do_not_count(patch: pytest.MonkeyPatch) -> None:
    """The high watermark moves with the ISR that the leader knows of, while the controller may have a larger one."""
    patch.setattr(Partition, "maximal_isr", property(lambda self: self.image.isr))
    patch.setattr(Partition, "_is_about_to_join", lambda self, replica, follower, now: False)


def acknowledged_after_the_append(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "has_committed", lambda self, offset: True)


def no_divergence_is_noticed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(api_01_fetch._Reading, "_diverging", lambda self, partition, request: None)


def divergence_is_not_cut_off(patch: pytest.MonkeyPatch) -> None:
    """The follower goes on behind what only it has."""
    append = ReplicaFetcher._append

    def append_only(self: ReplicaFetcher, followed: Followed, result: FetchResponse.PartitionData) -> None:
        result.diverging_epoch = None
        append(self, followed, result)

    patch.setattr(ReplicaFetcher, "_append", append_only)


def unclean_elections(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(elections, "allows_unclean", lambda context, topic: True)


def shrinks_without_the_controller(patch: pytest.MonkeyPatch) -> None:
    propose = IsrChanges.propose

    def decide_alone(self: IsrChanges, partition: Partition, change: IsrChange) -> None:
        if len(change.isr) > len(partition.image.isr):
            propose(self, partition, change)
            return
        partition.pending = None
        partition.image = replace(partition.image, isr=change.isr)

    patch.setattr(IsrChanges, "propose", decide_alone)
    # Else a leader that is alone would wait for min.insync.replicas.
    patch.setattr(Partition, "is_under_min_isr", property(lambda self: False))


def followers_forget_producers(patch: pytest.MonkeyPatch) -> None:
    append = Log.append_as_follower

    def append_and_forget(self: Log, *args: Any, **options: Any) -> Any:
        appended = append(self, *args, **options)
        self.producers.reset([])
        return appended

    patch.setattr(Log, "append_as_follower", append_and_forget)


def consumers_read_to_the_log_end(patch: pytest.MonkeyPatch) -> None:
    def fetch(self: Partition, offset: int, max_bytes: int, *, committed: bool, at_least_one: bool) -> Any:
        return self._fetch(offset, max_bytes, self.log.log_end_offset, at_least_one)

    patch.setattr(Partition, "fetch", fetch)


def high_watermark_is_the_truth(patch: pytest.MonkeyPatch) -> None:
    """As before KIP-101: who follows begins at the high watermark that it knows, which may be an old one."""
    follow = ReplicaManager._follow_leader_of

    def cut_first(self: ReplicaManager, partition: Partition) -> None:
        if partition.image.has_leader and not partition.is_leader:
            partition.truncate_to(partition.high_watermark)
        follow(self, partition)

    patch.setattr(ReplicaManager, "_follow_leader_of", cut_first)


def leader_epochs_stay(patch: pytest.MonkeyPatch) -> None:
    merge = PartitionImage.merge

    def merge_without_epoch(self: PartitionImage, change: PartitionChangeRecord) -> PartitionImage:
        return replace(merge(self, change), leader_epoch=self.leader_epoch)

    patch.setattr(PartitionImage, "merge", merge_without_epoch)


def old_leaders_are_obeyed(patch: pytest.MonkeyPatch) -> None:
    """The controller does not look at the epochs of a leader that says who is in sync."""
    patch.setattr(in_sync, "_check", lambda *args: None)


def epochs_of_silent_leaders_stay(patch: pytest.MonkeyPatch) -> None:
    """A leader that wrote nothing keeps its epoch, by which no other leader recognizes its log."""
    truncate_to = Log.truncate_to

    def truncate_records(self: Log, offset: int) -> None:
        if offset < self.log_end_offset:
            truncate_to(self, offset)

    patch.setattr(Log, "truncate_to", truncate_records)


def errors_after_the_append_name_no_offset(patch: pytest.MonkeyPatch) -> None:
    error = api_00_produce._Replicating.error

    def error_without_offset(self: Any) -> Any:
        found = error(self)
        if found is not None:
            self.result.base_offset = -1
        return found

    patch.setattr(api_00_produce._Replicating, "error", error_without_offset)


PLANTED: Final[dict[Plant, tuple[int, ...]]] = {
    high_watermark_is_the_log_end: (0, 1),
    high_watermark_waits_for_one_follower: (1, 3),
    pending_members_do_not_count: (1, 3),
    acknowledged_after_the_append: (0, 1),
    no_divergence_is_noticed: (3,),
    divergence_is_not_cut_off: (0,),
    unclean_elections: (3, 8),
    shrinks_without_the_controller: (11,),
    followers_forget_producers: (3, 4),
    consumers_read_to_the_log_end: (1, 3),
    high_watermark_is_the_truth: (5, 18),
    leader_epochs_stay: (0,),
    old_leaders_are_obeyed: (39,),
    epochs_of_silent_leaders_stay: (19,),
    errors_after_the_append_name_no_offset: (35,),
}
"""Every bug, with seeds that have shown it."""
