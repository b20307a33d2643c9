"""What a commit says of an offset beside its number, what a member that begins there makes of it, and when a commit
comes too late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla import OffsetAndMetadata
from ottla.broker.coordinator.groups import offset_requests
from ottla.broker.server import faults
from ottla.client.admin import GroupOffset
from ottla.client.group.consumer import AsyncGroupConsumer
from ottla.client.group.reactions import Reaction
from ottla.client.topic_partition import TopicPartition
from ottla.errors import (
    CommitFailedError,
    DataLossError,
    UnknownLeaderEpochError,
    UnknownTopicOrPartitionError,
)
from tests.client.group.grouping import (
    COOPERATIVE,
    EAGER,
    KIP_848,
    PROTOCOLS,
    QUICK,
    SESSION_S,
    Told,
    until,
    until_shared,
)
from tests.client.worlds import Body, World, in_simulation

Run = Callable[[Body], object]
NUMBERS = [b"%d" % number for number in range(10)]
ORDERS = TopicPartition("orders", 0)
AUDIT = TopicPartition("audit", 0)
each_protocol = pytest.mark.parametrize("options", PROTOCOLS.values(), ids=PROTOCOLS)
REPLICATED = {**QUICK, "offsets.topic.replication.factor": "2", "default.replication.factor": "2"}


async def committed(world: World, cluster: Any) -> GroupOffset | None:
    """What the group has, with its epoch, from outside of it."""
    return (await world.client(cluster).admin.group_offsets("billing", [ORDERS])).get(ORDERS)


async def changed_leader(cluster: Any) -> None:
    """Another leader, and so another epoch; the records stay."""
    leader = cluster.leader("orders", 0)
    await cluster.stop_node(leader)
    await cluster.wait_for(lambda: cluster.leader("orders", 0) not in (leader, -1))
    await cluster.start_node(leader)


@each_protocol
def test_every_commit_has_the_epoch_of_the_last_record_before_it(options: dict[str, Any], run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(2, topics=["orders"], config=REPLICATED) as cluster:
            cluster.seed("orders", NUMBERS[:5])
            await changed_leader(cluster)
            cluster.seed("orders", NUMBERS[5:])
            kafka = world.client(cluster, **options, enable_auto_commit=False)
            async with kafka.consume("orders", group="billing") as consumer:
                await read_and_commit_in_every_way(world, cluster, consumer)
            automatic = world.client(cluster, **options)
            async with automatic.consume("orders", group="billing") as consumer:
                assert [record.offset for record in await consumer.poll(3, timeout=60)] == [6, 7, 8]
                assert [record.offset for record in await consumer.poll(3, timeout=60)] == [9]
            assert await committed(world, cluster) == GroupOffset(9, "", 1)

    run(body)


async def read_and_commit_in_every_way(world: World, cluster: Any, consumer: AsyncGroupConsumer) -> None:
    assert len(await consumer.poll(4, timeout=60)) == 4
    await consumer.commit()
    assert await committed(world, cluster) == GroupOffset(4, "", 0)
    (last,) = await consumer.poll(1, timeout=60)
    await consumer.commit()
    assert await committed(world, cluster) == GroupOffset(5, "", 0)
    (first,) = await consumer.poll(1, timeout=60)
    assert (last.leader_epoch, first.leader_epoch) == (0, 1)
    consumer.mark(last)
    await consumer.commit_marked()
    assert await committed(world, cluster) == GroupOffset(5, "", 0)
    await consumer.commit({ORDERS: 5})
    assert await committed(world, cluster) == GroupOffset(5, "", 0)
    await consumer.commit({ORDERS: OffsetAndMetadata(6, "by hand")})
    assert await committed(world, cluster) == GroupOffset(6, "by hand", 1)
    # Nothing is known of what is not read yet, and what the program says it knows.
    await consumer.commit({ORDERS: 20})
    assert await committed(world, cluster) == GroupOffset(20)
    await consumer.commit({ORDERS: OffsetAndMetadata(6, "", 0)})
    assert await committed(world, cluster) == GroupOffset(6, "", 0)
    await consumer.commit(first)
    assert await committed(world, cluster) == GroupOffset(6, "", 1)


def test_a_commit_where_nothing_was_read_since_keeps_the_epoch_that_was_committed(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            await world.client(cluster).admin.alter_group_offsets(
                "billing", {ORDERS: GroupOffset(10, "by hand", 0)}
            )
            kafka = world.client(cluster, **EAGER, enable_auto_commit=False)
            async with kafka.consume("orders", group="billing") as consumer:
                await until_shared(world, consumer, count=1)
                await consumer.commit()
            assert await committed(world, cluster) == GroupOffset(10, "", 0)

    run(body)


@each_protocol
def test_a_leader_that_is_older_than_the_commit_is_not_asked_where_to_go_on(
    options: dict[str, Any], run: Run
) -> None:
    async def body(world: World) -> None:
        async with world.cluster(2, topics=["orders"], config=REPLICATED) as cluster:
            cluster.seed("orders", NUMBERS[:5])
            # As after a change of leader that this broker has not heard of: it ends before what was committed.
            await world.client(cluster).admin.alter_group_offsets("billing", {ORDERS: GroupOffset(7, "", 1)})
            kafka = world.client(cluster, **options)
            fenced = cluster.faults.add("Fetch", when="response", action=faults.delay(0.0))
            async with kafka.consume("orders", group="billing") as consumer:
                await fenced.wait(2)
                assert await consumer.position(ORDERS) == 7
                await changed_leader(cluster)
                cluster.seed("orders", NUMBERS[5:])
                assert [record.offset for record in await consumer.poll(timeout=60)] == [7, 8, 9]

    run(body)


def test_an_epoch_that_the_partition_never_reaches_is_an_error_that_says_so_until_the_program_seeks() -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            # As one that was taken over from another cluster.
            await world.client(cluster).admin.alter_group_offsets("billing", {ORDERS: GroupOffset(7, "", 50)})
            kafka = world.client(cluster, **EAGER)
            async with kafka.consume("orders", group="billing") as consumer:
                for _ in range(2):
                    with pytest.raises(
                        UnknownLeaderEpochError, match=r"in leader epoch 50.*is in 0.*[Ss]eek"
                    ):
                        await consumer.poll(timeout=600)
                consumer.seek(ORDERS, 7)
                assert [record.offset for record in await consumer.poll(timeout=60)] == [7, 8, 9]
                await consumer.commit()
            assert await committed(world, cluster) == GroupOffset(10, "", 0)

    in_simulation(body)


def test_a_log_that_was_truncated_behind_the_commit_is_noticed(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(2, topics=["orders"], config=REPLICATED) as cluster:
            cluster.seed("orders", NUMBERS[:5])
            await changed_leader(cluster)
            cluster.seed("orders", NUMBERS[5:])
            # What the epoch before has ended with: the other records were lost with their leader.
            await world.client(cluster).admin.alter_group_offsets("billing", {ORDERS: GroupOffset(8, "", 0)})
            kafka = world.client(cluster, **EAGER)
            async with kafka.consume("orders", group="billing") as consumer:
                with pytest.raises(DataLossError, match="truncated") as raised:
                    await consumer.poll(timeout=60)
                assert (raised.value.wanted_offset, raised.value.new_offset) == (8, 5)
                assert [record.offset for record in await consumer.poll(timeout=60)] == [5, 6, 7, 8, 9]

    run(body)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("release", ["2.4", None])
def test_only_stable_offsets_are_begun_at_whatever_is_read_where_the_broker_can_say(
    isolation: str, release: str | None, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    fetch = offset_requests.fetch

    def watched(*given: Any, stable: bool) -> Any:
        asked.append(stable)
        return fetch(*given, stable=stable)

    monkeypatch.setattr(offset_requests, "fetch", watched)

    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK, max_versions=release) as cluster:
            cluster.seed("orders", NUMBERS)
            kafka = world.client(cluster, **EAGER, isolation_level=isolation)
            async with kafka.consume("orders", group="billing") as consumer:
                assert len(await consumer.poll(timeout=60)) == 10
                await consumer.commit()
                assert await consumer.committed() == {ORDERS: 10}
            # Of a broker before version 7 of the request nothing more is to be had.
            assert dict.fromkeys(asked) == {release is None: None}

    run(body)


# A topic that is deleted and created again


async def recreated(world: World, cluster: Any, name: str = "orders") -> None:
    """For consumers that do not create it themselves, in between."""
    admin = world.client(cluster).admin
    await admin.delete_topic(name)
    await admin.create_topic(name, partitions=1)


@each_protocol
def test_an_offset_is_never_committed_for_another_topic_of_the_same_name(
    options: dict[str, Any], run: Run
) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders", "audit"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            cluster.seed("audit", NUMBERS)
            off = {"enable_auto_commit": False, "allow_auto_create_topics": False}
            kafka = world.client(cluster, **{**options, **off}, client_id="member")
            async with kafka.consume(["orders", "audit"], group="billing") as consumer:
                seen = 0
                while seen < 20:
                    seen += len(await consumer.poll(timeout=60))
                # The member hears of it from the coordinator, which does not know the topic, and not before.
                late = cluster.faults.add("Metadata", client_id="member", action=faults.delay(1.0))
                await recreated(world, cluster)
                with pytest.raises(
                    CommitFailedError, match="orders-0 are not committed: the topic was deleted"
                ):
                    await consumer.commit({ORDERS: 10, AUDIT: 9})
                assert late.hits
                offsets = await world.client(cluster).admin.group_offsets("billing", [ORDERS, AUDIT])
                assert {tp: each and each.offset for tp, each in offsets.items()} == {ORDERS: None, AUDIT: 9}

    run(body)


@each_protocol
def test_a_topic_that_was_created_again_is_committed_as_far_as_it_was_read(
    options: dict[str, Any], run: Run
) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            marks = {"auto_commit_marks": True, "auto_commit_interval_ms": 100}
            kafka = world.client(cluster, **options, **marks, allow_auto_create_topics=False)
            async with kafka.consume("orders", group="billing") as consumer:
                consumer.mark(*await consumer.poll(timeout=60))
                await recreated(world, cluster)
                cluster.seed("orders", NUMBERS[:3])
                records = await read_through_loss(consumer, 3)
                assert [record.offset for record in records] == [0, 1, 2]
                consumer.mark(records[1])
            assert await committed(world, cluster) == GroupOffset(2, "", 0)

    run(body)


async def read_through_loss(consumer: AsyncGroupConsumer, count: int) -> list[Any]:
    """Also where the topic is gone for a moment, or its partitions are."""
    found: list[Any] = []
    while len(found) < count:
        try:
            came = await consumer.poll(timeout=60)
        except (DataLossError, UnknownTopicOrPartitionError):
            continue
        assert came, f"nothing comes: {consumer.health()}"
        found += came
    return found


def test_a_coordinator_that_does_not_know_a_topic_yet_is_asked_again(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            unknown = faults.error("UNKNOWN_TOPIC_ID")
            fetches = cluster.faults.add("OffsetFetch", action=unknown, count=2)
            commits = cluster.faults.add("OffsetCommit", action=unknown, count=2)
            kafka = world.client(cluster, **EAGER)
            async with kafka.consume("orders", group="billing") as consumer:
                assert len(await consumer.poll(timeout=60)) == 10
                await consumer.commit()
                assert await consumer.committed() == {ORDERS: 10}
            assert (fetches.hits, commits.hits) == (2, 2)

    run(body)


def test_a_commit_for_a_topic_that_is_gone_fails_soon(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            kafka = world.client(cluster, **EAGER, enable_auto_commit=False, client_id="member")
            async with kafka.consume("orders", group="billing") as consumer:
                assert len(await consumer.poll(timeout=60)) == 10
                # Else the group might be without the topic before the commit.
                cluster.faults.add("Metadata", client_id="member", action=faults.delay(1.0))
                await world.client(cluster).admin.delete_topic("orders")
                with pytest.raises(CommitFailedError, match="orders-0 are not committed"):
                    await consumer.commit()

    run(body)


def test_a_consumer_that_was_not_used_yet_commits_nothing_and_says_so(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            consumer = world.client(cluster, **EAGER).consume("orders", group="billing")
            with pytest.raises(CommitFailedError, match=r"has not joined.*first poll.*alter_group_offsets"):
                await consumer.commit({ORDERS: 1})
            async with consumer:
                # It joins, and the commit waits for that.
                await consumer.commit({ORDERS: 1})
            assert await committed(world, cluster) == GroupOffset(1)

    run(body)


# Commits that come too late, or are answered too late


@each_protocol
def test_a_commit_does_not_wait_for_longer_than_it_may_behind_another_one(options: dict[str, Any]) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            kafka = world.client(cluster, **options, enable_auto_commit=False)
            async with kafka.consume("orders", group="billing") as consumer:
                await until_shared(world, consumer, count=1)
                slow = cluster.faults.add("OffsetCommit", action=faults.delay(2.0), count=1)
                first = consumer.commit_async({ORDERS: 1})
                await slow.wait()
                began = world.runtime.clock.monotonic()
                with pytest.raises(CommitFailedError, match="within 1 s: a commit before this one"):
                    await consumer.commit({ORDERS: 2}, timeout=1)
                assert world.runtime.clock.monotonic() - began < 1.1
                assert await first is None
                assert await consumer.committed(ORDERS) == {ORDERS: 1}

    in_simulation(body)


def test_a_refusal_that_is_older_than_the_membership_takes_nothing_away(run: Run) -> None:
    async def body(world: World) -> None:
        told = Told()
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            kafka = world.client(cluster, **COOPERATIVE, enable_auto_commit=False)
            async with kafka.consume("orders", group="billing", **told.callbacks) as consumer:
                await until_shared(world, consumer, count=1)
                # It gets to the coordinator when the member is in the next generation.
                slow = cluster.faults.add("OffsetCommit", action=faults.delay(0.5), count=1)
                late = consumer.commit_async({ORDERS: 1})
                await slow.wait()
                consumer._member.interrupt(Reaction.REJOIN, "a test wants it")
                await until(world, lambda: consumer.health().generation == 2)
                error = await late
                assert isinstance(error, CommitFailedError)
                assert "the group has rebalanced since they were sent" in str(error)
                await consumer.commit({ORDERS: 1})
                assert consumer.health().generation == 2
                assert told.log == [("assigned", [0])]

    run(body)


@each_protocol
def test_a_commit_in_a_rebalance_is_sent_again_and_holds_no_join_up(options: dict[str, Any]) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            kafka = world.client(cluster, **options)
            async with kafka.consume("orders", group="billing") as consumer:
                await consumer.poll(5, timeout=60)
                code = "STALE_MEMBER_EPOCH" if options is KIP_848 else "REBALANCE_IN_PROGRESS"
                cluster.faults.add("OffsetCommit", action=faults.error(code), count=1)
                began = world.runtime.clock.monotonic()
                # What auto-commit has to commit, of an eager member that gives up, waits behind it.
                await consumer.commit({ORDERS: 5})
                await until_shared(world, consumer, count=1)
                assert world.runtime.clock.monotonic() - began < 2
                assert await consumer.committed(ORDERS) == {ORDERS: 5}

    in_simulation(body)


@pytest.mark.parametrize("options", [EAGER, COOPERATIVE], ids=["eager", "cooperative"])
def test_the_last_commit_for_partitions_that_go_does_not_wait_for_the_join_behind_it(
    options: dict[str, Any],
) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 2}, config=QUICK) as cluster:
            for number in range(2):
                cluster.seed("orders", NUMBERS, number)
            kafka = world.client(cluster, **options)
            async with kafka.consume("orders", group="billing") as consumer:
                seen = 0
                while seen < 20:
                    seen += len(await consumer.poll(timeout=60))
                await consumer.poll(timeout=0)
                refused = cluster.faults.add("OffsetCommit", action=faults.error("REBALANCE_IN_PROGRESS"))
                began = world.runtime.clock.monotonic()
                async with world.client(cluster, **options).consume("orders", group="billing") as other:
                    await refused.wait()
                    await until_shared(world, consumer, other, count=2)
                    assert world.runtime.clock.monotonic() - began < 2
                    cluster.faults.clear()

    in_simulation(body)


@each_protocol
@pytest.mark.parametrize("when", ["before", "after"])
def test_what_was_done_before_a_loss_is_not_committed_when_the_partition_has_come_back(
    options: dict[str, Any], when: str, run: Run
) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            kafka = world.client(cluster, **options, enable_auto_commit=False)
            async with kafka.consume("orders", group="billing") as consumer:
                await until_shared(world, consumer, count=1)
                heartbeat, join = (
                    ("ConsumerGroupHeartbeat",) * 2 if options is KIP_848 else ("Heartbeat", "JoinGroup")
                )
                commits = []
                # One that the member has to send again.
                unknown = faults.error("UNKNOWN_TOPIC_OR_PARTITION")
                held = cluster.faults.add("OffsetCommit", action=unknown)
                if when == "before":
                    commits.append(consumer.commit_async({ORDERS: 1}))
                    await held.wait()
                gone = faults.error("UNKNOWN_MEMBER_ID")
                lost = cluster.faults.add(heartbeat, action=gone, count=1, when="response")
                await lost.wait()
                slow = cluster.faults.add(join, action=faults.delay(0.3), count=1)
                await slow.wait()
                if when == "after":
                    commits.append(consumer.commit_async({ORDERS: 1}))
                cluster.faults.clear()
                error = await commits[0]
                assert isinstance(error, CommitFailedError)
                assert "is not in the group any more" in str(error)
                # The session of the member that it was ends.
                cluster.clock.advance(SESSION_S)
                await until_shared(world, consumer, count=1)
                assert await consumer.committed(ORDERS) == {ORDERS: None}
                await consumer.commit({ORDERS: 1})

    run(body)


@each_protocol
def test_commits_that_are_under_way_are_sent_before_a_partition_goes_also_those_that_wait_for_another(
    options: dict[str, Any], run: Run
) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            kafka = world.client(cluster, **options, enable_auto_commit=False)
            async with kafka.consume("orders", group="billing") as consumer:
                await until_shared(world, consumer, count=1)
                slow = cluster.faults.add("OffsetCommit", action=faults.delay(0.3), count=1)
                commits = [consumer.commit_async({ORDERS: offset}) for offset in (1, 2, 3)]
                await slow.wait()
            assert [await each for each in commits] == [None, None, None]
            assert await committed(world, cluster) == GroupOffset(3)

    run(body)
