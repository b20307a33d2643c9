"""Offsets, records and producers of partitions."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ottla.broker.cluster.options import TopicSpec
from ottla.broker.server.faults import drop, error
from ottla.client.admin import ListedOffset
from ottla.client.admin.offsets import OffsetSpecLike, spec_timestamp
from ottla.client.consume.offset_spec import Timestamp
from ottla.client.topic_partition import TopicPartition
from ottla.errors import (
    ConfigurationError,
    NoSuchPartitionError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from ottla.wire.batches import encode_batch
from ottla.wire.messages import ProduceRequest, ProduceResponse
from tests.client.requests.support import Requester, requester
from tests.client.worlds import Body, World

Run = Callable[[Body], object]
TIME = 1_700_000_000_000
NOW = 1_800_000_000_000
FIRST = TopicPartition("orders", 0)


async def produce(me: Requester, leader: int, *times: int, producer: int = -1) -> None:
    records = encode_batch(
        [(index, time, None, b"x", []) for index, time in enumerate(times)],
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=0 if producer >= 0 else -1,
    )
    data = ProduceRequest.PartitionProduceData(index=0, records=records)
    topic = ProduceRequest.TopicProduceData(name="orders", partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])
    answer = await me.send(request, ProduceResponse, broker=leader)
    assert answer.responses[0].partition_responses[0].error_code == 0


def test_offsets_are_listed_by_every_moment(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            me = requester(world, cluster)
            await produce(me, 1, TIME, TIME + 9000, TIME + 5000)
            admin = me.admin

            async def listed(at: OffsetSpecLike) -> ListedOffset:
                return (await admin.list_offsets(FIRST, at))[FIRST]

            assert (await listed("earliest")).offset == 0
            assert (await listed("latest")) == ListedOffset(3, None, 0)
            assert (await listed("max_timestamp")) == ListedOffset(1, TIME + 9000, 0)
            assert (await listed(Timestamp(TIME + 1))).offset == 1
            moment = datetime.fromtimestamp(TIME / 1000 + 1, UTC)
            assert (await listed(moment)).timestamp == TIME + 9000
            assert (await listed(moment.astimezone().replace(tzinfo=None))).timestamp == TIME + 9000
            assert (await listed(Timestamp(TIME + 10_000))) == ListedOffset(None, None, None)
            assert (await listed("by_duration:P99999D")).offset == 0
            mixed = await admin.list_offsets(FIRST, {FIRST: Timestamp(TIME + 1)})
            assert mixed[FIRST].offset == 1

    run(body)


def test_a_mapping_in_place_of_the_partitions_has_the_moment_of_each_as_for_a_consumer(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 2}) as cluster:
            me = requester(world, cluster)
            await produce(me, 1, TIME, TIME + 9000)
            second = TopicPartition("orders", 1)
            listed = await me.admin.list_offsets({FIRST: Timestamp(TIME + 1), second: "earliest"})
            assert {key: each.offset for key, each in listed.items()} == {FIRST: 1, second: 0}
            assert (await me.admin.list_offsets({FIRST: "earliest"}))[FIRST].offset == 0

    run(body)


def test_moments_are_given_once(run: Run) -> None:
    async def body(world: World) -> None:
        admin = requester(world, "nowhere:9092").admin  # nobody has to be asked for that
        with pytest.raises(
            ConfigurationError, match="the mapping says for each partition where to look: leave at="
        ):
            await admin.list_offsets({FIRST: "earliest"}, at="max_timestamp")
        with pytest.raises(ConfigurationError, match="a number is an offset"):
            await admin.list_offsets({FIRST: TIME})
        with pytest.raises(TypeError, match="a partition is meant"):
            await admin.list_offsets({"orders": "earliest"})

    run(body)


def test_what_is_no_moment_is_refused_with_what_to_write(run: Run) -> None:
    async def body(world: World) -> None:
        admin = requester(world, "nowhere:9092").admin  # nobody has to be asked for that
        refused: list[tuple[Any, str]] = [
            (TIME, rf"a number is an offset; for a time write Timestamp\({TIME}\)"),
            (-2, "'earliest'"),
            ("begin", "write 'latest', 'earliest', .* a datetime, a Timestamp or 'by_duration:PT1H'"),
            (1.5, "a datetime, a Timestamp"),
            (None, "a datetime, a Timestamp"),
            (True, "a datetime, a Timestamp"),
        ]
        for at, words in refused:
            with pytest.raises(ConfigurationError, match=words):
                await admin.list_offsets(FIRST, at)
            with pytest.raises(ConfigurationError, match=words):
                await admin.list_offsets("orders", {FIRST: at})

    run(body)


def test_a_topic_stands_for_its_partitions_on_all_brokers(run: Run) -> None:
    async def body(world: World) -> None:
        topics = {"orders": TopicSpec(5, 3), "audit": TopicSpec(1, 3)}
        async with world.cluster(3, topics=topics) as cluster:
            cluster.seed("orders", [b"x"] * 4, 3)
            admin = requester(world, cluster).admin
            ends = await admin.list_offsets(["audit", "orders"], isolation="read_committed")
            assert {key: each.offset for key, each in ends.items()} == {
                TopicPartition("audit", 0): 0,
                **{TopicPartition("orders", number): 4 if number == 3 else 0 for number in range(5)},
            }
            third = TopicPartition("orders", 3)
            mixed = await admin.list_offsets("orders", {third: "earliest"})
            assert mixed[third].offset == 0
            with pytest.raises(UnknownTopicOrPartitionError, match="ordres"):
                await admin.list_offsets("ordres")

    run(body)


def test_partitions_fail_one_by_one(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 3}) as cluster:
            admin = requester(world, cluster).admin
            cluster.faults.add("ListOffsets", partition=1, action=error("TOPIC_AUTHORIZATION_FAILED"))
            wanted = [TopicPartition("orders", number) for number in (0, 1, 7, 2)]
            results = await admin.list_offsets(wanted, errors="collect")
            assert [key.partition for key in results] == [0, 2]
            assert {key.partition: type(each).__name__ for key, each in results.errors.items()} == {
                1: TopicAuthorizationFailedError.__name__,
                7: NoSuchPartitionError.__name__,
            }
            with pytest.raises(TopicAuthorizationFailedError, match="partition 1"):
                await admin.list_offsets(wanted)

    run(body)


def test_records_are_deleted_before_an_offset(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics={"orders": TopicSpec(3, 3)}) as cluster:
            admin = requester(world, cluster).admin
            for number in range(3):
                cluster.seed("orders", [b"x"] * 10, number)
            fault = cluster.faults.add("DeleteRecords", when="response", action=drop, count=1)
            before = {TopicPartition("orders", 0): 4, TopicPartition("orders", 2): None}
            assert await admin.delete_records(before) == {
                TopicPartition("orders", 0): 4,
                TopicPartition("orders", 2): 10,
            }
            assert fault.hits == 1
            starts = await admin.list_offsets("orders", "earliest")
            assert [each.offset for each in starts.values()] == [4, 0, 10]
            with pytest.raises(OffsetOutOfRangeError, match="orders"):
                await admin.delete_records({TopicPartition("orders", 1): 11})

    run(body)


def test_producers_are_described_by_the_leader(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics={"orders": TopicSpec(2, 3)}) as cluster:
            me = requester(world, cluster)
            await me.admin.list_brokers()
            await produce(me, cluster.leader("orders"), TIME, TIME + 1, producer=77)
            found = await me.admin.describe_producers("orders")
            assert found[TopicPartition("orders", 1)] == ()
            (state,) = found[FIRST]
            assert (state.producer_id, state.last_sequence, state.last_timestamp) == (77, 1, TIME + 1)
            assert state.transaction_start_offset is None

    run(body)


# Moments


def test_a_moment_is_a_name_or_a_time_as_consume_takes_it() -> None:
    assert spec_timestamp("latest", NOW) == -1
    assert spec_timestamp("by_duration:PT1S", NOW) == NOW - 1000
    assert spec_timestamp(Timestamp(2**63 - 1), NOW) == 2**63 - 1
    assert spec_timestamp(datetime.fromtimestamp(1_700_000_000, UTC), NOW) == 1_700_000_000_000


def test_a_datetime_keeps_its_milliseconds() -> None:
    for number in range(1000):
        moment = datetime.fromtimestamp(1_700_000_000, UTC) + timedelta(milliseconds=number)
        assert spec_timestamp(moment, NOW) == 1_700_000_000_000 + number


# Negative ones have a meaning of their own: a millisecond before 1970 would be "latest".
@pytest.mark.parametrize(
    "at",
    [-1, 0, 2**63, math.inf, math.nan, 1.5, True, None, "newest", datetime(1969, 12, 31, 23, tzinfo=UTC)],
)
def test_what_is_no_moment_is_refused(at: Any) -> None:
    with pytest.raises(ValueError, match="Timestamp"):
        spec_timestamp(at, NOW)
