"""Tables: every row arrives once, in order, where its partition or key says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from ottla.broker.server.faults import drop, error
from ottla.client.partitioners import crc32_partition
from ottla.client.produce.batch_delivery import PartlySentError
from ottla.errors import (
    ApiTimeoutError,
    BufferFullError,
    DeliveryError,
    InvalidRecordError,
    NoSuchPartitionError,
    RecordTooLargeError,
)
from ottla.hooks import ProducerInterceptor, ProducerRecord
from tests.client.produce.producing import numbered, producing, values
from tests.client.worlds import Body, World

arrow = pytest.importorskip("pyarrow")
Run = Callable[[Body], object]
_T = TypeVar("_T")


def table_of(count: int, **columns: Any) -> Any:
    return arrow.table({"value": arrow.array(numbered(count), arrow.binary()), **columns})


def test_rows_go_where_the_records_with_the_same_keys_go(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"rows": 4, "records": 4}) as cluster,
            producing(world, cluster) as rig,
        ):
            keys = [b"%d" % (number % 7) for number in range(200)]
            delivery = await rig.producer.produce_batch(
                "rows", table_of(200, key=arrow.array(keys, arrow.binary()))
            )
            assert await delivery is delivery
            assert delivery.done()
            assert delivery.count == 200
            for key, value in zip(keys, numbered(200), strict=True):
                rig.producer.produce("records", value, key)
            await rig.producer.flush()
            for partition in range(4):
                assert values(cluster, "rows", partition) == values(cluster, "records", partition)
            stored = {number: len(values(cluster, "rows", number)) for number in range(4)}
            expected = {number: [(0, count - 1)] for number, count in stored.items() if count}
            assert delivery.offsets() == expected

    run(body)


def test_a_table_goes_behind_the_records_produced_before_it(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, linger_ms=1000) as rig,
        ):
            await rig.producer.produce("orders", b"known")
            rig.producer.produce("orders", b"before")
            await rig.producer.produce_batch("orders", table_of(3))
            rig.producer.produce("orders", b"after")
            await rig.producer.flush()
            assert values(cluster, "orders") == [b"known", b"before", *numbered(3), b"after"]

    run(body)


def test_columns_name_partition_timestamp_and_headers(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 3}) as cluster,
            producing(world, cluster, partitioner="manual") as rig,
        ):
            header = arrow.list_(arrow.struct([("key", arrow.string()), ("value", arrow.binary())]))
            table = table_of(
                2,
                partition=arrow.array([2, 0], arrow.int32()),
                timestamp=arrow.array([1_700_000_000_000, 1_700_000_000_001], arrow.int64()),
                headers=arrow.array([[{"key": "h", "value": b"1"}], []], header),
            )
            await (await rig.producer.produce_batch("orders", table))
            first, second = cluster.dump("orders", 2)[0], cluster.dump("orders", 0)[0]
            assert (first.value, first.timestamp, first.headers) == (
                b"0",
                1_700_000_000_000,
                [("h", b"1")],
            )
            assert (second.value, second.timestamp, second.headers) == (b"1", 1_700_000_000_001, [])
            with pytest.raises(ValueError, match="names no partition"):
                await rig.producer.produce_batch("orders", table_of(1))

    run(body)


def test_all_rows_may_go_to_one_partition_with_one_timestamp(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 3}) as cluster, producing(world, cluster) as rig:
            table = table_of(5, key=arrow.array(numbered(5), arrow.binary()))
            delivery = await rig.producer.produce_batch(
                "orders", table, partition=1, timestamp=1_700_000_000_000
            )
            await delivery
            assert delivery.offsets() == {1: [(0, 4)]}
            assert {record.timestamp for record in cluster.dump("orders", 1)} == {1_700_000_000_000}

    run(body)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(
            lambda: arrow.table({"name": arrow.array(numbered(4), arrow.binary())}), id="one-column"
        ),
        pytest.param(lambda: arrow.array(numbered(4), arrow.binary()), id="array"),
        pytest.param(lambda: {"value": arrow.array(numbered(4), arrow.binary())}, id="mapping"),
        pytest.param(lambda: table_of(4).to_reader(), id="reader"),
        pytest.param(lambda: table_of(4).to_batches()[0], id="record-batch"),
        pytest.param(lambda: table_of(4).set_column(0, "value", [["0", "1", "2", "3"]]), id="text"),
    ],
)
def test_whatever_exports_arrow_is_a_table(run: Run, given: Callable[[], Any]) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1}) as cluster, producing(world, cluster) as rig:
            await (await rig.producer.produce_batch("orders", given()))
            assert values(cluster, "orders") == numbered(4)

    run(body)


def test_a_table_larger_than_the_buffer_waits_for_space(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 2}) as cluster,
            producing(world, cluster, buffer_memory=40_000, batch_size=5_000) as rig,
        ):
            rows = [b"%d" % number + bytes(100) for number in range(3000)]
            table = arrow.table({"value": arrow.array(rows, arrow.binary())})
            delivery = await rig.producer.produce_batch("orders", table, partition=0)
            await delivery
            assert delivery.count == 3000
            assert values(cluster, "orders", 0) == rows
            assert delivery.offsets() == {0: [(0, 2999)]}
            assert rig.producer.buffered_bytes == 0

    run(body)


def test_a_table_with_more_rows_than_may_be_buffered_waits_for_space(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, max_buffered_records=50) as rig,
        ):
            await (await rig.producer.produce_batch("orders", table_of(400)))
            assert values(cluster, "orders") == numbered(400)

    run(body)


@pytest.mark.parametrize("batch_size", [0, 1, 50])
def test_without_batches_rows_and_records_go_out_one_by_one(run: Run, batch_size: int) -> None:
    """0 is how Kafka's own client says that there are none."""

    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, batch_size=batch_size) as rig,
        ):
            await rig.producer.produce("orders", b"known")
            await (await rig.producer.produce_batch("orders", table_of(10)))
            assert values(cluster, "orders") == [b"known", *numbered(10)]

    run(body)


