"""Offsets of groups: committed from outside, read, deleted, reset, and compared with the ends of partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.assignors import MemberSubscription
from ottla.assignors.protocol import encode_assignment, encode_subscription
from ottla.broker.server.faults import error
from ottla.client.admin import GroupOffset, GroupReset, PartitionLag
from ottla.client.topic_partition import TopicPartition
from ottla.errors import (
    ConfigurationError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    KafkaError,
    NonEmptyGroupError,
    UnknownTopicOrPartitionError,
    UnstableOffsetCommitError,
)
from tests.client.admin.test_groups import NO_DELAY, join
from tests.client.requests.support import requester
from tests.client.worlds import Body, World

Run = Callable[[Body], object]
FIRST = TopicPartition("orders", 0)
SECOND = TopicPartition("orders", 1)


def test_offsets_are_committed_and_read_with_their_metadata(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(brokers=2, topics={"orders": 2, "audit": 1}) as cluster:
            admin = requester(world, cluster).admin
            assert await admin.group_offsets("billing") == {}
            await admin.alter_group_offsets("billing", {FIRST: 7, SECOND: GroupOffset(9, "note", 0)})
            assert await admin.group_offsets("billing") == {
                FIRST: GroupOffset(7),
                SECOND: GroupOffset(9, "note", 0),
            }
            named = await admin.group_offsets("billing", [SECOND, "audit"], require_stable=True)
            assert list(named.items()) == [
                (SECOND, GroupOffset(9, "note", 0)),
                (TopicPartition("audit", 0), None),
            ]

    run(body)


def test_partitions_that_cannot_be_committed_fail_beside_the_others(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 2}) as cluster:
            admin = requester(world, cluster).admin
            gone = TopicPartition("gone", 0)
            altered = await admin.alter_group_offsets("billing", {gone: 1, FIRST: 1}, errors="collect")
            assert list(altered) == [FIRST]
            assert isinstance(altered.errors[gone], UnknownTopicOrPartitionError)
            with pytest.raises(UnknownTopicOrPartitionError, match="topic gone"):
                await admin.alter_group_offsets("billing", {gone: 1})
            with pytest.raises(ValueError, match="orders-0 is -1: it is 0 or more"):
                await admin.alter_group_offsets("billing", {FIRST: -1})

    run(body)


@pytest.mark.parametrize(
    "code", ["NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"]
)
def test_a_coordinator_that_is_not_ready_is_asked_again(run: Run, code: str) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 2}) as cluster:
            admin = requester(world, cluster).admin
            faults = [
                cluster.faults.add(api, action=error(code), count=1)
                for api in ("OffsetCommit", "OffsetFetch", "OffsetDelete")
            ]
            await admin.alter_group_offsets("billing", {FIRST: 1, SECOND: 2})
            assert await admin.group_offsets("billing") == {FIRST: GroupOffset(1), SECOND: GroupOffset(2)}
            await admin.delete_group_offsets("billing", [FIRST])
            assert await admin.group_offsets("billing") == {SECOND: GroupOffset(2)}
            assert [fault.hits for fault in faults] == [1, 1, 1]

    run(body)


def test_a_group_that_may_not_be_read_is_named(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            admin = requester(world, cluster).admin
            for api in ("OffsetFetch", "OffsetDelete"):
                cluster.faults.add(api, action=error("GROUP_AUTHORIZATION_FAILED"))
            with pytest.raises(GroupAuthorizationFailedError, match="'billing'"):
                await admin.group_offsets("billing")
            with pytest.raises(GroupAuthorizationFailedError, match="'billing'"):
                await admin.delete_group_offsets("billing", [FIRST])

    run(body)


def test_a_read_waits_for_a_transaction_that_commits_other_offsets(run: Run) -> None:
    async def body(world: World) -> None:
        # Fault rules find partitions where older versions have them.
        async with world.cluster(topics={"orders": 2}, max_versions={"OffsetFetch": 7}) as cluster:
            admin = requester(world, cluster).admin
            await admin.alter_group_offsets("billing", {FIRST: 1, SECOND: 2})
            unstable = error("UNSTABLE_OFFSET_COMMIT")
            fault = cluster.faults.add("OffsetFetch", when="response", partition=1, action=unstable, count=2)
            read = await admin.group_offsets("billing", [FIRST, SECOND], require_stable=True)
            assert (read, fault.hits) == ({FIRST: GroupOffset(1), SECOND: GroupOffset(2)}, 2)
            cluster.faults.add("OffsetFetch", when="response", partition=1, action=unstable)
            waited = await admin.group_offsets(
                "billing", [FIRST, SECOND], require_stable=True, errors="collect", timeout=1.0
            )
            assert waited == {FIRST: GroupOffset(1)}
            assert isinstance(waited.errors[SECOND], UnstableOffsetCommitError)

    run(body)


@pytest.mark.parametrize(
    ("move", "after"),
    [
        ({"to": "earliest"}, 0),
        ({"to": "latest"}, 3),
        ({"to": 1}, 1),
        ({"to": 50}, 3),
        ({"shift": 1}, 3),
        ({"shift": -9}, 0),
        ({"to": "by_duration:PT0S"}, 3),
    ],
    ids=str,
)
def test_a_reset_moves_a_group_within_its_partitions(run: Run, move: dict[str, Any], after: int) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 2}) as cluster:
            admin = requester(world, cluster).admin
            cluster.seed("orders", [b"1", b"2", b"3"], 0)
            await admin.alter_group_offsets("billing", {FIRST: 2})
            expected = {FIRST: GroupReset(before=2, after=after)}
            assert await admin.reset_group_offsets("billing", dry_run=True, **move) == expected
            assert await admin.group_offsets("billing") == {FIRST: GroupOffset(2)}
            assert await admin.reset_group_offsets("billing", **move) == expected
            assert await admin.group_offsets("billing") == {FIRST: GroupOffset(after)}

    run(body)


def test_a_reset_of_named_topics_begins_a_group_that_does_not_exist(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 2}) as cluster:
            admin = requester(world, cluster).admin
            with pytest.raises(KafkaError, match="'billing' has committed nothing: name the topics"):
                await admin.reset_group_offsets("billing", to="latest")
            reset = await admin.reset_group_offsets("billing", "orders", to="latest")
            assert reset == {FIRST: GroupReset(None, 0), SECOND: GroupReset(None, 0)}
            assert (await admin.describe_group("billing")).state == "Empty"

    run(body)


def test_partitions_that_cannot_be_reset_fail_beside_the_others(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 2}) as cluster:
            admin = requester(world, cluster).admin
            await admin.alter_group_offsets("billing", {FIRST: 0})
            reset = await admin.reset_group_offsets("billing", "orders", shift=1, errors="collect")
            assert reset == {FIRST: GroupReset(0, 0)}
            assert "orders-1 has no committed offset to shift" in str(reset.errors[SECOND])
            cluster.faults.add("ListOffsets", partition=1, action=error("TOPIC_AUTHORIZATION_FAILED"))
            reset = await admin.reset_group_offsets("billing", "orders", to="latest", errors="collect")
            assert (list(reset), list(reset.errors)) == ([FIRST], [SECOND])

    run(body)


@pytest.mark.parametrize(
    ("move", "said"),
    [({}, "not with both"), ({"to": "latest", "shift": 1}, "not with both"), ({"to": -1}, "0 or more")],
    ids=str,
)
def test_a_reset_to_nowhere_is_refused(run: Run, move: dict[str, Any], said: str) -> None:
    async def body(world: World) -> None:
        with pytest.raises(ConfigurationError, match=said):
            await requester(world, "127.0.0.1:1").admin.reset_group_offsets("billing", **move)

    run(body)


def test_the_offsets_of_a_group_with_members_are_theirs(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 2, "audit": 1}, config=NO_DELAY) as cluster:
            me = requester(world, cluster)
            audit = TopicPartition("audit", 0)
            await me.admin.alter_group_offsets("billing", {FIRST: 0, audit: 0})
            await join(
                me,
                "billing",
                metadata=encode_subscription(MemberSubscription("", ("orders",))),
                assignment=encode_assignment([("orders", 0), ("orders", 1)]),
            )
            with pytest.raises(NonEmptyGroupError, match="Stable with 1 members"):
                await me.admin.reset_group_offsets("billing", to="latest")
            with pytest.raises(NonEmptyGroupError, match="'billing' belong to its members"):
                await me.admin.alter_group_offsets("billing", {FIRST: 1})
            deleted = await me.admin.delete_group_offsets("billing", [FIRST, audit], errors="collect")
            assert list(deleted) == [audit]
            assert isinstance(deleted.errors[FIRST], GroupSubscribedToTopicError)

    run(body)


def test_lag_is_what_lies_between_the_commit_and_the_end(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 2, "audit": 1}, config=NO_DELAY) as cluster:
            me = requester(world, cluster)
            with pytest.raises(GroupIdNotFoundError, match="'billing'"):
                await me.admin.group_lag("billing")
            cluster.seed("orders", [b"1", b"2", b"3"], 0)
            await me.admin.alter_group_offsets("billing", {FIRST: 1, TopicPartition("audit", 0): 9})
            await join(
                me,
                "billing",
                metadata=encode_subscription(MemberSubscription("", ("orders",))),
                assignment=encode_assignment([("orders", 0), ("orders", 1)]),
            )
            lag = await me.admin.group_lag("billing")
            # What was committed beyond the end, as after a truncation, is no lag.
            assert lag == {
                TopicPartition("audit", 0): PartitionLag(9, 0, 0),
                FIRST: PartitionLag(1, 3, 2),
                SECOND: PartitionLag(None, 0, None),
            }

    run(body)
