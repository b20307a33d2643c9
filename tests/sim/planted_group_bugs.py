"""Bugs for the trial of groups to find: each breaks one rule of coordinators, or of members.

A bug is a function that patches the cluster, or the client, for as long as its `MonkeyPatch` lasts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pytest

from ottla.broker.coordinator import runtime
from ottla.broker.coordinator.groups.classic_state import RecordedGroup
from ottla.broker.coordinator.groups.consumer_group import ConsumerGroup
from ottla.broker.coordinator.groups.manager import GroupShard
from ottla.broker.coordinator.groups.offsets import OffsetStore
from ottla.broker.coordinator.shard import ShardTimers
from ottla.client.consume.reader import Reader
from ottla.client.group.commits import Commits
from ottla.client.topic_partition import TopicPartition
from tests.sim.planted_bugs import Plant


def commits_what_the_program_works_on(patch: pytest.MonkeyPatch) -> None:
    """What the last poll returned counts as done: a member that vanishes takes it along."""
    patch.setattr(Reader, "done_with", lambda self, tp: self.reached(tp))


def fetched_records_outlive_a_revocation(patch: pytest.MonkeyPatch) -> None:
    def revoke(self: Reader, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self._generations.get(tp, 0) for tp in partitions}

    patch.setattr(Reader, "revoke", revoke)


def begins_without_what_is_committed(patch: pytest.MonkeyPatch) -> None:
    async def fetch(self: Commits, partitions: Iterable[TopicPartition], **options: Any) -> Any:
        return dict.fromkeys(partitions)

    patch.setattr(Commits, "fetch", fetch)


def commits_are_acknowledged_after_the_append(patch: pytest.MonkeyPatch) -> None:
    def wait(self: Any, complete: Any) -> None:
        complete(None)

    patch.setattr(runtime._LedPartition, "_wait", wait)


def offsets_are_not_loaded(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator begins with the offsets that it is told."""
    loaded = GroupShard.on_loaded

    def forget(self: GroupShard) -> None:
        self.offsets = OffsetStore()
        loaded(self)

    patch.setattr(GroupShard, "on_loaded", forget)


def anyone_commits(patch: pytest.MonkeyPatch) -> None:
    """Also members of generations that are over."""
    for group in (RecordedGroup, ConsumerGroup):
        patch.setattr(group, "validate_commit", lambda self, attempt: None)


def sessions_do_not_end(patch: pytest.MonkeyPatch) -> None:
    """The timer of a session does nothing."""
    schedule = ShardTimers.schedule

    def schedule_others(self: Any, key: Any, delay: float, operation: Any) -> None:
        if "session" not in str(key):
            schedule(self, key, delay, operation)

    patch.setattr(ShardTimers, "schedule", schedule_others)


PLANTED_IN_GROUPS: Final[dict[Plant, tuple[int, ...]]] = {
    commits_what_the_program_works_on: (2,),
    fetched_records_outlive_a_revocation: (1,),
    begins_without_what_is_committed: (0,),
    commits_are_acknowledged_after_the_append: (24,),
    offsets_are_not_loaded: (1,),
    anyone_commits: (63,),
    sessions_do_not_end: (0,),
}
"""With the seeds that are known to show each."""