def test_a_row_that_is_too_large_names_the_option_and_its_size(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, max_request_size=2_000) as rig,
        ):
            table = arrow.table({"value": [b"small", bytes(3_000)]})
            with pytest.raises(RecordTooLargeError, match=r"row 1 takes 30.* max_request_size=2000 "):
                await rig.producer.produce_batch("orders", table)
            assert rig.producer.buffered_records == 0

    run(body)


def test_a_buffer_that_stays_full_is_an_error_that_names_the_option(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(
                world, cluster, buffer_memory=10_000, batch_size=2_000, max_block_ms=100, linger_ms=0
            ) as rig,
        ):
            await rig.producer.produce("orders", b"known")
            cluster.faults.add("Produce", action=error("NOT_ENOUGH_REPLICAS"))
            rows = arrow.array([bytes(1000)] * 30, arrow.binary())
            producing_it = asyncio.ensure_future(
                rig.producer.produce_batch("orders", arrow.table({"value": rows}))
            )
            with pytest.raises(PartlySentError, match="buffer_memory") as raised:
                await producing_it
            assert isinstance(raised.value.__cause__, BufferFullError)
            assert raised.value.__cause__.limit == "buffer_memory"
            cluster.faults.clear()
            await rig.producer.flush()

    run(body)


def test_a_table_for_a_topic_nobody_knows_waits_for_metadata_within_bounds(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1) as cluster:
            bootstrap = cluster.bootstrap
            async with producing(world, cluster) as rig:
                await (await rig.producer.produce_batch("fresh", table_of(3), partition=0))
                assert values(cluster, "fresh", 0) == numbered(3)
        async with producing(world, bootstrap, max_block_ms=100) as rig:
            with pytest.raises(ApiTimeoutError, match="fresh"):
                await rig.producer.produce_batch("fresh", table_of(3))

    run(body)


def test_rows_survive_faults_once_and_in_order_and_splits_too(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, batch_size=500) as rig,
        ):
            await rig.producer.produce("orders", b"first")
            cluster.faults.add("Produce", when="after_append", action=drop, count=2)
            cluster.faults.add("Produce", action=error("MESSAGE_TOO_LARGE"), count=3)
            delivery = await rig.producer.produce_batch("orders", table_of(500))
            await delivery
            assert values(cluster, "orders") == [b"first", *numbered(500)]
            assert delivery.offsets() == {0: [(1, 500)]}

    run(body)


