"""What an accumulator takes at the most, for how long it takes anything, and what opens no batch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pyarrow as pa
import pytest

from ottla._native.accumulator import Accumulator
from ottla._native.encode import encode_columns
from ottla._native.outgoing import EncodedBatch
from ottla._native.record_buffer import BufferFull, RecordBuffer
from tests.native.accumulator_support import accumulator, everything
from tests.native.appender_support import until_full
from tests.native.encode_support import NOW
from tests.native.test_accumulator_threads import run


def columns(
    records: Accumulator, rows: int, batch_size: int = 500, value: bytes = b"v" * 100
) -> list[EncodedBatch]:
    return encode_columns(
        {"value": pa.array([value] * rows, pa.binary())},
        partitions=4,
        batch_size=batch_size,
        now=NOW,
        unkeyed_partition=1,
        topic="orders",
        accumulator=records,
    )


# Without opening a batch


def test_a_record_that_would_open_a_batch_is_not_appended() -> None:
    buffer = accumulator(200).buffer("orders", 0)
    assert buffer.append(None, b"v", opens=False) is None
    assert buffer.records == 0
    buffer.append(None, b"v")
    second = buffer.append(None, b"v", opens=False)
    assert second is not None
    assert second.index == 1
    assert buffer.records == 2


def test_a_record_that_does_not_fit_ends_the_batch_although_it_goes_elsewhere() -> None:
    woken: list[bool] = []
    buffer = accumulator(200, wake=lambda buffer, full: woken.append(full)).buffer("orders", 0)
    buffer.append(None, b"v" * 50)
    assert buffer.append(None, b"v" * 100, opens=False) is None
    assert (woken, buffer.full_batches, buffer.records) == ([False, True], 1, 1)
    assert buffer.append(None, b"v", opens=False) is None
    assert woken == [False, True]


# So many records


def test_records_are_bounded_until_they_are_completed() -> None:
    records = accumulator(max_records=3)
    for partition in range(3):
        records.append("orders", partition, None, b"v")
    with pytest.raises(BufferFull, match=r"3 records wait.*at most 3 may.*orders-1$") as full:
        records.append("orders", 1, None, b"v")
    assert full.value.limit == "records"
    batches = everything(records)
    assert (records.records, records.used_records, records.max_records) == (0, 3, 3)
    with pytest.raises(BufferFull):
        records.append("orders", 1, None, b"v")
    batches[0].complete(0)
    batches[0].complete(0)
    assert records.used_records == 2
    records.append("orders", 1, None, b"v")
    with pytest.raises(BufferFull):
        records.append("orders", 1, None, b"v")


def test_a_record_that_there_is_no_room_for_costs_no_memory() -> None:
    records = accumulator(max_records=1)
    records.append("orders", 0, None, b"v")
    before = records.used_bytes
    for partition in range(1, 20):
        with pytest.raises(BufferFull):
            records.append("orders", partition, None, b"v")
    assert records.used_bytes == before


def test_memory_that_is_used_up_is_told_apart() -> None:
    records = accumulator(500, 500, max_records=1000)
    until_full(lambda: records.append("orders", 0, None, b"v" * 50))
    with pytest.raises(BufferFull, match="of 500 bytes are in use") as full:
        records.append("orders", 0, None, b"v" * 50)
    assert full.value.limit == "bytes"


def test_without_a_bound_records_are_counted_all_the_same() -> None:
    records = accumulator()
    for _ in range(5):
        records.append("orders", 0, None, b"v")
    assert (records.used_records, records.max_records) == (5, 0)
    del records.drain("orders", 0, force=True)[:]
    assert records.used_records == 0


def test_a_bound_is_not_negative() -> None:
    with pytest.raises(ValueError, match=r"max_records must be from 0 \(no bound\) on, not -1"):
        accumulator(max_records=-1)


def test_threads_never_get_beyond_the_bound() -> None:
    records = Accumulator(batch_size=300, max_bytes=2**24, max_records=50)

    def work(partition: int) -> None:
        done = 0
        while done < 1000:
            try:
                records.append("orders", partition, None, b"v")
                done += 1
            except BufferFull:
                assert records.used_records <= 50
                for batch in everything(records):
                    batch.complete(0)

    run(*(partial(work, partition) for partition in range(4)))
    for batch in everything(records):
        batch.complete(0)
    assert (records.used_records, records.used_bytes) == (0, 0)


# The end


class ClosedError(Exception):
    pass


def test_after_the_end_every_append_raises_and_what_is_there_can_be_drained() -> None:
    records = accumulator()
    buffer: RecordBuffer = records.buffer("orders", 0)
    buffer.append(None, b"before")
    error = ClosedError("the client is closed")
    records.close(error)
    attempts: list[Callable[[], object]] = [
        lambda: buffer.append(None, b"after"),
        lambda: buffer.append(None, b"after", opens=False),
        lambda: records.append("orders", 0, None, b"after"),
        lambda: records.append("others", 0, None, b"after"),
        lambda: columns(records, 1),
    ]
    for attempt in attempts:
        with pytest.raises(ClosedError, match="the client is closed") as raised:
            attempt()
        assert raised.value is error
    (batch,) = everything(records)
    assert (batch.count, records.used_records) == (1, 1)
    batch.complete(0)
    assert (records.used_records, records.used_bytes) == (0, 0)


def test_only_an_error_can_be_raised() -> None:
    with pytest.raises(TypeError, match="error must be an exception, not str"):
        accumulator().close("closed")  # type: ignore[arg-type]


def test_no_record_slips_in_behind_the_end() -> None:
    for _ in range(30):
        records = Accumulator(batch_size=300, max_bytes=2**24)
        counts: list[int] = []

        def work(records: Accumulator = records) -> None:
            with suppress(ClosedError):
                while True:
                    records.append("orders", 0, None, b"v")

        def close(records: Accumulator = records, counts: list[int] = counts) -> None:
            records.close(ClosedError())
            counts.append(records.records)

        run(work, work, close)
        assert counts == [records.records]


# Whole columns


def test_columns_count_against_the_bounds_until_they_are_completed() -> None:
    records = accumulator(500, 2000, max_records=20)
    batches = columns(records, 10)
    assert records.used_bytes == sum(batch.raw_size for batch in batches)
    assert records.used_records == 10
    assert records.records == 0  # they do not wait here
    with pytest.raises(BufferFull, match="needed for 9 rows to orders") as full:
        columns(records, 9)
    assert full.value.limit == "bytes"
    with pytest.raises(BufferFull, match="no room for 11 rows to orders") as full:
        columns(records, 11, value=b"")
    assert full.value.limit == "records"
    assert records.used_records == 10
    batches.pop().complete(0)
    del batches
    assert (records.used_bytes, records.used_records) == (0, 0)


@pytest.mark.parametrize(
    ("rows", "value", "told"),
    [(20, b"v" * 100, "buffer_memory=2000"), (21, b"", "max_buffered_records=20")],
)
def test_columns_that_never_fit_are_to_be_sliced(rows: int, value: bytes, told: str) -> None:
    records = accumulator(500, 2000, max_records=20)
    with pytest.raises(ValueError, match=rf"^{rows} rows to orders .*{told} ever allows"):
        columns(records, rows, value=value)
    assert (records.used_bytes, records.used_records) == (0, 0)


def test_columns_of_an_accumulator_can_be_waited_for_and_know_since_when_they_wait() -> None:
    urged: list[tuple[str, int]] = []
    records = accumulator(
        monotonic=lambda: 12.5, unlinger=lambda topic, partition: urged.append((topic, partition))
    )
    (batch,) = columns(records, 2)

    async def main() -> None:
        async def wait() -> int:
            return (await batch.delivery(1)).offset

        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        batch.complete(30)
        assert await task == 31

    asyncio.run(main())
    assert urged == [("orders", 1)]
    assert batch.opened_at == 12.5


def test_a_batch_has_room_for_the_times_of_its_hops() -> None:
    (batch,) = columns(accumulator(), 1)
    assert (batch.sealed_at, batch.written_at, batch.acknowledged_at) == (0, 0, 0)
    batch.sealed_at, batch.written_at, batch.acknowledged_at = 1.5, 2.5, 3.5
    assert (batch.sealed_at, batch.written_at, batch.acknowledged_at) == (1.5, 2.5, 3.5)


def test_who_waits_for_a_batch_is_told_once_even_if_too_late() -> None:
    (batch,) = columns(accumulator(), 3)
    told: list[tuple[str, EncodedBatch]] = []
    batch.add_done_callback(lambda done: told.append(("early", done)))
    batch.complete(5)
    batch.add_done_callback(lambda done: told.append(("late", done)))
    assert told == [("early", batch), ("late", batch)]
