"""Groups: listed, described and deleted at their coordinators, with and without members."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.assignors import MemberSubscription
from ottla.assignors.protocol import encode_assignment, encode_subscription
from ottla.broker.server.faults import error
from ottla.client.admin import ListedGroup
from ottla.client.admin.groups import in_batches
from ottla.client.topic_partition import TopicPartition
from ottla.errors import (
    ClusterAuthorizationFailedError,
    ConfigurationError,
    DecodeError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    NonEmptyGroupError,
)
from ottla.wire.messages import JoinGroupRequest, JoinGroupResponse, SyncGroupRequest, SyncGroupResponse
from tests.client.requests.support import Requester, requester
from tests.client.worlds import Body, World

Run = Callable[[Body], object]
FIRST = TopicPartition("orders", 0)
NO_DELAY = {"group.initial.rebalance.delay.ms": "0"}


async def join(
    me: Requester, group: str, *, protocol_type: str = "consumer", metadata: bytes, assignment: bytes
) -> str:
    """Makes a member of a new group, its leader, and gives it these bytes; its id."""
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    refused = await me.send(request, JoinGroupResponse)
    request.member_id = refused.member_id
    joined = await me.send(request, JoinGroupResponse)
    assert joined.error_code == 0
    assigned = SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)
    sync = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type=protocol_type,
        protocol_name="range",
        assignments=[assigned],
    )
    assert (await me.send(sync, SyncGroupResponse)).error_code == 0
    return joined.member_id


def test_groups_of_all_brokers_are_listed_by_state_and_type(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(brokers=3, topics=["orders"], config=NO_DELAY) as cluster:
            me = requester(world, cluster)
            assert await me.admin.list_groups() == {}
            for number in range(6):
                await me.admin.alter_group_offsets(f"g{number}", {FIRST: 0})
            await join(
                me,
                "reading",
                metadata=encode_subscription(MemberSubscription("", ("orders",))),
                assignment=b"",
            )
            listed = await me.admin.list_groups()
            assert list(listed) == [*(f"g{number}" for number in range(6)), "reading"]
            assert listed["g0"] == ListedGroup("g0", "", "Empty", "classic")
            assert list(await me.admin.list_groups(states=["stable"])) == ["reading"]
            assert len(await me.admin.list_groups(states=["EMPTY"], types=["Classic"])) == 6
            assert await me.admin.list_groups(types=["consumer"]) == {}

    run(body)


def test_a_broker_that_lists_nothing_is_named(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(brokers=2, topics=["orders"]) as cluster:
            me = requester(world, cluster)
            await me.admin.alter_group_offsets("billing", {FIRST: 0})
            cluster.faults.add("ListGroups", node=2, action=error("CLUSTER_AUTHORIZATION_FAILED"))
            with pytest.raises(ClusterAuthorizationFailedError, match="broker 2"):
                await me.admin.list_groups()
            listed = await me.admin.list_groups(errors="collect")
            assert isinstance(listed.errors["broker 2"], ClusterAuthorizationFailedError)

    run(body)


def test_a_group_is_described_with_what_its_members_have(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(brokers=2, topics={"orders": 2}, config=NO_DELAY) as cluster:
            me = requester(world, cluster)
            subscribed = encode_subscription(MemberSubscription("", ("orders", "audit"), rack="r1"))
            assigned = encode_assignment([("orders", 1), ("orders", 0)])
            member_id = await join(me, "billing", metadata=subscribed, assignment=assigned)
            described = await me.admin.describe_group("billing")
            assert (described.group_type, described.state, described.assignor) == (
                "classic",
                "Stable",
                "range",
            )
            assert described.coordinator in (1, 2)
            (member,) = described.members
            assert (member.member_id, member.topics, member.rack) == (member_id, ("audit", "orders"), "r1")
            assert member.assignment == (FIRST, TopicPartition("orders", 1))
            with pytest.raises(NonEmptyGroupError, match="'billing'"):
                await me.admin.delete_group("billing")

    run(body)


def test_members_of_another_protocol_type_are_described_without_their_bytes(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(config=NO_DELAY) as cluster:
            me = requester(world, cluster)
            await join(me, "connect", protocol_type="connect", metadata=b"its own", assignment=b"bytes")
            described = await me.admin.describe_group("connect")
            assert described.protocol_type == "connect"
            assert [(member.topics, member.assignment) for member in described.members] == [((), ())]

    run(body)


def test_a_member_that_sent_nonsense_fails_the_description_of_its_group_only(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=NO_DELAY) as cluster:
            me = requester(world, cluster)
            await join(me, "odd", metadata=b"nonsense", assignment=b"")
            await me.admin.alter_group_offsets("billing", {FIRST: 0})
            described = await me.admin.describe_groups(["odd", "billing"], errors="collect")
            assert list(described) == ["billing"]
            assert isinstance(described.errors["odd"], DecodeError)

    run(body)


def test_groups_fail_one_by_one_in_the_order_in_which_they_were_named(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            me = requester(world, cluster)
            for group in ("b", "a"):
                await me.admin.alter_group_offsets(group, {FIRST: 0})
            described = await me.admin.describe_groups(["b", "missing", "a", "b"], errors="collect")
            assert list(described) == ["b", "a"]
            assert isinstance(described.errors["missing"], GroupIdNotFoundError)
            deleted = await me.admin.delete_groups(["missing", "a", "b"], errors="collect")
            assert (list(deleted), list(deleted.errors)) == (["a", "b"], ["missing"])
            with pytest.raises(GroupIdNotFoundError, match="The group is 'a'"):
                await me.admin.delete_group("a")

    run(body)


@pytest.mark.parametrize("release", ["2.8", "3.7", "4.0"])
def test_groups_of_older_clusters_are_administered_too(run: Run, release: str) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=NO_DELAY, max_versions=release) as cluster:
            me = requester(world, cluster)
            subscribed = encode_subscription(MemberSubscription("", ("orders",)))
            await join(me, "reading", metadata=subscribed, assignment=encode_assignment([FIRST]))
            await me.admin.alter_group_offsets("billing", {FIRST: 1})
            assert list(await me.admin.list_groups()) == ["billing", "reading"]
            described = await me.admin.describe_groups(["reading", "billing", "missing"], errors="collect")
            assert [(group.group_id, group.state) for group in described.values()] == [
                ("reading", "Stable"),
                ("billing", "Empty"),
            ]
            assert isinstance(described.errors["missing"], GroupIdNotFoundError)
            assert (await me.admin.group_lag("billing"))[FIRST].committed == 1
            await me.admin.delete_group("billing")

    run(body)


def test_a_coordinator_that_refuses_is_named_with_the_group(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            me = requester(world, cluster)
            for api in ("ConsumerGroupDescribe", "DescribeGroups"):
                cluster.faults.add(api, action=error("GROUP_AUTHORIZATION_FAILED"))
            with pytest.raises(GroupAuthorizationFailedError, match="'billing'"):
                await me.admin.describe_group("billing")

    run(body)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"states": ["stabel"]}, "states='stabel': it is one of Empty, PreparingRebalance"),
        ({"types": ["new"]}, "types='new': it is one of classic, consumer"),
    ],
)
def test_a_state_or_type_that_does_not_exist_is_refused(
    run: Run, options: dict[str, list[str]], said: str
) -> None:
    async def body(world: World) -> None:
        me = requester(world, "127.0.0.1:1")
        with pytest.raises(ConfigurationError, match=said):
            await me.admin.list_groups(states=options.get("states", ()), types=options.get("types", ()))

    run(body)


def test_one_name_in_place_of_a_list_is_refused(run: Run) -> None:
    async def body(world: World) -> None:
        me = requester(world, "127.0.0.1:1")
        with pytest.raises(TypeError, match="write \\['billing'\\]"):
            await me.admin.describe_groups("billing")
        with pytest.raises(TypeError, match="write states=\\['Stable'\\]"):
            await me.admin.list_groups(states="Stable")

    run(body)


def test_many_groups_are_asked_for_in_pieces() -> None:
    assert [list(some) for some in in_batches([1, 2, 3, 4, 5], 2)] == [[1, 2], [3, 4], [5]]
