"""Topics that are purged from members of groups: partitions go in order, and the group hears of the rest."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.server import faults
from ottla.client.consume.consumer import AsyncConsumer
from ottla.client.topic_partition import TopicPartition
from ottla.errors import ApiTimeoutError
from tests.client.group.grouping import EAGER, PROTOCOLS, QUICK, until, until_shared
from tests.client.worlds import Body, World, in_simulation

Run = Callable[[Body], object]
NUMBERS = [b"%d" % number for number in range(10)]
ORDERS, AUDIT = TopicPartition("orders", 0), TopicPartition("audit", 0)
TOPICS = {"orders": 1, "audit": 1}
each_protocol = pytest.mark.parametrize("options", PROTOCOLS.values(), ids=PROTOCOLS)


class Log:
    """What a member's program is told, in order."""

    def __init__(self) -> None:
        self.log: list[tuple[str, list[str]]] = []

    @property
    def callbacks(self) -> dict[str, Any]:
        return {f"on_{what}": self._note(what) for what in ("assigned", "revoked", "lost")}

    def _note(self, what: str) -> Callable[[Any, list[TopicPartition]], None]:
        return lambda consumer, given: self.log.append((what, [tp.topic for tp in given]))

    def gone(self, topic: str) -> list[str]:
        return [what for what, topics in self.log if topic in topics and what != "assigned"]


async def read_of(consumer: AsyncConsumer, topic: str, count: int) -> list[Any]:
    """The next records, until so many of a topic have come."""
    found: list[Any] = []
    async for record in consumer:
        found.append(record)
        if sum(each.topic == topic for each in found) == count:
            break
    return found


async def committed(world: World, cluster: Any, tp: TopicPartition) -> int | None:
    """What the group has, from outside of it."""
    kafka = world.client(cluster, **EAGER)
    found = await kafka.consume(tp.topic, group="billing").committed(tp)
    await kafka.close()
    return found[tp]


