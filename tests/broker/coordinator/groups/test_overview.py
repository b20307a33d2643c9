"""Lists, descriptions and deletions of groups, as a shard gives them."""

from __future__ import annotations

import pytest

from ottla.broker.coordinator.groups import overview
from ottla.errors import GroupIdNotFoundError, NonEmptyGroupError
from tests.broker.coordinator.groups.shards import LoneShard
from tests.broker.coordinator.groups.test_offset_requests import commit, join


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        ([], [], ["g"]),
        ([" EMPTY "], ["Classic"], ["g"]),
        (["Stable"], [], []),
        ([], ["consumer"], []),
        ([], ["nonsense"], []),
    ],
)
def test_groups_are_listed_by_state_and_type(states: list[str], types: list[str], found: list[str]) -> None:
    lone = LoneShard()
    commit(lone)
    assert [each.group_id for each in overview.listed(lone.shard, states, types)] == found


def test_a_group_that_is_not_there_is_dead() -> None:
    lone = LoneShard()
    older, newer = (overview.described(lone.shard, "g", version) for version in (5, 6))
    assert (older.group_state, older.error_code) == ("Dead", 0)
    assert (newer.error_code, newer.error_message) == (69, "Group g not found.")


def test_what_members_sent_is_described_when_the_group_is_stable() -> None:
    lone = LoneShard()
    join(lone)
    (member,) = overview.described(lone.shard, "g", 5).members
    assert (member.client_id, member.client_host, member.member_metadata) == ("c", "/h", b"")


def test_a_group_is_deleted_with_its_offsets_when_it_has_no_members() -> None:
    lone = LoneShard()
    with pytest.raises(GroupIdNotFoundError):
        overview.delete(lone.shard, "g")
    commit(lone)
    lone.write(lambda shard: overview.delete(shard, "g"))
    assert lone.shard.groups == {}
    assert not lone.shard.offsets.has_offsets("g")
    join(lone)
    with pytest.raises(NonEmptyGroupError):
        overview.delete(lone.shard, "g")
