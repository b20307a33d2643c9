"""Where a consumer is, when it ends, and who is told: while topics, positions and readers change under it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from ottla.broker.server import faults
from ottla.client.consume.consumer import AsyncConsumer
from ottla.client.consume.cursor import State
from ottla.client.topic_partition import TopicPartition
from ottla.errors import (
    DataLossError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from ottla.wire.batches import ControlType, PlainRecord, encode_batch
from ottla.wire.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
)
from tests.broker.log.support import append_marker, append_to
from tests.broker.worlds import Client
from tests.client.consume.consuming import consuming, numbered, plain_client, read, until, values
from tests.client.worlds import Body, World, in_simulation

Run = Callable[[Body], object]
ORDERS = TopicPartition("orders", 0)
FRESH: dict[str, Any] = {"metadata_max_age_ms": 200, "metadata_min_age_ms": 100}
NO_CREATION = {"auto.create.topics.enable": "false"}


async def delete_records(client: Client, offset: int) -> None:
    topic = DeleteRecordsRequest.DeleteRecordsTopic
    partition = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[topic(name="orders", partitions=[partition])], timeout_ms=1000)
    answer = await client.ask(request, 2, DeleteRecordsResponse)
    assert answer.topics[0].partitions[0].error_code == 0


async def gather(consumer: AsyncConsumer, found: list[Any]) -> None:
    while polled := await consumer.poll():
        found += polled


async def anyway(consumer: AsyncConsumer) -> list[Any]:
    """What comes when the errors are over that may have been on their way."""
    while True:
        try:
            return await consumer.poll(timeout=30)
        except UnknownTopicOrPartitionError:
            continue


# Errors come, and come again


def test_a_permission_that_lookups_miss_is_raised_and_asked_for_again(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", numbered(3))
            cluster.faults.add("ListOffsets", topic="orders", action=faults.error(29), count=2)
            async with consuming(world, cluster, "orders", start="earliest") as consumer:
                for _ in range(2):
                    with pytest.raises(TopicAuthorizationFailedError, match="orders"):
                        await consumer.poll(timeout=60)
                assert values(await consumer.poll(timeout=60)) == numbered(3)

    run(body)


def test_a_partition_that_does_not_exist_is_told_soon_and_as_often_as_somebody_asks(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(topics={"orders": 2}) as cluster,
            consuming(world, cluster, TopicPartition("orders", 2), start="earliest") as consumer,
        ):
            clock = world.runtime.clock
            for _ in range(2):
                before = clock.monotonic()
                with pytest.raises(UnknownTopicOrPartitionError, match="has partitions 0 to 1") as caught:
                    await consumer.poll(timeout=30)
                assert clock.monotonic() - before < 5
                assert "The broker says" not in str(caught.value)
                assert (caught.value.topic, caught.value.partition) == ("orders", 2)
            async with plain_client(world, cluster) as client:
                await add_partitions(client, 3)
            cluster.seed("orders", [b"there"], 2)
            assert values(await anyway(consumer)) == [b"there"]

    run(body)


async def add_partitions(client: Client, count: int) -> None:
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name="orders", count=count, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=5000, validate_only=False)
    answer = await client.ask(request, 3, CreatePartitionsResponse)
    assert answer.results[0].error_code == 0


def test_errors_that_nobody_reads_do_not_pile_up() -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(topics={"orders": 1}) as cluster,
            consuming(world, cluster, TopicPartition("orders", 7), start="earliest") as consumer,
        ):
            await world.runtime.clock.sleep(100)
            assert len(consumer.queue) == 1

    in_simulation(body)


def test_what_the_client_says_of_an_offset_is_not_put_into_the_brokers_mouth(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", numbered(10))
            async with consuming(world, cluster, "orders", start=100, auto_offset_reset="none") as consumer:
                with pytest.raises(OffsetOutOfRangeError, match="0 to 10") as caught:
                    await consumer.poll(timeout=60)
                assert "The broker says" not in str(caught.value)

    run(body)


def test_a_topic_that_must_not_be_read_is_not_called_missing(run: Run) -> None:
    async def body(world: World) -> None:
        options: dict[str, Any] = {
            "request_timeout_ms": 300 if world.simulated else 30_000,
            "default_api_timeout_ms": 300 if world.simulated else 30_000,
            "fetch_max_wait_ms": 100,
            **FRESH,
        }
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.faults.add("Metadata", topic="orders", action=faults.error(29))
            async with consuming(world, cluster, "orders", start="earliest", **options) as consumer:
                for _ in range(4):
                    with pytest.raises(TopicAuthorizationFailedError):
                        await consumer.poll(timeout=60)

    run(body)


# Positions


def test_a_position_is_where_reading_begins_until_something_is_read(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", numbered(10))
            async with consuming(world, cluster, "orders", start="earliest") as consumer:
                await until(world, lambda: len(consumer.queue) > 0)
                assert await consumer.position(ORDERS) == 0
                assert consumer.lag() == {ORDERS: 10}
                consumer.seek(ORDERS, 4)
                assert await consumer.position(ORDERS) == 4
                consumer.seek(ORDERS, "earliest")
                assert await consumer.position(ORDERS) == 0

    run(body)


def test_a_reset_to_where_nothing_is_moves_position_and_lag(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", numbered(5))
            async with (
                consuming(
                    world, cluster, "orders", start="earliest", auto_offset_reset="earliest"
                ) as consumer,
                plain_client(world, cluster) as client,
            ):
                await read(consumer, 5)
                consumer.pause(ORDERS)
                await world.runtime.clock.sleep(1)
                cluster.seed("orders", numbered(5, 5))
                await delete_records(client, 10)
                consumer.resume(ORDERS)
                assert await consumer.poll(timeout=3) == []
                while await consumer.position(ORDERS) != 10:
                    assert await consumer.poll(timeout=0.1) == []
                assert consumer.lag() == {ORDERS: 0}

    run(body)


def test_a_partition_that_is_paused_before_it_is_known_is_not_fetched(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", numbered(5000))
            options: dict[str, Any] = {"start": "earliest", "max_partition_fetch_bytes": 1000}
            async with consuming(world, cluster, "orders", **options) as consumer:
                consumer.pause(ORDERS)
                assert await consumer.poll(timeout=2) == []
                assert await consumer.position(ORDERS) == 0
                assert consumer._session.cursors[ORDERS].offset == 0
                consumer.resume(ORDERS)
                assert values(await read(consumer, 5000)) == numbered(5000)

    run(body)


def test_a_topic_that_matches_again_is_read_although_somebody_had_sought_in_the_first_one(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}, config=NO_CREATION) as cluster:
            cluster.seed("orders", numbered(5))
            async with consuming(world, cluster, re.compile("ord.*"), start="earliest", **FRESH) as consumer:
                await read(consumer, 5)
                consumer.seek(ORDERS, 2)
                assert values(await read(consumer, 3)) == numbered(3, 2)
                await cluster.delete_topic("orders")
                waiting = asyncio.ensure_future(consumer.poll(timeout=60))
                await until(world, lambda: not consumer.assignment())
                await cluster.create_topic("orders")
                cluster.seed("orders", [b"new"])
                assert values(await waiting) == [b"new"]

    run(body)


# The end


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
def test_an_empty_topic_ends_at_once(run: Run, isolation_level: str) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 3}) as cluster:
            options: dict[str, Any] = {"stop": "latest", "isolation_level": isolation_level}
            async with consuming(world, cluster, "orders", start="earliest", **options) as consumer:
                assert [record async for record in consumer] == []

    run(body)


def test_an_end_that_was_deleted_is_reached(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            for part in range(10):
                cluster.seed("orders", numbered(10, part * 10))
            options: dict[str, Any] = {"stop": "latest", "max_partition_fetch_bytes": 100}
            async with (
                consuming(world, cluster, "orders", start="earliest", **options) as consumer,
                plain_client(world, cluster) as client,
            ):
                assert values(await read(consumer, 5)) == numbered(5)
                await delete_records(client, 100)
                rest = [record.offset async for record in consumer]
                assert rest == list(range(5, 5 + len(rest)))
                assert await consumer.position(ORDERS) == 100
            async with consuming(world, cluster, "orders", start="earliest", stop="latest") as consumer:
                assert [record async for record in consumer] == []

    run(body)


def test_a_topic_that_is_another_one_ends_a_bounded_read(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}, config=NO_CREATION) as cluster:
            for part in range(10):
                cluster.seed("orders", numbered(10, part * 10))
            options: dict[str, Any] = {"stop": "latest", "max_partition_fetch_bytes": 100, **FRESH}
            async with consuming(world, cluster, "orders", start="earliest", **options) as consumer:
                await read(consumer, 5)
                await cluster.delete_topic("orders")
                await cluster.create_topic("orders")
                cluster.seed("orders", [b"new"] * 3)
                found: list[Any] = []
                with pytest.raises(DataLossError, match="created again"):
                    await gather(consumer, found)
                assert values(found) == numbered(len(found), 5)
                assert await asyncio.wait_for(consumer.poll(), 30) == []

    run(body)


def test_a_partition_that_was_asked_for_before_it_existed_is_part_of_a_bounded_read(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", [b"0"], 0)
            wanted = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
            async with consuming(
                world, cluster, wanted, start="earliest", stop="latest", **FRESH
            ) as consumer:
                assert values(await consumer.poll(timeout=60)) == [b"0"]
                async with plain_client(world, cluster) as client:
                    await add_partitions(client, 2)
                cluster.seed("orders", [b"1"], 1)
                assert values(await anyway(consumer)) in ([b"1"], [])
                assert consumer._session.cursors[wanted[1]].state is State.DONE

    run(body)


def test_parts_that_are_opened_again_and_again_show_what_was_committed_only(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            partition = cluster.partition("orders")
            for number in range(12):
                aborted = number % 3 == 1
                records: list[PlainRecord] = [
                    (each, 1_700_000_000_000, None, b"%d %d" % (number, each), []) for each in range(3)
                ]
                batch = encode_batch(
                    records, transactional=True, producer_id=7, producer_epoch=0, base_sequence=3 * number
                )
                append_to(partition, batch)
                append_marker(partition.log, ControlType.ABORT if aborted else ControlType.COMMIT, 7)
                partition.commit(0)
            options: dict[str, Any] = {"isolation_level": "read_committed", "stop": "latest"}
            async with consuming(world, cluster, "orders", start="earliest", **options) as consumer:
                found = []
                async for record in consumer:
                    found.append(record.value)
                    consumer.pause(ORDERS)
                    consumer.resume(ORDERS)
                assert await consumer.position(ORDERS) == 48
                assert consumer.lag() == {ORDERS: 0}
            assert found == [
                b"%d %d" % (number, each) for number in range(12) if number % 3 != 1 for each in range(3)
            ]

    run(body)


@pytest.mark.parametrize("seed", range(4))
def test_a_bounded_read_ends_with_the_last_record_whatever_goes_wrong(seed: int) -> None:
    async def body(world: World) -> None:
        random = Random(seed)
        async with world.cluster(3, topics={"orders": 6}) as cluster:
            for partition in range(5):  # and one that is empty
                for part in range(10):
                    cluster.seed("orders", numbered(30, part * 30), partition)
            for api in ("ListOffsets", "Fetch", "Metadata"):
                for action in (faults.drop, faults.error("NOT_LEADER_OR_FOLLOWER"), faults.delay(0.2)):
                    cluster.faults.add(api, action=action, count=random.randrange(1, 4))
            found: list[tuple[int, int]] = []
            options: dict[str, Any] = {"max_partition_fetch_bytes": 500, "stop": "latest"}
            async with consuming(world, cluster, "orders", start="earliest", **options) as consumer:
                async for record in consumer:
                    found.append((record.partition, record.offset))
                    if len(found) in (100, 700):
                        partition = random.randrange(6)
                        others = [
                            node for node in cluster.nodes if node != cluster.leader("orders", partition)
                        ]
                        await cluster.move_leader("orders", partition, random.choice(others))
                        # A lookup that the faults hold up finds the end as it is then.
                        if consumer._session.cursors[TopicPartition("orders", partition)].stop is not None:
                            cluster.seed("orders", [b"too late"], partition)
                assert consumer.reader.is_finished
            assert sorted(found) == [(partition, offset) for partition in range(5) for offset in range(300)]

    in_simulation(body, seed=seed)
