"""Consuming: where it begins and ends, what it hands out, and how it is moved about."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from ottla.client.consume.offset_spec import Timestamp
from ottla.client.topic_partition import TopicPartition
from ottla.errors import (
    ApiTimeoutError,
    ClientClosedError,
    ConfigurationError,
    NoBrokersError,
    UnknownTopicOrPartitionError,
)
from ottla.wire import api_for_key
from tests.broker.worlds import batch
from tests.client.consume.consuming import consuming, numbered, plain_client, read, values
from tests.client.worlds import Body, World

Run = Callable[[Body], object]
ORDERS = TopicPartition("orders", 0)
HASTY: dict[str, Any] = {
    "request_timeout_ms": 3_000,
    "default_api_timeout_ms": 3_000,
    "fetch_max_wait_ms": 100,
}
FRESH: dict[str, Any] = {"metadata_max_age_ms": 200, "metadata_min_age_ms": 100}
NO_CREATION = {"auto.create.topics.enable": "false"}


def test_reads_a_topic_from_its_beginning(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", numbered(2500))
            async with consuming(world, cluster, "orders", start="earliest") as consumer:
                records = await read(consumer, 2500)
            assert values(records) == numbered(2500)
            assert [record.offset for record in records] == list(range(2500))

    run(body)


def test_reads_many_partitions_of_several_brokers(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics={"orders": 12}) as cluster:
            for partition in range(12):
                cluster.seed("orders", numbered(100, partition * 100), partition)
            async with consuming(world, cluster, "orders", start="earliest") as consumer:
                records = await read(consumer, 1200)
            assert sorted(values(records), key=int) == numbered(1200)
            for partition in range(12):
                offsets = [record.offset for record in records if record.partition == partition]
                assert offsets == list(range(100))

    run(body)


def test_ends_at_the_end_as_of_the_start(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 3}) as cluster:
            cluster.seed("orders", numbered(10), 0)
            cluster.seed("orders", numbered(5), 1)
            async with consuming(world, cluster, "orders", start="earliest", stop="latest") as consumer:
                found: list[bytes] = []
                async for record in consumer:
                    if not found:
                        cluster.seed("orders", numbered(7), 2)
                        cluster.seed("orders", numbered(7), 0)
                    found.append(record.value)
            assert len(found) == 15

    run(body)


def test_stops_in_the_middle_of_a_batch(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", numbered(10))
            async with consuming(world, cluster, "orders", start=2, stop=6) as consumer:
                assert [record.offset async for record in consumer] == [2, 3, 4, 5]
                assert await consumer.position(ORDERS) == 6

    run(body)


def test_a_stop_without_a_start_reads_from_the_beginning(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", numbered(3))
            async with consuming(world, cluster, "orders", stop="latest") as consumer:
                assert [record.offset async for record in consumer] == [0, 1, 2]

    run(body)


def test_latest_means_what_comes_after_the_start(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", numbered(10))
            async with consuming(world, cluster, "orders") as consumer:
                assert await consumer.position(ORDERS) == 10
                cluster.seed("orders", [b"new"])
                assert values(await read(consumer, 1)) == [b"new"]

    run(body)


def test_a_mapping_has_a_start_for_each_partition(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 3}) as cluster:
            for partition in range(3):
                cluster.seed("orders", numbered(10), partition)
            starts = {ORDERS: 7, TopicPartition("orders", 2): "earliest"}
            async with consuming(world, cluster, starts, stop="latest") as consumer:
                found = [(record.partition, record.offset) async for record in consumer]
            assert sorted(found) == [(0, 7), (0, 8), (0, 9), *((2, offset) for offset in range(10))]

    run(body)


def test_a_mapping_has_a_stop_for_each_partition(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 3}) as cluster:
            for partition in range(3):
                cluster.seed("orders", numbered(10), partition)
            last = TopicPartition("orders", 2)
            async with consuming(world, cluster, {ORDERS: 7, last: 1}, stop={ORDERS: 9, last: 3}) as consumer:
                found = [(record.partition, record.offset) async for record in consumer]
            assert sorted(found) == [(0, 7), (0, 8), (2, 1), (2, 2)]

    run(body)


@pytest.mark.parametrize("topics", [["orders"], [ORDERS, TopicPartition("orders", 1)]])
def test_a_mapping_that_does_not_stop_every_partition_is_refused(run: Run, topics: list[Any]) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 2}) as cluster:
            with pytest.raises(ConfigurationError, match="exactly the partitions that are read"):
                async with consuming(world, cluster, topics, stop={ORDERS: 9}):
                    pass

    run(body)


def test_starts_and_stops_at_timestamps(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            async with plain_client(world, cluster) as client:
                for number in range(5):
                    timestamp = 1_700_000_000_000 + 1000 * number
                    await client.produce("orders", batch(b"%d" % number, timestamp=timestamp))
            start, stop = Timestamp(1_700_000_001_000), datetime.fromtimestamp(1_700_000_003, UTC)
            async with consuming(world, cluster, "orders", start=start, stop=stop) as consumer:
                assert [record.offset async for record in consumer] == [1, 2]
            late = Timestamp(1_800_000_000_000)
            async with consuming(world, cluster, "orders", start=late) as consumer:
                assert await consumer.position(ORDERS) == 5

    run(body)


def test_a_pattern_takes_in_topics_as_they_come_but_no_internal_ones(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders.eu": 1, "audit": 1}) as cluster:
            cluster.seed("orders.eu", [b"eu"])
            cluster.seed("audit", [b"no"])
            pattern = re.compile(r"orders\..*|__.*")
            async with consuming(world, cluster, pattern, start="earliest", **FRESH) as consumer:
                assert values(await read(consumer, 1)) == [b"eu"]
                await cluster.create_topic("orders.us")
                cluster.seed("orders.us", [b"us"])
                assert values(await read(consumer, 1)) == [b"us"]
                assert {tp.topic for tp in consumer.assignment()} == {"orders.eu", "orders.us"}

    run(body)


def test_partitions_that_are_added_are_read_from_their_beginning(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(topics={"orders": 1}) as cluster,
            consuming(world, cluster, re.compile("orders.*"), **FRESH) as consumer,
        ):
            assert await consumer.position(ORDERS) == 0
            await cluster.create_topic("orders2")
            cluster.seed("orders2", [b"first"])
            assert values(await read(consumer, 1)) == [b"first"]

    run(body)


def test_what_is_paused_is_kept_and_goes_on_where_it_was(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 2}) as cluster:
            cluster.seed("orders", numbered(10), 0)
            cluster.seed("orders", numbered(10), 1)
            async with consuming(world, cluster, "orders", start="earliest") as consumer:
                first = await read(consumer, 3)
                held = TopicPartition("orders", first[0].partition)
                consumer.pause(held)
                others = await read(consumer, 10)
                assert {record.partition for record in others} == {1 - held.partition}
                assert consumer.paused() == [held]
                assert await consumer.poll(timeout=1) == []
                consumer.resume(held)
                assert [record.offset for record in await read(consumer, 7)] == list(range(3, 10))

    run(body)


def test_a_seek_inside_the_loop_takes_effect_with_the_next_record(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", numbered(100))
            async with consuming(world, cluster, "orders", start="earliest", stop="latest") as consumer:
                offsets = []
                async for record in consumer:
                    offsets.append(record.offset)
                    if len(offsets) == 5:
                        consumer.seek(ORDERS, 50)
                        assert await consumer.position(ORDERS) == 50
                    if len(offsets) == 10:
                        consumer.seek(ORDERS, "earliest")
                    if len(offsets) == 20:
                        consumer.seek(ORDERS, "latest")
            assert offsets == [*range(5), *range(50, 55), *range(10)]

    run(body)


def test_a_broken_off_loop_goes_on_with_the_next_record(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", numbered(10))
            async with consuming(world, cluster, "orders", start="earliest") as consumer:
                assert values(await read(consumer, 4)) == numbered(4)
                assert await consumer.position(ORDERS) == 4
                assert values(await consumer.poll(3)) == numbered(3, 4)
                assert await consumer.position(ORDERS) == 7
                async for table in consumer.batches():
                    assert table.column("value").to_pylist() == numbered(3, 7)
                    break
                assert await consumer.position(ORDERS) == 10
                assert consumer.lag() == {ORDERS: 0}

    run(body)


def test_poll_returns_nothing_when_its_time_is_up(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(topics={"orders": 1}) as cluster,
            consuming(world, cluster, "orders", start="earliest") as consumer,
        ):
            before = world.runtime.clock.monotonic()
            assert await consumer.poll(timeout=0.5) == []
            assert 0.5 <= world.runtime.clock.monotonic() - before < 5

    run(body)


def test_arrow_batches_stop_where_reading_stops(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", numbered(10))
            async with consuming(world, cluster, "orders", start=1, stop=8) as consumer:
                offsets = [
                    offset
                    async for table in consumer.batches()
                    for offset in table.column("offset").to_pylist()
                ]
            assert offsets == list(range(1, 8))

    run(body)


def test_lag_is_the_distance_to_the_high_watermark(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", numbered(10))
            async with consuming(world, cluster, "orders", start="earliest") as consumer:
                await read(consumer, 4)
                assert consumer.lag() == {ORDERS: 6}

    run(body)


class Requests:
    """A hook that writes down which connection asked what."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def on_broker_write(self, node_id: int, api_key: int, size: int, error: BaseException | None) -> None:
        self.asked.append(api_for_key(api_key).name)


