"""What a KIP-848 group says of itself, and who may commit to it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker.coordinator.groups.consumer_group import ConsumerGroup, preferred_assignor
from ottla.broker.coordinator.groups.consumer_member import ConsumerMember
from ottla.broker.coordinator.groups.group import CommitAttempt
from ottla.errors import (
    BrokerError,
    IllegalGenerationError,
    NonEmptyGroupError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnsupportedVersionError,
)
from tests.broker.coordinator.groups.consumer_world import ConsumerWorld


@pytest.fixture
def world() -> ConsumerWorld:
    return ConsumerWorld()


def code(call: Callable[[], object]) -> int:
    try:
        call()
    except BrokerError as error:
        return error.code
    return 0


def commit(
    group: ConsumerGroup,
    member: str,
    epoch: int,
    partition: int = 0,
    *,
    version: int = 9,
    transactional: bool = False,
) -> int:
    """The error code of a commit for a partition of the topic t."""

    def attempt() -> None:
        check = group.validate_commit(CommitAttempt(member, None, epoch, version, transactional))
        if check is not None:
            check("t", partition)

    return code(attempt)


def test_the_state_follows_the_epochs(world: ConsumerWorld) -> None:
    a, b = world.member("a"), world.member("b")
    a.join()
    group = world.group
    assert (group.state_name, group.is_empty) == ("Stable", False)
    b.join()
    assert group.state_name == "Reconciling"
    a.beat()
    a.acknowledge()
    b.beat()
    assert group.state_name == "Stable"
    b.leave()
    assert group.state_name == "Assigning"
    a.leave()
    assert (group.state_name, group.is_empty) == ("Empty", True)


def test_a_member_commits_in_its_epoch(world: ConsumerWorld) -> None:
    world.member("a").join()
    assert commit(world.group, "a", 2) == 0
    assert commit(world.group, "a", 3) == StaleMemberEpochError.code
    assert commit(world.group, "a", 1) == StaleMemberEpochError.code
    assert commit(world.group, "a", 1, transactional=True) == IllegalGenerationError.code
    assert commit(world.group, "nobody", 2) == UnknownMemberIdError.code
    assert commit(world.group, "a", 2, version=8) == UnsupportedVersionError.code
    assert commit(world.group, "a", 2, version=3, transactional=True) == 0
    assert commit(world.group, "", -1, version=3, transactional=True) == 0, "it names no member"
    assert commit(world.group, "", -1) == UnknownMemberIdError.code
    assert commit(world.group, "", -2, transactional=True) == UnknownMemberIdError.code


def test_an_older_epoch_commits_what_the_member_has_held_since(world: ConsumerWorld) -> None:
    """KIP-1251: a commit that was under way when the epoch changed is not lost."""
    a, b = world.member("a"), world.member("b")
    a.join()
    b.join()
    a.beat()
    assert commit(world.group, "a", 2, partition=3) == 0, "it still has what it is about to give up"
    a.acknowledge()
    b.beat()
    assert [commit(world.group, "a", 2, index) for index in (0, 1)] == [0, 0]
    assert [commit(world.group, "a", 2, index) for index in (2, 3)] == [StaleMemberEpochError.code] * 2
    assert commit(world.group, "b", 2, 2) == StaleMemberEpochError.code, "it has it since 3"
    assert commit(world.group, "a", 1, 0) == StaleMemberEpochError.code


def test_others_commit_to_a_group_without_members_only(world: ConsumerWorld) -> None:
    a = world.member("a")
    a.join()
    assert commit(world.group, "", -1) == UnknownMemberIdError.code
    a.leave()
    assert commit(world.group, "", -1) == 0
    assert commit(world.group, "a", 2) == UnknownMemberIdError.code


def test_offsets_are_fetched_in_the_epoch_of_the_member_or_by_nobody_in_particular(
    world: ConsumerWorld,
) -> None:
    world.member("a").join()

    def fetch(member: str | None, epoch: int) -> int:
        return code(lambda: world.group.validate_fetch(member, epoch))

    assert [fetch("a", epoch) for epoch in (2, 1, 3, -1)] == [0, 113, 113, 113]
    assert [fetch(member, -1) for member in (None, "", "nobody")] == [0, 25, 25]


def test_only_a_group_without_members_is_deleted(world: ConsumerWorld) -> None:
    a = world.member("a")
    a.join()
    with pytest.raises(NonEmptyGroupError):
        world.group.validate_delete()
    a.leave()
    world.group.validate_delete()
    for record in world.group.tombstones():
        world.shard.replay(record.key, record.value)
    assert world.shard.groups == {}


def test_offsets_of_topics_that_are_read_are_kept(world: ConsumerWorld) -> None:
    world.member("a").join()
    assert world.group.is_subscribed_to("t")
    assert not world.group.is_subscribed_to("u")
    assert world.group.offset_expires_from(1234) == 1234


def test_the_assignor_is_the_one_that_most_members_ask_for() -> None:
    def chosen(*assignors: str | None) -> str:
        members = [ConsumerMember(str(number), assignor=name) for number, name in enumerate(assignors)]
        return preferred_assignor(members, "uniform")

    assert chosen() == chosen(None, None) == "uniform"
    assert chosen(None, None, "range") == "range"
    assert chosen("range", "uniform", "uniform") == "uniform"
