"""A group's consumer as a program sees it: what is committed and when, callbacks, health, and mistakes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from ottla import ClientConfig, OffsetAndMetadata, ServerPattern
from ottla.broker.server import faults
from ottla.client.group.consumer import AsyncGroupConsumer
from ottla.client.group.reactions import Reaction
from ottla.client.topic_partition import TopicPartition
from ottla.errors import (
    CommitFailedError,
    ConfigurationError,
    InvalidRegularExpressionError,
    KafkaError,
)
from tests.client.group.grouping import (
    EAGER,
    KIP_848,
    PROTOCOLS,
    QUICK,
    Told,
    partitions,
    until,
    until_shared,
)
from tests.client.worlds import Body, World, in_simulation

Run = Callable[[Body], object]
NUMBERS = [b"%d" % number for number in range(10)]
ORDERS = TopicPartition("orders", 0)
each_protocol = pytest.mark.parametrize("options", PROTOCOLS.values(), ids=PROTOCOLS)


async def committed(world: World, cluster: Any, *wanted: TopicPartition) -> list[int | None]:
    """What the group has, from outside of it."""
    kafka = world.client(cluster, **EAGER)
    outside = kafka.consume("orders", group="billing")
    found = await outside.committed(*wanted)
    await kafka.close()
    return [found[tp] for tp in wanted]


@each_protocol
def test_auto_commit_commits_what_the_program_is_done_with_and_no_more(options: dict[str, Any]) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            kafka = world.client(cluster, **options, auto_commit_interval_ms=200)
            async with kafka.consume("orders", group="billing") as consumer:
                seen = 0
                async for record in consumer:
                    await world.runtime.clock.sleep(1.0)
                    # It works on this one: the group would get it again.
                    assert await committed(world, cluster, ORDERS) == [record.offset]
                    seen += 1
                    if seen == 4:
                        break
                assert len(await consumer.poll(3, timeout=60)) == 3
                await world.runtime.clock.sleep(1.0)
                assert await committed(world, cluster, ORDERS) == [4]
                assert len(await consumer.poll(3, timeout=60)) == 3
                await world.runtime.clock.sleep(1.0)
                assert await committed(world, cluster, ORDERS) == [7]
            assert await committed(world, cluster, ORDERS) == [7]

    in_simulation(body)


def test_batches_are_committed_when_the_next_one_is_asked_for() -> None:
    pytest.importorskip("pyarrow")

    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            kafka = world.client(cluster, **EAGER, auto_commit_interval_ms=200)
            batches = kafka.consume_batches("orders", group="billing")
            assert (await anext(batches)).num_rows == 10
            await world.runtime.clock.sleep(1.0)
            assert await committed(world, cluster, ORDERS) == [0]
            cluster.seed("orders", NUMBERS)
            assert (await anext(batches)).num_rows == 10
            await world.runtime.clock.sleep(1.0)
            assert await committed(world, cluster, ORDERS) == [10]
            await batches.aclose()
            await kafka.close()

    in_simulation(body)


@each_protocol
def test_a_program_commits_all_it_got_one_record_or_what_it_says(options: dict[str, Any], run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 2}, config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            cluster.seed("orders", NUMBERS, 1)
            kafka = world.client(cluster, **options, enable_auto_commit=False)
            async with kafka.consume("orders", group="billing") as consumer:
                await until_shared(world, consumer, count=2)
                (record,) = await consumer.poll(1, timeout=60)
                await consumer.commit()
                tp = TopicPartition("orders", record.partition)
                other = TopicPartition("orders", 1 - record.partition)
                assert await consumer.committed() == {tp: 1, other: 0}
                await consumer.poll(3, timeout=60)
                (last,) = await consumer.poll(1, timeout=60)
                await consumer.commit(last)
                assert await committed(world, cluster, tp) == [5]
                await consumer.commit({tp: 2, other: OffsetAndMetadata(7, "by hand")})
                assert await committed(world, cluster, tp, other) == [2, 7]
                later = consumer.commit_async({tp: 3})
                assert await later is None
                assert await committed(world, cluster, tp) == [3]
            assert await committed(world, cluster, tp, other) == [3, 7]

    run(body)


def test_commits_do_not_overtake_one_another(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            kafka = world.client(cluster, **EAGER, enable_auto_commit=False)
            async with kafka.consume("orders", group="billing") as consumer:
                await until_shared(world, consumer, count=1)
                lost = cluster.faults.add("OffsetCommit", action=faults.drop, count=1)
                first = asyncio.ensure_future(consumer.commit({ORDERS: 1}))
                second = asyncio.ensure_future(consumer.commit({ORDERS: 2}))
                await lost.wait()
                # A caller that gives up does not let the next one go first.
                first.cancel()
                await second
                assert await committed(world, cluster, ORDERS) == [2]
                await world.runtime.clock.sleep(0.5)
                assert await committed(world, cluster, ORDERS) == [2]

    run(body)


@each_protocol
def test_what_is_done_is_committed_before_a_partition_goes_and_nothing_of_it_is_seen_after(
    options: dict[str, Any], run: Run
) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 4}, config=QUICK) as cluster:
            for number in range(4):
                cluster.seed("orders", NUMBERS, number)
            kafka, other = world.client(cluster, **options), world.client(cluster, **options)
            async with kafka.consume("orders", group="billing") as one:
                seen: list[tuple[int, int]] = []
                while len(seen) < 12:
                    seen += [(each.partition, each.offset) for each in await one.poll(3, timeout=60)]
                before = len(seen)
                async with other.consume("orders", group="billing") as two:
                    await until_shared(world, one, two)
                    kept = {tp.partition for tp in one.assignment()}
                    while sum(1 for partition, _ in seen if partition in kept) < 20:
                        seen += [(each.partition, each.offset) for each in await one.poll(timeout=60)]
                    assert {partition for partition, _ in seen[before:]} <= kept
                    rest: list[tuple[int, int]] = []
                    moved = {0, 1, 2, 3} - kept
                    done = {each for each in seen if each[0] in moved}
                    while len(done | set(rest)) < 20:
                        rest += [(each.partition, each.offset) for each in await two.poll(timeout=60)]
                    # What the last poll before it brought was not done: at most these three come twice.
                    assert len(done & set(rest)) <= 3

    run(body)


def test_a_commit_for_partitions_that_have_gone_says_so_and_what_to_do(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 2}, config=QUICK) as cluster:
            kafka = world.client(cluster, **EAGER, enable_auto_commit=False)
            async with kafka.consume("orders", group="billing") as consumer:
                await until_shared(world, consumer, count=2)
                for code in ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"):
                    cluster.faults.add("OffsetCommit", action=faults.error(code), count=1, when="response")
                    with pytest.raises(CommitFailedError, match=r"raise max_poll_interval_ms") as caught:
                        await consumer.commit({ORDERS: 1})
                    assert code in repr(caught.value.__cause__) or code in str(caught.value.__cause__)
                    # It joins again by itself.
                    await until_shared(world, consumer, count=2)
                gone = [TopicPartition("orders", 1)]
                async with world.client(cluster, **EAGER).consume("orders", group="billing") as heir:
                    offsets = consumer.to_commit(dict.fromkeys(partitions(0, 1), 5))
                    await until_shared(world, consumer, heir, count=2)
                    gone = heir.assignment()
                    with pytest.raises(CommitFailedError, match=f"{gone[0]} are not committed: this member"):
                        await consumer.commit_offsets(offsets, None)

    run(body)


def test_a_commit_that_comes_while_the_group_joins_waits_for_it(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            kafka = world.client(cluster, **{**EAGER, "partition_assignment_strategy": "cooperative-sticky"})
            async with kafka.consume("orders", group="billing") as consumer:
                await until_shared(world, consumer, count=1)
                slow = cluster.faults.add("SyncGroup", action=faults.delay(1.0), count=1)
                consumer._member.interrupt(Reaction.REJOIN, "a test wants it")
                await slow.wait()
                assert consumer.health().state == "joining"
                await consumer.commit({ORDERS: 4})
                assert consumer.health().generation == 2
                assert await committed(world, cluster, ORDERS) == [4]

    run(body)


def test_auto_commit_of_marks_commits_what_is_marked(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            kafka = world.client(cluster, **EAGER, auto_commit_marks=True)
            async with kafka.consume("orders", group="billing") as consumer:
                records = await consumer.poll(5, timeout=60)
                consumer.mark(records[2], records[0])
                await consumer.poll(timeout=60)
                await consumer.commit_marked()
                assert await committed(world, cluster, ORDERS) == [3]
                consumer.mark(records[3])
            assert await committed(world, cluster, ORDERS) == [4]

    run(body)


@each_protocol
def test_a_rebalance_waits_while_the_program_works_if_it_wants_that(
    options: dict[str, Any], run: Run
) -> None:
    async def body(world: World) -> None:
        told = Told()
        async with world.cluster(topics={"orders": 4}, config=QUICK) as cluster:
            for number in range(4):
                cluster.seed("orders", NUMBERS, number)
            kafka = world.client(cluster, **options, block_rebalance_on_poll=True)
            other = world.client(cluster, **options)
            async with kafka.consume("orders", group="billing", **told.callbacks) as one:
                seen = [(each.partition, each.offset) for each in await one.poll(timeout=60)]
                async with other.consume("orders", group="billing") as two:
                    await until(world, lambda: one.health().state == "giving partitions up")
                    await world.runtime.clock.sleep(0.5)
                    assert [what for what, _ in told.log] == ["assigned"]
                    # The next poll lets it through first, so that the commit has all that was polled.
                    await one.poll(timeout=0)
                    await until_shared(world, one, two)
                    while len(seen) < 40:
                        for each in (one, two):
                            found = await each.poll(timeout=0.2)
                            seen += [(record.partition, record.offset) for record in found]
                    assert len(set(seen)) == len(seen) == 40

    run(body)


def test_an_iteration_lets_a_rebalance_through_at_its_next_record(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 2}, config=QUICK) as cluster:
            for number in range(2):
                cluster.seed("orders", NUMBERS, number)
            kafka = world.client(cluster, **EAGER, block_rebalance_on_poll=True)
            other = world.client(cluster, **EAGER)
            async with kafka.consume("orders", group="billing") as one:
                two = other.consume("orders", group="billing")
                seen: list[tuple[int, int]] = []
                async for record in one:
                    if not seen:
                        await two.poll(timeout=0)
                        await until(world, lambda: one.health().state == "giving partitions up")
                    seen.append((record.partition, record.offset))
                    if len(one.assignment()) == 1:
                        break
                await until_shared(world, one, two, count=2)
                assert len(set(seen)) == len(seen) <= 11
                await two.close()

    run(body)


@each_protocol
def test_callbacks_may_look_seek_and_commit(options: dict[str, Any], run: Run) -> None:
    async def body(world: World) -> None:
        log: list[Any] = []

        async def assigned(consumer: AsyncGroupConsumer, given: list[TopicPartition]) -> None:
            log.append([await consumer.position(tp) for tp in given])
            consumer.seek(given[0], 6)

        async def revoked(consumer: AsyncGroupConsumer, given: list[TopicPartition]) -> None:
            log.append([await consumer.position(tp) for tp in given])
            await consumer.commit()

        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            kafka = world.client(cluster, **options, enable_auto_commit=False)
            consumer = kafka.consume("orders", group="billing", on_assigned=assigned, on_revoked=revoked)
            async with consumer:
                first = await consumer.poll(1, timeout=60)
                assert [record.offset for record in first] == [6]
                assert [record.offset for record in await consumer.poll(2, timeout=60)] == [7, 8]
            # Behind what it got; but what is committed is in front of what it works on.
            assert log == [[0], [9]]
            assert await committed(world, cluster, ORDERS) == [7]

    run(body)


def test_what_a_callback_raises_the_next_poll_raises_and_then_goes_on(run: Run) -> None:
    async def body(world: World) -> None:
        def assigned(*_: object) -> None:
            raise ZeroDivisionError("in the callback")

        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            kafka = world.client(cluster, **EAGER)
            async with kafka.consume("orders", group="billing", on_assigned=assigned) as consumer:
                with pytest.raises(ZeroDivisionError, match="in the callback"):
                    await consumer.poll(timeout=60)
                assert len(await consumer.poll(timeout=60)) == 10

    run(body)


@each_protocol
def test_health_says_what_a_member_does(options: dict[str, Any], run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            kafka = world.client(cluster, **options)
            consumer = kafka.consume("orders", group="billing")
            health = consumer.health()
            assert (health.state, health.assignment, health.is_well) == ("not in the group yet", [], False)
            await consumer.poll(4, timeout=60)
            await until(world, lambda: consumer.health().last_heartbeat is not None)
            health = consumer.health()
            assert health.is_well
            assert (health.group, health.assignment, health.lag) == ("billing", [ORDERS], {ORDERS: 6})
            assert health.member_id
            assert health.generation > 0
            assert health.last_poll >= 0
            await consumer.close()
            assert consumer.health().state == "left"

    run(body)


def test_a_pattern_takes_in_topics_that_come_later(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders-a", "other"], config=QUICK) as cluster:
            kafka = world.client(cluster, **EAGER)
            async with kafka.consume(re.compile("orders-.*"), group="billing") as consumer:
                await until_shared(world, consumer, count=1)
                await kafka.admin.create_topic("orders-b", partitions=2)
                await until_shared(world, consumer, count=3)
                assert {tp.topic for tp in consumer.assignment()} == {"orders-a", "orders-b"}

    run(body)


def test_the_coordinator_finds_the_topics_of_a_server_pattern_also_those_that_come_later(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders-a", "other", "named"], config=QUICK) as cluster:
            cluster.seed("orders-a", NUMBERS)
            kafka = world.client(cluster, **{**KIP_848, "auto_offset_reset": "latest"})
            pattern = ServerPattern("orders-[[:lower:]]")  # which Python's own syntax does not have
            async with kafka.consume(pattern, "named", group="billing") as consumer:
                await until_shared(world, consumer, count=2)
                assert await consumer.position(TopicPartition("orders-a", 0)) == 10
                await kafka.admin.create_topic("orders-b", partitions=2)
                cluster.seed("orders-b", NUMBERS)
                await until_shared(world, consumer, count=4)
                assert {tp.topic for tp in consumer.assignment()} == {"orders-a", "orders-b", "named"}
                # What did not exist when it came is read from its beginning.
                assert [record.offset for record in await consumer.poll(timeout=60)] == list(range(10))

    run(body)


def test_a_server_pattern_that_is_none_is_an_error_again_and_again(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            kafka = world.client(cluster, **KIP_848)
            async with kafka.consume(ServerPattern("orders-("), group="billing") as consumer:
                for _ in range(2):
                    with pytest.raises(InvalidRegularExpressionError, match="orders-"):
                        await consumer.poll(timeout=60)

    run(body)


def test_a_broker_without_regular_expressions_is_an_error_that_says_what_to_do(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK, max_versions="3.9") as cluster:
            kafka = world.client(cluster, **KIP_848)
            async with kafka.consume(ServerPattern("orders"), group="billing") as consumer:
                with pytest.raises(KafkaError) as raised:
                    await consumer.poll(timeout=60)
                assert any("re.compile()" in note or "classic" in note for note in raised.value.__notes__)

    run(body)


@each_protocol
def test_without_a_committed_offset_and_a_reset_the_program_is_asked(
    options: dict[str, Any], run: Run
) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            kafka = world.client(cluster, **{**options, "auto_offset_reset": "none"})
            async with kafka.consume("orders", group="billing") as consumer:
                with pytest.raises(KafkaError, match="committed nothing for orders-0"):
                    await consumer.poll(timeout=60)
                consumer.seek(ORDERS, 8)
                found: list[int] = []
                while len(found) < 2:
                    try:
                        found += [record.offset for record in await consumer.poll(timeout=60)]
                    except KafkaError:
                        continue  # the one that was waiting when the program sought
                assert found == [8, 9]

    run(body)


def test_start_is_for_what_the_group_has_not_committed(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            for expected in (7, 8):
                kafka = world.client(cluster, **EAGER)
                async with kafka.consume("orders", group="billing", start=7) as consumer:
                    (record,) = await consumer.poll(1, timeout=60)
                    assert record.offset == expected
                    await consumer.commit()

    run(body)


def test_a_group_id_in_the_config_is_for_whole_topics_without_a_stop(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            config = ClientConfig.from_properties(
                {
                    "bootstrap.servers": cluster.bootstrap,
                    "group.id": "billing",
                    "auto.offset.reset": "earliest",
                    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.StickyAssignor",
                }
            )
            assert config.partition_assignment_strategy == ("sticky",)
            kafka = world.client(cluster, group_id=config.group_id)
            assert isinstance(kafka.consume("orders"), AsyncGroupConsumer)
            assert not isinstance(kafka.consume(ORDERS), AsyncGroupConsumer)
            assert not isinstance(kafka.consume("orders", stop="latest"), AsyncGroupConsumer)
            await kafka.close()

    run(body)


@pytest.mark.parametrize(
    ("what", "options", "message"),
    [
        (["orders"], {"group": ""}, "a group has a name"),
        ([ORDERS], {"group": "billing"}, "no TopicPartition"),
        (["orders"], {"group": "billing", "stop": "latest"}, "leave out stop="),
        ([ServerPattern("orders")], {"group": "billing"}, "set group_protocol='consumer'"),
        ([ServerPattern("orders")], {}, "pass group="),
        (["orders"], {"on_assigned": print}, "pass group= too"),
        (["orders"], {"group_instance_id": "a"}, "pass group= too"),
        (["orders"], {"group": "billing", "on_lost": 7}, "on_lost=7"),
    ],
)
def test_mistakes_are_refused_with_what_to_write(
    what: list[Any], options: dict[str, Any], message: str
) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster, world.client(cluster) as kafka:
            with pytest.raises(ConfigurationError, match=message):
                kafka.consume(*what, **options)

    in_simulation(body)


def test_a_commit_of_something_else_is_refused() -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            kafka = world.client(cluster, **EAGER)
            async with kafka.consume("orders", group="billing") as consumer:
                await until_shared(world, consumer, count=1)
                with pytest.raises(TypeError, match="a commit takes a record, or a mapping"):
                    await consumer.commit(7)
                with pytest.raises(ValueError, match="-1 is no offset"):
                    await consumer.commit({ORDERS: -1})
                with pytest.raises(
                    CommitFailedError, match="audit-0 are not committed: this member does not read them"
                ):
                    await consumer.commit({TopicPartition("audit", 0): 1})

    in_simulation(body)