def test_a_fresh_consumer_asks_for_metadata_then_offsets_then_records(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", numbered(1))
            told = Requests()
            async with consuming(world, cluster, "orders", start="earliest", hooks=(told,)) as consumer:
                await read(consumer, 1)
            asked = [name for name in told.asked if name != "ApiVersions"]
            first_of_each = list(dict.fromkeys(asked))
            assert told.asked[0] == "ApiVersions"
            assert first_of_each == ["Metadata", "ListOffsets", "Fetch"]
            told.asked.clear()
            async with consuming(world, cluster, "orders", start=0, hooks=(told,)) as consumer:
                await read(consumer, 1)
            assert "ListOffsets" not in told.asked

    run(body)


def test_a_topic_that_does_not_exist_is_an_error_that_names_it(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(config=NO_CREATION) as cluster,
            consuming(world, cluster, "ordres", **HASTY) as consumer,
        ):
            with pytest.raises(UnknownTopicOrPartitionError, match="ordres"):
                await read(consumer, 1)

    run(body)


def test_a_topic_that_is_created_later_is_read_from_its_beginning(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(config=NO_CREATION) as cluster,
            consuming(world, cluster, "orders", **FRESH) as consumer,
        ):
            assert await consumer.poll(timeout=0.2) == []
            await cluster.create_topic("orders")
            cluster.seed("orders", [b"first"])
            assert values(await read(consumer, 1)) == [b"first"]

    run(body)


def test_a_consumer_without_any_broker_says_so(run: Run) -> None:
    async def body(world: World) -> None:
        async with consuming(world, "127.0.0.1:1", "orders", **HASTY) as consumer:
            with pytest.raises(ApiTimeoutError) as caught:
                await read(consumer, 1)
            assert isinstance(caught.value.__cause__, NoBrokersError)

    run(body)


def test_closing_ends_a_waiting_reader_with_an_error(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(topics={"orders": 1}) as cluster,
            consuming(world, cluster, "orders", start="earliest") as consumer,
        ):
            reading = asyncio.ensure_future(read(consumer, 1))
            await consumer.position(ORDERS)
            await consumer.close()
            with pytest.raises(ClientClosedError):
                await reading
            with pytest.raises(ClientClosedError):
                await consumer.poll()

    run(body)
