"""Members of classic groups: their requests in order, rebalances of both kinds, and what goes wrong."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.server import faults
from ottla.client.group.consumer import AsyncGroupConsumer
from ottla.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    InconsistentGroupProtocolError,
    MaxPollExceededError,
)
from tests.client.group.grouping import (
    COOPERATIVE,
    EAGER,
    QUICK,
    SESSION_S,
    Told,
    partitions,
    until,
    until_shared,
)
from tests.client.test_request_order import Asked
from tests.client.worlds import Body, World, in_simulation

Run = Callable[[Body], object]
NUMBERS = [b"%d" % number for number in range(10)]


async def read(consumer: AsyncGroupConsumer, count: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while len(found) < count:
        found += [(record.partition, record.offset) for record in await consumer.poll(timeout=60)]
    return found


def test_a_fresh_member_asks_in_this_order_and_nothing_twice(run: Run) -> None:
    async def body(world: World) -> None:
        asked = Asked()
        async with world.cluster(topics={"orders": 4}, config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            # So that the offsets topic is there.
            async with world.client(cluster, **EAGER).consume("orders", group="other") as first:
                await until_shared(world, first)
            kafka = world.client(cluster, hooks=[asked], **{**EAGER, "heartbeat_interval_ms": 2900})
            async with kafka.consume("orders", group="billing") as consumer:
                assert len(await read(consumer, 10)) == 10
                await consumer.commit()
            order = list(dict.fromkeys(name for name in asked.names if name != "Heartbeat"))
            assert order == [
                "ApiVersions",
                "Metadata",
                "FindCoordinator",
                "JoinGroup",
                "SyncGroup",
                "OffsetFetch",
                "ListOffsets",
                "Fetch",
                "OffsetCommit",
                "LeaveGroup",
            ]
            counted = Counter(asked.names)
            # The first is answered with the id that the second joins by.
            assert counted["JoinGroup"] == 2
            once = ("Metadata", "FindCoordinator", "SyncGroup", "OffsetFetch", "OffsetCommit", "LeaveGroup")
            assert [counted[name] for name in once] == [1] * len(once)

    run(body)


def test_a_member_goes_on_where_its_group_has_committed_and_lists_no_offsets_for_that(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            first = world.client(cluster, **EAGER)
            async with first.consume("orders", group="billing") as consumer:
                assert len(await consumer.poll(4, timeout=60)) == 4
                await consumer.commit()
            asked = Asked()
            second = world.client(cluster, hooks=[asked], **EAGER)
            async with second.consume("orders", group="billing") as consumer:
                assert (await read(consumer, 6))[0] == (0, 4)
            assert "ListOffsets" not in asked.names

    run(body)


@pytest.mark.parametrize("options", [EAGER, COOPERATIVE], ids=["eager", "cooperative"])
def test_partitions_are_shared_with_a_member_that_comes_and_come_back_when_it_goes(
    options: dict[str, Any], run: Run
) -> None:
    async def body(world: World) -> None:
        first, second = Told(), Told()
        async with world.cluster(topics={"orders": 4}, config=QUICK) as cluster:
            kafka, other = world.client(cluster, **options), world.client(cluster, **options)
            async with kafka.consume("orders", group="billing", **first.callbacks) as one:
                await until_shared(world, one)
                async with other.consume("orders", group="billing", **second.callbacks) as two:
                    await until_shared(world, one, two)
                    await until(world, lambda: len(first.log) >= 2 and len(second.log) >= 1)
                    assert len(one.assignment()) == len(two.assignment()) == 2
                await until_shared(world, one)
        names = [what for what, _ in first.log]
        if options is EAGER:
            assert names == ["assigned", "revoked", "assigned", "revoked", "assigned", "revoked"]
            assert [len(given) for _, given in first.log] == [4, 4, 2, 2, 4, 4]
        else:
            # Only what moves is told of.
            assert [(what, len(given)) for what, given in first.log] == [
                ("assigned", 4),
                ("revoked", 2),
                ("assigned", 2),
                ("revoked", 4),
            ]
        assert [what for what, _ in second.log] == ["assigned", "revoked"]

    run(body)


def test_a_cooperative_member_reads_on_what_it_keeps_while_the_group_rebalances(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 4}, config=QUICK) as cluster:
            kafka, other = world.client(cluster, **COOPERATIVE), world.client(cluster, **COOPERATIVE)
            async with kafka.consume("orders", group="billing") as one:
                await until_shared(world, one)
                # The second member's SyncGroup is late: the first keeps its partitions and goes on meanwhile.
                fault = cluster.faults.add("SyncGroup", action=faults.delay(20.0), count=1)
                async with other.consume("orders", group="billing") as two:
                    await fault.wait()
                    for number in range(4):
                        cluster.seed("orders", NUMBERS, number)
                    kept = await one.poll(timeout=10.0)
                    assert kept
                    assert not two.assignment()
                    cluster.clock.advance(20)
                    await until_shared(world, one, two)

    run(body)


def test_a_group_that_falls_back_to_an_eager_assignor_gives_everything_up(run: Run) -> None:
    async def body(world: World) -> None:
        told = Told()
        both = {**EAGER, "partition_assignment_strategy": ("cooperative-sticky", "range")}
        async with world.cluster(topics={"orders": 4}, config=QUICK) as cluster:
            kafka, other = world.client(cluster, **both), world.client(cluster, **EAGER)
            async with kafka.consume("orders", group="billing", **told.callbacks) as one:
                await until_shared(world, one)
                async with other.consume("orders", group="billing") as two:
                    await until_shared(world, one, two)
            assert [(what, len(given)) for what, given in told.log[:3]] == [
                ("assigned", 4),
                ("revoked", 4),
                ("assigned", 2),
            ]

    run(body)


def test_a_static_member_that_comes_back_gets_its_partitions_without_a_rebalance(run: Run) -> None:
    async def body(world: World) -> None:
        told = Told()
        async with world.cluster(topics={"orders": 4}, config=QUICK) as cluster:
            kafka, other = world.client(cluster, **EAGER), world.client(cluster, **EAGER)
            async with kafka.consume(
                "orders", group="billing", group_instance_id="a", **told.callbacks
            ) as one:
                two = other.consume("orders", group="billing", group_instance_id="b")
                async with two:
                    await until_shared(world, one, two)
                    had, generation = two.assignment(), one.health().generation
                changes = list(told.log)
                async with other.consume("orders", group="billing", group_instance_id="b") as again:
                    await until_shared(world, one, again)
                    assert again.assignment() == had
                    assert again.health().generation == one.health().generation == generation
                assert told.log == changes

    run(body)


@pytest.mark.parametrize("options", [EAGER, COOPERATIVE], ids=["eager", "cooperative"])
@pytest.mark.parametrize("trouble", [None, "GROUP_AUTHORIZATION_FAILED"])
def test_a_static_leader_that_comes_back_notices_what_has_changed_without_it(
    trouble: str | None, options: dict[str, Any], run: Run
) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 2}, config=QUICK) as cluster:
            kafka, other = world.client(cluster, **options), world.client(cluster, **options)
            leader = kafka.consume("orders", group="billing", group_instance_id="a")
            async with leader:
                await until_shared(world, leader, count=2)
                async with other.consume("orders", group="billing", group_instance_id="b") as follower:
                    await until_shared(world, leader, follower, count=2)
                    generation = follower.health().generation
                    # A static one does not leave, and its group goes on without anyone who looks at the topics.
                    await leader.close()
                    await other.admin.create_partitions("orders", 4)
                    if trouble is not None:
                        cluster.faults.add("DescribeGroups", action=faults.error(trouble), count=1)
                    again = kafka.consume("orders", group="billing", group_instance_id="a")
                    async with again:
                        await until_shared(world, again, follower, count=4)
                        assert follower.health().generation > generation

    run(body)


def test_a_static_leader_that_comes_back_to_the_same_topics_changes_nothing(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 2}, config=QUICK) as cluster:
            kafka, other = world.client(cluster, **EAGER), world.client(cluster, **EAGER)
            leader = kafka.consume("orders", group="billing", group_instance_id="a")
            async with leader:
                await until_shared(world, leader, count=2)
                async with other.consume("orders", group="billing", group_instance_id="b") as follower:
                    await until_shared(world, leader, follower, count=2)
                    generation = follower.health().generation
                    await leader.close()
                    looked = cluster.faults.add("DescribeGroups", action=faults.delay(0.0))
                    async with kafka.consume("orders", group="billing", group_instance_id="a") as again:
                        await until_shared(world, again, follower, count=2)
                        assert looked.hits == 1
                        assert again.health().generation == follower.health().generation == generation

    run(body)


def test_a_member_whose_instance_id_another_one_uses_is_told_so_for_good(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 4}, config=QUICK) as cluster:
            kafka, other = world.client(cluster, **EAGER), world.client(cluster, **EAGER)
            async with (
                kafka.consume("orders", group="billing", group_instance_id="a") as one,
                other.consume("orders", group="billing") as witness,
            ):
                await until_shared(world, one, witness)
                async with other.consume("orders", group="billing", group_instance_id="a") as two:
                    for _ in range(2):
                        with pytest.raises(FencedInstanceIdError):
                            await one.poll(timeout=60)
                    health = one.health()
                    assert (health.state, health.assignment) == ("stopped", [])
                    assert "FENCED_INSTANCE_ID" in health.reason
                    await until_shared(world, two, witness)

    run(body)


def test_a_member_that_no_assignor_suits_hears_of_it_and_tries_again(run: Run) -> None:
    async def body(world: World) -> None:
        odd = {**EAGER, "partition_assignment_strategy": "roundrobin"}
        async with world.cluster(topics={"orders": 4}, config=QUICK) as cluster:
            kafka, other = world.client(cluster, **EAGER), world.client(cluster, **odd)
            two = other.consume("orders", group="billing")
            async with kafka.consume("orders", group="billing") as one:
                await until_shared(world, one)
                with pytest.raises(InconsistentGroupProtocolError):
                    await two.poll(timeout=60)
                assert not two.health().is_well
                await until_shared(world, one)
            for _ in range(2):
                try:
                    await two.poll(timeout=5)
                except InconsistentGroupProtocolError:
                    continue  # of the attempt before the other one left
            await until_shared(world, two)
            await two.close()

    run(body)


@pytest.mark.parametrize("api", ["FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch", "Heartbeat"])
@pytest.mark.parametrize("when", ["before_append", "after_append"])
def test_a_connection_that_is_lost_in_any_state_is_no_more_than_a_delay(api: str, when: str) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 4}, config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            fault = cluster.faults.add(api, action=faults.drop, count=2, when=when)
            kafka = world.client(cluster, **EAGER)
            async with kafka.consume("orders", group="billing") as consumer:
                assert len(await read(consumer, 10)) == 10
                await fault.wait()
                await until_shared(world, consumer)

    in_simulation(body)


def test_a_heartbeat_that_finds_no_way_is_an_error_of_this_consumer_and_of_nothing_else(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            kafka = world.client(cluster, **EAGER)
            async with kafka.consume("orders", group="billing") as consumer:
                await until_shared(world, consumer, count=1)
                action = faults.error("GROUP_AUTHORIZATION_FAILED")
                refused = cluster.faults.add("FindCoordinator", action=action, count=1)
                cluster.faults.add("Heartbeat", action=faults.error("NOT_COORDINATOR"), count=1)
                await refused.wait()
                await until(world, lambda: consumer.health().state == "stopped")
                with pytest.raises(GroupAuthorizationFailedError):
                    await consumer.poll(timeout=60)
                assert len(await read(consumer, 10)) == 10

    run(body)


@pytest.mark.parametrize("options", [EAGER, COOPERATIVE], ids=["eager", "cooperative"])
def test_a_coordinator_that_moves_keeps_the_group_as_it_is(options: dict[str, Any]) -> None:
    async def body(world: World) -> None:
        told = Told()
        config = {**QUICK, "offsets.topic.replication.factor": "3"}
        async with world.cluster(3, topics={"orders": 4}, config=config) as cluster:
            kafka, other = world.client(cluster, **options), world.client(cluster, **options)
            async with (
                kafka.consume("orders", group="billing", **told.callbacks) as one,
                other.consume("orders", group="billing") as two,
            ):
                await until_shared(world, one, two)
                changes, generation = list(told.log), one.health().generation
                await cluster.wait_until_in_sync()
                leader = cluster.leader("__consumer_offsets", 0)
                target = next(node for node in cluster.nodes if node != leader)
                await cluster.move_leader("__consumer_offsets", 0, target)
                before = world.runtime.clock.monotonic()

                def has_heard() -> bool:
                    heard = one.health().last_heartbeat
                    return heard is not None and world.runtime.clock.monotonic() - heard > before

                await until(world, has_heard, "a heartbeat to the new coordinator")
                await one.commit(dict.fromkeys(one.assignment(), 0))
                assert (told.log, one.health().generation) == (changes, generation)

    in_simulation(body)


def test_a_member_that_the_coordinator_has_forgotten_loses_its_partitions_and_joins_anew(run: Run) -> None:
    async def body(world: World) -> None:
        told = Told()
        async with world.cluster(topics={"orders": 2}, config=QUICK) as cluster:
            kafka = world.client(cluster, **EAGER)
            async with kafka.consume("orders", group="billing", **told.callbacks) as consumer:
                await until_shared(world, consumer, count=2)
                old = consumer.health().member_id
                cluster.faults.add(
                    "Heartbeat", action=faults.error("UNKNOWN_MEMBER_ID"), count=1, when="response"
                )
                await until(world, lambda: ("lost", [0, 1]) in told.log)
                # The session of the member that it was ends.
                cluster.clock.advance(SESSION_S)
                await until(world, lambda: consumer.health().member_id not in ("", old))
                await until(world, lambda: len(consumer.assignment()) == 2)
            assert [what for what, _ in told.log[:2]] == ["assigned", "lost"]

    run(body)


def test_a_program_that_takes_too_long_leaves_gets_a_clear_word_and_comes_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body(world: World) -> None:
        told = Told()
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            slow = {**EAGER, "max_poll_interval_ms": 2000, "enable_auto_commit": False}
            kafka, other = world.client(cluster, **slow), world.client(cluster, **EAGER)
            async with kafka.consume("orders", group="billing", **told.callbacks) as consumer:
                assert len(await consumer.poll(3, timeout=60)) == 3
                await until(world, lambda: consumer.health().state == "stopped", "the member to stop")
                assert told.log == [("assigned", [0]), ("lost", [0])]
                assert "max_poll_interval_ms (2000 ms)" in consumer.health().reason
                async with other.consume("orders", group="billing") as heir:
                    assert len(await read(heir, 10)) == 10
                    await heir.commit()
                with pytest.raises(MaxPollExceededError, match="max_poll_records"):
                    await consumer.poll(timeout=60)
                # What was fetched before is not seen: another member has committed it since.
                cluster.seed("orders", NUMBERS)
                assert (await consumer.poll(timeout=60))[0].offset == 10

    with caplog.at_level(logging.WARNING, "ottla.client.group"):
        in_simulation(body)
    assert any("has stopped" in message for message in caplog.messages)


def test_iterating_record_by_record_counts_as_getting_on() -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            kafka = world.client(cluster, **{**EAGER, "max_poll_interval_ms": 2000})
            async with kafka.consume("orders", group="billing") as consumer:
                seen = 0
                async for _ in consumer:
                    await world.runtime.clock.sleep(1.5)  # all ten of one fetch take 15 s
                    seen += 1
                    if seen == 10:
                        break
                assert consumer.health().is_well

    in_simulation(body)


def test_closing_while_the_group_joins_ends_soon_and_leaves(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 4}, config=QUICK) as cluster:
            kafka, other = world.client(cluster, **EAGER), world.client(cluster, **EAGER)
            async with kafka.consume("orders", group="billing") as one:
                await until_shared(world, one)
                cluster.faults.add("SyncGroup", action=faults.delay(120.0), count=2)
                two = other.consume("orders", group="billing")
                await two.poll(timeout=0)
                await until(world, lambda: two.health().state == "joining")
                began = world.runtime.clock.monotonic()
                await two.close()
                assert world.runtime.clock.monotonic() - began < (15 if world.simulated else 60)
                assert two.health().state == "left"
                cluster.faults.clear()
                await until_shared(world, one)

    run(body)


def test_the_leader_assigns_partitions_that_a_topic_grows_by_and_they_are_read_from_their_beginning(
    run: Run,
) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 2}, config=QUICK) as cluster:
            options = {**COOPERATIVE, "auto_offset_reset": "latest"}
            kafka = world.client(cluster, **options)
            async with kafka.consume("orders", group="billing") as consumer:
                await until_shared(world, consumer, count=2)
                await kafka.admin.create_partitions("orders", 3)
                cluster.seed("orders", NUMBERS, 2)
                assert await read(consumer, 10) == [(2, offset) for offset in range(10)]
                assert consumer.assignment() == partitions(0, 1, 2)

    run(body)


def test_two_consumers_of_one_client_share_a_group(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 4}, config=QUICK) as cluster:
            kafka = world.client(cluster, **EAGER)
            async with (
                kafka.consume("orders", group="billing") as one,
                kafka.consume("orders", group="billing") as two,
            ):
                # Each JoinGroup waits for the other's: on one connection they would wait for the rebalance timeout.
                await until_shared(world, one, two)

    run(body)


def test_twenty_members_share_forty_partitions() -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 40}, config=QUICK) as cluster:
            kafka = world.client(cluster, **COOPERATIVE)
            members = [kafka.consume("orders", group="billing") for _ in range(20)]
            await asyncio.gather(*(member.__aenter__() for member in members))
            await until_shared(world, *members, count=40)
            assert [len(member.assignment()) for member in members] == [2] * 20
            await asyncio.gather(*(member.close() for member in members))

    in_simulation(body)


def test_a_member_that_learns_from_a_commit_that_another_one_has_its_instance_id_does_not_take_it_back(
    run: Run,
) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            options = {**EAGER, "group_instance_id": "one", "heartbeat_interval_ms": 2900}
            kafka, other = world.client(cluster, **options), world.client(cluster, **options)
            async with kafka.consume("orders", group="billing") as first:
                await until_shared(world, first, count=1)
                async with other.consume("orders", group="billing") as second:
                    await until_shared(world, second, count=1)
                    with pytest.raises(CommitFailedError, match="FENCED_INSTANCE_ID"):
                        await first.commit(dict.fromkeys(partitions(0), 1))
                    for _ in range(2):
                        with pytest.raises(FencedInstanceIdError):
                            await first.poll(timeout=60)
                    await second.commit(dict.fromkeys(partitions(0), 2))

    run(body)


def test_a_member_that_was_too_slow_joins_again_once(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            kafka = world.client(cluster, **EAGER, max_poll_interval_ms=300)
            async with kafka.consume("orders", group="billing") as consumer:
                assert len(await consumer.poll(timeout=60)) == 10
                await until(world, lambda: consumer.health().state == "stopped")
                # More heartbeats would be due meanwhile.
                await world.runtime.clock.sleep(0.5)
                with pytest.raises(MaxPollExceededError):
                    await consumer.poll(timeout=60)
                assert len(await consumer.poll(timeout=60)) == 10

    with caplog.at_level(logging.INFO, logger="ottla.client.group"):
        run(body)
    # The one word, which is a warning; and nothing of the member that it was.
    assert [record.levelname for record in caplog.records if "max_poll_interval_ms" in record.message] == [
        "WARNING"
    ]
    assert not [record for record in caplog.records if "UNKNOWN_MEMBER_ID" in record.message]
