"""Tables whose rows differ much in size, or share their bytes: cut by what each row takes, or refused as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.broker.server.faults import error
from ottla.client.produce.batch_delivery import PartlySentError
from ottla.errors import BufferFullError, RecordTooLargeError
from ottla.hooks import ProducerInterceptor, ProducerRecord
from tests.client.produce.producing import Rig, numbered, producing, values
from tests.client.worlds import Body, World

arrow = pytest.importorskip("pyarrow")
polars = pytest.importorskip("polars")
Run = Callable[[Body], object]

BUFFER = 100_000
LARGE = bytes(10_000)


def skewed() -> Any:
    """Nearly all bytes are in the last rows."""
    return arrow.table({"value": arrow.array([b""] * 3000 + [LARGE] * 30, arrow.binary())})


def one_row_repeated() -> Any:
    """polars keeps the bytes once, and each row is a view of them."""
    return polars.DataFrame({"value": [LARGE]})[[0] * 300]


def shared_views() -> Any:
    _, view, block = arrow.array([LARGE], arrow.binary_view()).buffers()
    views = arrow.py_buffer(view.to_pybytes() * 300)
    return arrow.table({"value": arrow.Array.from_buffers(arrow.binary_view(), 300, [None, views, block])})


def dictionary() -> Any:
    indices = arrow.array([0] * 300, arrow.int8())
    return arrow.table({"value": arrow.DictionaryArray.from_arrays(indices, arrow.array([LARGE]))})


def large_headers() -> Any:
    header = arrow.list_(arrow.struct([("key", arrow.string()), ("value", arrow.binary())]))
    headers: list[Any] = [[]] * 2000 + [[{"key": "h", "value": LARGE}]] * 30
    return arrow.table(
        {"value": arrow.array([b""] * 2030, arrow.binary()), "headers": arrow.array(headers, header)}
    )


@pytest.mark.parametrize("make", [skewed, one_row_repeated, shared_views, dictionary, large_headers])
def test_every_row_arrives_however_its_bytes_lie_in_memory(run: Run, make: Callable[[], Any]) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, buffer_memory=BUFFER, batch_size=5_000) as rig,
        ):
            table = make()
            delivery = await rig.producer.produce_batch("orders", table)
            await delivery
            expected = arrow.table(table)["value"].to_pylist()
            assert values(cluster, "orders") == expected
            assert delivery.count == len(expected)
            assert rig.producer.buffered_bytes == 0

    run(body)


def test_a_row_that_is_too_large_is_known_before_anything_is_sent(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, buffer_memory=BUFFER, max_request_size=20_000) as rig,
        ):
            rows = arrow.array([LARGE] * 100 + [bytes(20_000)], arrow.binary())
            with pytest.raises(RecordTooLargeError, match=r"row 100 takes 200.* max_request_size=20000"):
                await rig.producer.produce_batch("orders", arrow.table({"value": rows}))
            await rig.producer.flush()
            assert values(cluster, "orders") == []

    run(body)


def test_a_row_that_never_fits_into_the_buffer_is_known_before_anything_is_sent(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, buffer_memory=BUFFER, batch_size=5_000) as rig,
        ):
            rows = arrow.array([LARGE] * 100 + [bytes(BUFFER)], arrow.binary())
            with pytest.raises(
                RecordTooLargeError, match=r"row 100 takes 100.* buffer_memory=100000"
            ) as raised:
                await rig.producer.produce_batch("orders", arrow.table({"value": rows}))
            assert raised.value.limit == "buffer_memory"
            await rig.producer.flush()
            assert values(cluster, "orders") == []

    run(body)


HEADER = arrow.list_(arrow.struct([("key", arrow.string()), ("value", arrow.binary())]))


@pytest.mark.parametrize(
    ("column", "wrong", "kind", "message"),
    [
        ("partition", -7, arrow.int32(), "row 100 is for partition -7, .* null"),
        ("partition", 3, arrow.int64(), "no partition 3 of topic .* row 100"),
        ("timestamp", -1, arrow.int64(), "row 100 has a timestamp before 1970"),
        ("headers", [None], HEADER, "row 100 has a null instead of header 0"),
    ],
)
def test_what_is_wrong_with_a_late_row_is_known_before_anything_is_sent(
    run: Run, column: str, wrong: Any, kind: Any, message: str
) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, buffer_memory=BUFFER, batch_size=5_000) as rig,
        ):
            table = arrow.table(
                {
                    "value": arrow.array([LARGE] * 101, arrow.binary()),
                    column: arrow.array([None] * 100 + [wrong], kind),
                }
            )
            with pytest.raises(ValueError, match=message):
                await rig.producer.produce_batch("orders", table)
            await rig.producer.flush()
            assert values(cluster, "orders") == []

    run(body)


def test_of_several_topics_the_tables_are_all_looked_at_before_anything_is_sent(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"one": 1, "two": 1}) as cluster,
            producing(world, cluster, max_request_size=20_000) as rig,
        ):
            small = arrow.table({"value": arrow.array([b"1"], arrow.binary())})
            large = arrow.table({"value": arrow.array([bytes(20_000)], arrow.binary())})
            with pytest.raises(RecordTooLargeError, match="row 0") as raised:
                await rig.producer.handover().produce({"one": small, "two": large})
            assert raised.value.__notes__ == ["the table was for topic two"]
            await rig.producer.flush()
            assert values(cluster, "one") == []

    run(body)


# A failure in the middle


async def stuck_in_the_middle(rig: Rig, table: Any) -> PartlySentError:
    with pytest.raises(PartlySentError, match="orders") as raised:
        await rig.producer.produce_batch("orders", table)
    return raised.value


def test_a_failure_in_the_middle_hands_out_the_receipt_of_the_first_rows(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, buffer_memory=BUFFER, batch_size=5_000, max_block_ms=100) as rig,
        ):
            await rig.producer.produce("orders", b"known")
            cluster.faults.add("Produce", action=error("NOT_ENOUGH_REPLICAS"))
            rows = [b"%d" % number + LARGE for number in range(30)]
            table = arrow.table({"value": arrow.array(rows, arrow.binary())})
            failed = await stuck_in_the_middle(rig, table)
            assert isinstance(failed.__cause__, BufferFullError)
            assert "max_block_ms" in str(failed)
            cluster.faults.clear()
            sent = await failed.sent["orders"]
            assert 0 < sent.count < 30
            assert values(cluster, "orders") == [b"known", *rows[: sent.count]]
            assert sent.offsets() == {0: [(1, sent.count)]}
            # What is left can be sent from where it broke off.
            await (await rig.producer.produce_batch("orders", table.slice(sent.count)))
            assert values(cluster, "orders") == [b"known", *rows]

    run(body)


def test_a_failure_before_the_first_row_is_told_as_it_is(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, buffer_memory=BUFFER, max_block_ms=100) as rig,
        ):
            await rig.producer.produce("orders", b"known")
            cluster.faults.add("Produce", action=error("NOT_ENOUGH_REPLICAS"))
            rig.producer.produce("orders", bytes(95_000))
            with pytest.raises(BufferFullError):
                await rig.producer.produce_batch("orders", arrow.table({"value": [LARGE]}))
            cluster.faults.clear()

    run(body)


def test_tables_that_come_one_by_one_and_break_off_leave_a_receipt_for_those_before(run: Run) -> None:
    def tables() -> Iterator[Any]:
        yield arrow.table({"value": numbered(3)})
        yield arrow.table({"value": numbered(2)})
        raise LookupError("no more of them")

    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1}) as cluster, producing(world, cluster) as rig:
            failed = await stuck_in_the_middle(rig, tables())
            assert isinstance(failed.__cause__, LookupError)
            sent = await failed.sent["orders"]
            assert sent.count == 5
            assert values(cluster, "orders") == [*numbered(3), *numbered(2)]

    run(body)


def test_a_call_that_is_cancelled_in_the_middle_says_how_many_rows_have_gone(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, buffer_memory=BUFFER, batch_size=5_000) as rig,
        ):
            await rig.producer.produce("orders", b"known")
            fault = cluster.faults.add("Produce", action=error("NOT_ENOUGH_REPLICAS"))
            table = arrow.table({"value": arrow.array([LARGE] * 30, arrow.binary())})
            call = asyncio.ensure_future(rig.producer.produce_batch("orders", table))
            await fault.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError) as raised:
                await call
            assert any("rows of the table have been handed over" in note for note in raised.value.__notes__)
            cluster.faults.clear()

    run(body)


# Row by row


class Rows(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record


def test_row_by_row_a_negative_partition_is_known_before_anything_is_sent(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, interceptors=[Rows()]) as rig,
        ):
            table = arrow.table({"value": numbered(3), "partition": [0, None, -7]})
            with (
                pytest.warns(RuntimeWarning, match="row by row"),
                pytest.raises(ValueError, match="row 2 is for partition -7"),
            ):
                await rig.producer.produce_batch("orders", table)
            await rig.producer.flush()
            assert values(cluster, "orders") == []

    run(body)


def test_a_partition_for_all_rows_that_is_none_is_refused_as_for_a_record(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 2}) as cluster, producing(world, cluster) as rig:
            await rig.producer.produce("orders", b"known")
            for wrong in (-7, 2):
                message = f"there is no partition {wrong} of topic 'orders', which has partitions 0 to 1"
                with pytest.raises(ValueError, match=message):
                    rig.producer.produce("orders", b"1", partition=wrong)
                with pytest.raises(ValueError, match=message):
                    await rig.producer.produce_batch(
                        "orders", arrow.table({"value": [b"1"]}), partition=wrong
                    )

    run(body)