def test_rows_that_are_refused_are_told_with_the_first_error(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1}) as cluster, producing(world, cluster) as rig:
            cluster.faults.add("Produce", action=error("INVALID_RECORD"), count=1)
            delivery = await rig.producer.produce_batch("orders", table_of(5))
            called: list[object] = []
            delivery.add_done_callback(called.append)
            with pytest.raises(InvalidRecordError):
                await delivery
            assert isinstance(delivery.error, InvalidRecordError)
            assert called == [delivery]
            assert delivery.offsets() == {}
            with pytest.raises(DeliveryError):
                await rig.producer.flush()

    run(body)


class Rows(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        record.value += b"!"
        return record


class Tables(ProducerInterceptor):
    def on_send_batch(self, topic: str, table: _T) -> _T:
        return table.slice(1)  # type: ignore[attr-defined,no-any-return]


def test_an_interceptor_of_records_makes_a_table_go_row_by_row_and_that_is_said_once(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, interceptors=[Rows(), Tables()]) as rig,
        ):
            with pytest.warns(RuntimeWarning, match="row by row"):
                delivery = await rig.producer.produce_batch("orders", table_of(3))
            await delivery
            await (await rig.producer.produce_batch("orders", table_of(2)))
            assert values(cluster, "orders") == [b"1!", b"2!", b"1!"]
            assert delivery.offsets() == {0: [(0, 1)]}

    run(body)


def test_a_partitioner_that_looks_at_records_gets_every_row(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 3}) as cluster,
            producing(world, cluster, partitioner="consistent_random") as rig,
        ):
            keys = arrow.array(numbered(9), arrow.binary())
            with pytest.warns(RuntimeWarning, match="partitioner"):
                await (await rig.producer.produce_batch("orders", table_of(9, key=keys)))
            for partition in range(3):
                expected = [key for key in numbered(9) if crc32_partition(key, 3) == partition]
                assert values(cluster, "orders", partition) == expected

    run(body)


def test_round_robin_places_whole_columns_and_one_table_goes_on_where_the_last_ended(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 3}) as cluster,
            producing(world, cluster, partitioner="round_robin") as rig,
        ):
            keys = arrow.array([b"same"] * 4, arrow.binary())
            await (await rig.producer.produce_batch("orders", table_of(4, key=keys)))
            await (await rig.producer.produce_batch("orders", {"name": table_of(2).column(0)}))
            assert [values(cluster, "orders", number) for number in range(3)] == [
                [b"0", b"3"],
                [b"1", b"0"],
                [b"2", b"1"],
            ]

    run(body)


def test_round_robin_leaves_alone_the_rows_that_name_their_partition(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 3}) as cluster,
            producing(world, cluster, partitioner="round_robin") as rig,
        ):
            named = table_of(4, partition=arrow.array([None, 2, None, 2], arrow.int32()))
            await (await rig.producer.produce_batch("orders", named))
            all_named = table_of(1, partition=arrow.array([2], arrow.int32()))
            await (await rig.producer.produce_batch("orders", all_named))
            await (await rig.producer.produce_batch("orders", table_of(1), partition=1))
            assert [values(cluster, "orders", number) for number in range(3)] == [
                [b"0"],
                [b"2", b"0"],
                [b"1", b"3", b"0"],
            ]

    run(body)


def test_a_row_may_name_a_partition_that_there_is_only_since_a_moment(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1}) as cluster, producing(world, cluster) as rig:
            await (await rig.producer.produce_batch("orders", table_of(1)))
            named = table_of(2, partition=arrow.array([2, 0], arrow.int32()))
            with pytest.raises(
                NoSuchPartitionError, match=r"no partition 2 .* 0 to 0\. In the table it is row"
            ):
                await rig.producer.produce_batch("orders", named)
            await cluster.delete_topic("orders")
            await cluster.create_topic("orders", 3)
            await (await rig.producer.produce_batch("orders", named))
            assert values(cluster, "orders", 2) == [b"0"]

    run(body)


def test_a_type_that_is_not_bytes_is_refused(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1}) as cluster, producing(world, cluster) as rig:
            with pytest.raises((TypeError, ValueError), match="value"):
                await rig.producer.produce_batch("orders", arrow.table({"value": [1.5]}))

    run(body)
