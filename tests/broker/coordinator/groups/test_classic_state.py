"""What others may do with a classic group: commit, delete, and how long its offsets are kept."""

from __future__ import annotations

import pytest

from ottla.broker.coordinator.groups.classic import ClassicGroup
from ottla.broker.coordinator.groups.classic_state import ClassicState, subscription_topics
from ottla.broker.coordinator.groups.group import CommitAttempt
from ottla.broker.coordinator.groups.records import GroupMetadataValue
from ottla.errors import (
    BrokerError,
    DecodeError,
    FencedInstanceIdError,
    IllegalGenerationError,
    NonEmptyGroupError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from tests.broker.coordinator.groups.classic_world import ClassicWorld, subscription


def refusal(
    group: ClassicGroup,
    member_id: str,
    generation: int,
    instance: str | None = None,
    *,
    transactional: bool = False,
) -> type[BrokerError] | None:
    attempt = CommitAttempt(member_id, instance, generation, 9, transactional)
    try:
        group.validate_commit(attempt)
    except BrokerError as error:
        return type(error)
    return None


def test_an_empty_group_takes_commits_of_no_member() -> None:
    world = ClassicWorld()
    assert refusal(world.group, "", -1) is None
    assert refusal(world.group, "m", 0) is UnknownMemberIdError


def test_a_group_with_members_takes_commits_of_those_in_their_generation() -> None:
    world = ClassicWorld()
    member, static = world.stable(None, "i")
    group = world.group
    assert refusal(group, member, 1) is None
    assert refusal(group, "", -1) is UnknownMemberIdError
    assert refusal(group, "", -1, transactional=True) is None
    assert refusal(group, member, 0) is IllegalGenerationError
    assert refusal(group, "x", 1, "i") is FencedInstanceIdError
    assert refusal(group, static, 1, "i") is None


def test_while_assignments_are_awaited_only_transactions_commit() -> None:
    world = ClassicWorld()
    world.parked(world.new_id())
    world.timers.advance(0)
    (member,) = world.group.members
    assert world.group.state is ClassicState.COMPLETING_REBALANCE
    assert refusal(world.group, member.member_id, 1) is RebalanceInProgressError
    assert refusal(world.group, member.member_id, 1, transactional=True) is None


def test_only_an_empty_group_is_deleted_and_offsets_also_from_consumers() -> None:
    world = ClassicWorld()
    world.group.validate_delete()
    world.stable(None)
    with pytest.raises(NonEmptyGroupError):
        world.group.validate_delete()
    world.group.validate_offset_delete()
    connect = ClassicWorld()
    connect.stable(None, protocol_type="connect")
    with pytest.raises(NonEmptyGroupError):
        connect.group.validate_offset_delete()


def test_offsets_expire_from_the_time_that_fits_the_state() -> None:
    simple = ClassicWorld()
    assert simple.group.offset_expires_from(5) == 5
    world = ClassicWorld()
    world.stable(None, metadata=subscription("orders"))
    assert world.group.offset_expires_from(5) == 5
    world.timers.advance(10)
    assert world.group.is_empty
    assert world.group.offset_expires_from(5) == world.timers.now_ms
    old = ClassicGroup.load("g", GroupMetadataValue(protocol_type="consumer"), world.rules)
    assert old.offset_expires_from(5) == 5
    connect = ClassicWorld()
    connect.stable(None, protocol_type="connect")
    assert connect.group.offset_expires_from(5) is None


def test_the_topics_of_a_subscription_are_read_whatever_its_version() -> None:
    assert subscription_topics(subscription("a", "b")) == ["a", "b"]
    assert subscription_topics(b"\0\3" + subscription("a")[2:] + b"more") == ["a"]
    for broken in (b"", b"\0", b"\0\0\0"):
        with pytest.raises(DecodeError):
            subscription_topics(broken)