@each_protocol
def test_partitions_go_as_on_a_revoke_and_the_others_are_read_on(options: dict[str, Any], run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=TOPICS, config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            log = Log()
            kafka = world.client(cluster, **options, auto_commit_interval_ms=60_000)
            other = world.client(cluster, **options)
            async with kafka.consume("orders", "audit", group="billing", **log.callbacks) as consumer:
                await until_shared(world, consumer, count=2)
                seen = await read_of(consumer, "orders", 4)
                await kafka.purge_topics("orders")
                assert ORDERS not in consumer.assignment()
                assert log.gone("orders") == ["revoked"]
                # The fourth is what the program works on.
                assert await committed(world, cluster, ORDERS) == seen[-1].offset
                cluster.seed("audit", [b"audited"])
                rest = await read_of(consumer, "audit", 1)
                assert [record.value for record in rest] == [b"audited"], "nothing fetched before is seen"
                await until(world, lambda: consumer.assignment() == [AUDIT] and consumer.health().is_well)
                assert "orders" not in kafka._running().metadata.view.topics
                # The group has heard of it: another member has the topic to itself.
                async with other.consume("orders", group="billing") as second:
                    await until(world, lambda: second.assignment() == [ORDERS])
                    assert [each.offset for each in await read_of(second, "orders", 6)] == list(range(3, 9))
                    await until(world, lambda: consumer.assignment() == [AUDIT] and consumer.health().is_well)
            await kafka.close()
            await other.close()

    run(body)


@each_protocol
def test_a_member_with_nothing_left_leaves_and_its_loop_ends(options: dict[str, Any], run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=TOPICS, config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            log = Log()
            kafka = world.client(cluster, **options)
            async with kafka.consume("orders", group="billing", **log.callbacks) as consumer:
                seen = 0
                async for _ in consumer:
                    seen += 1
                    if seen == 3:
                        await consumer.purge_topics("orders")
                assert seen == 3
                assert log.log == [("assigned", ["orders"]), ("revoked", ["orders"])]
                health = consumer.health()
                assert (health.state, health.assignment) == ("left", [])
                assert (await kafka.admin.describe_groups(["billing"]))["billing"].members == ()
                assert await consumer.poll(timeout=60) == []
            assert await committed(world, cluster, ORDERS) == 2
            await kafka.close()

    run(body)


@each_protocol
@pytest.mark.parametrize("when", ["on_assigned", "on_revoked"])
def test_a_callback_may_purge_and_does_not_wait_for_itself(
    options: dict[str, Any], when: str, run: Run
) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={**TOPICS, "third": 1}, config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            cluster.seed("audit", NUMBERS)
            kafka = world.client(cluster, **options)
            calls = 0

            async def purge(consumer: Any, given: list[TopicPartition]) -> None:
                nonlocal calls
                calls += 1
                await kafka.purge_topics("orders")

            subscribed = ("orders", "audit", "third")
            callback: dict[str, Any] = {when: purge}
            async with kafka.consume(*subscribed, group="billing", **callback) as consumer:
                await until(world, lambda: AUDIT in consumer.assignment())
                if when == "on_revoked":
                    await until_shared(world, consumer, count=3)
                    await consumer.purge_topics("third")
                await until(world, lambda: calls > 0 and ORDERS not in consumer.assignment())
                await until(world, lambda: AUDIT in consumer.assignment() and consumer.health().is_well)
                topics = [record.topic for record in await read_of(consumer, "audit", 1)]
                assert when == "on_revoked" or topics == ["audit"]
            await kafka.close()

    run(body)


@each_protocol
def test_a_program_that_holds_rebalances_back_purges_and_goes_on(options: dict[str, Any], run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=TOPICS, config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            log = Log()
            kafka = world.client(cluster, **options, block_rebalance_on_poll=True)
            async with kafka.consume("orders", "audit", group="billing", **log.callbacks) as consumer:
                await until_shared(world, consumer, count=2)
                seen = 0
                async for record in consumer:
                    if record.topic == "audit":
                        break
                    seen += 1
                    if seen == 3:
                        # It works on a record: the rest happens when it asks for more.
                        await consumer.purge_topics("orders")
                        assert log.gone("orders") == []
                        cluster.seed("audit", [b"audited"])
                assert seen == 3
                consumer.allow_rebalance()
                await until(world, lambda: log.gone("orders") == ["revoked"])
            await kafka.close()

    run(body)


@each_protocol
def test_a_purge_during_a_rebalance_takes_effect_after_it(options: dict[str, Any], run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=TOPICS, config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            cluster.seed("audit", NUMBERS)
            api = "ConsumerGroupHeartbeat" if "group_protocol" in options else "JoinGroup"
            held = cluster.faults.add(api, when="after_append", action=faults.delay(0.2), count=1)
            kafka = world.client(cluster, **options)
            async with kafka.consume("orders", "audit", group="billing") as consumer:
                await held.wait()
                await consumer.purge_topics("orders")
                await until(world, lambda: consumer.assignment() == [AUDIT] and consumer.health().is_well)
                found = await consumer.poll(timeout=60)
                assert {record.topic for record in found} == {"audit"}
            await kafka.close()

    run(body)


@each_protocol
@pytest.mark.parametrize("is_recreated", [True, False], ids=["recreated", "deleted"])
def test_nothing_is_committed_for_a_topic_that_is_gone(
    options: dict[str, Any], is_recreated: bool, run: Run
) -> None:
    """And the purge does not wait for a commit that no coordinator takes."""

    async def body(world: World) -> None:
        async with world.cluster(topics=TOPICS, config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            quiet = {**options, "metadata_max_age_ms": 300_000, "auto_commit_interval_ms": 60_000}
            kafka = world.client(cluster, **quiet)
            async with kafka.consume("orders", "audit", group="billing") as consumer:
                await until_shared(world, consumer, count=2)
                await read_of(consumer, "orders", 5)
                await cluster.delete_topic("orders")
                if is_recreated:
                    await cluster.create_topic("orders", 1)
                await consumer.purge_topics("orders", timeout=30)
                assert ORDERS not in consumer.assignment()
            if is_recreated:
                assert await committed(world, cluster, ORDERS) is None
                cluster.seed("orders", [b"new"])
                async with kafka.consume("orders", group="billing") as again:
                    (record,) = await read_of(again, "orders", 1)
                    assert (record.offset, record.value) == (0, b"new")
            await kafka.close()

    run(body)


@each_protocol
def test_an_offset_of_the_old_topic_is_not_committed_for_the_new_one(options: dict[str, Any]) -> None:
    """Also without a purge, in the time in which the program has not come to the new topic yet."""

    async def body(world: World) -> None:
        async with world.cluster(topics=TOPICS, config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            kafka = world.client(cluster, **options, auto_commit_interval_ms=200)
            async with kafka.consume("orders", group="billing") as consumer:
                assert len(await consumer.poll(5, timeout=60)) == 5
                await consumer.poll(1, timeout=60)
                await cluster.delete_topic("orders")
                await cluster.create_topic("orders", 1)
                await world.runtime.clock.sleep(10)
                assert await committed(world, cluster, ORDERS) in (None, 0)
            await kafka.close()

    in_simulation(body)


@each_protocol
def test_a_pattern_leaves_a_topic_out_until_it_is_another_one(options: dict[str, Any], run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders-1": 1, "orders-2": 1}, config=QUICK) as cluster:
            one, two = TopicPartition("orders-1", 0), TopicPartition("orders-2", 0)
            kafka = world.client(cluster, **{**options, "auto_offset_reset": "latest"})
            async with kafka.consume(re.compile("orders-.*"), group="billing") as consumer:
                await until_shared(world, consumer, count=2)
                await consumer.purge_topics("orders-1")
                await until(world, lambda: consumer.assignment() == [two] and consumer.health().is_well)
                await cluster.delete_topic("orders-1")
                await cluster.create_topic("orders-1", 1)
                cluster.seed("orders-1", [b"new"])
                await until(world, lambda: one in consumer.assignment())
                (record,) = await read_of(consumer, "orders-1", 1)
                assert (record.offset, record.value) == (0, b"new")
            await kafka.close()

    run(body)


@each_protocol
def test_a_purge_that_a_coordinator_holds_up_says_so_and_goes_on(options: dict[str, Any], run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=TOPICS, config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            kafka = world.client(cluster, **options, auto_commit_interval_ms=60_000)
            async with kafka.consume("orders", "audit", group="billing") as consumer:
                await until_shared(world, consumer, count=2)
                await read_of(consumer, "orders", 5)
                await consumer.poll(1, timeout=60)
                held = cluster.faults.add("OffsetCommit", action=faults.delay(0.5), count=1)
                with pytest.raises(ApiTimeoutError, match="goes on by itself"):
                    await consumer.purge_topics("orders", timeout=0.1)
                await held.wait()
                await until(world, lambda: consumer.assignment() == [AUDIT] and consumer.health().is_well)
            assert await committed(world, cluster, ORDERS) is not None
            await kafka.close()

    run(body)
