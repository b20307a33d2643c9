"""Records as Arrow columns: read by pyarrow and polars, in memory that lives as long as it is needed."""

from __future__ import annotations

import datetime
import gc
from random import Random
from typing import Any

import polars
import pyarrow as pa
import pytest

from ottla._native import memory
from ottla._native.decode import Columns
from tests.native.decoding import as_oracle, decode
from tests.oracle.message_sets import OracleRecord
from tests.oracle.records import build_batch, encode_batch

NOW = 1_700_000_000_000


def random_records(count: int, seed: int = 1) -> list[OracleRecord]:
    random = Random(seed)

    def maybe(size: int) -> bytes | None:
        return None if random.random() < 0.2 else random.randbytes(random.randrange(size))

    return [
        OracleRecord(
            offset,
            NOW + random.randrange(-1000, 1000),
            key=maybe(20),
            value=maybe(300),
            headers=tuple((f"h{n}", maybe(10)) for n in range(random.choice([0, 0, 1, 3]))),
        )
        for offset in range(count)
    ]


def as_rows(records: list[OracleRecord]) -> list[dict[str, Any]]:
    return [
        {
            "key": r.key,
            "value": r.value,
            "topic": "orders",
            "partition": 3,
            "offset": r.offset,
            "timestamp": datetime.datetime.fromtimestamp(0, datetime.UTC)
            + datetime.timedelta(milliseconds=r.timestamp),
            "timestampType": r.timestamp_type,
            "headers": [{"key": key, "value": value} for key, value in r.headers],
        }
        for r in records
    ]


@pytest.mark.parametrize("count", [1, 7, 8, 9, 1000])
def test_pyarrow_reads_what_was_written(count: int) -> None:
    written = random_records(count)
    columns = decode(encode_batch(build_batch(written))).columns()
    assert columns.num_rows == count
    table = pa.record_batch(columns)
    table.validate(full=True)
    assert table.to_pylist() == as_rows(written)


def test_polars_reads_what_was_written() -> None:
    written = random_records(100)
    frame = polars.DataFrame(decode(encode_batch(build_batch(written))).columns())
    assert frame.to_dicts() == as_rows(written)


def test_the_schema_is_that_of_sparks_kafka_source() -> None:
    schema = pa.schema(decode(b"").columns())
    header = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
    assert schema == pa.schema(
        [
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
            pa.field("topic", pa.string(), nullable=False),
            pa.field("partition", pa.int32(), nullable=False),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("timestamp", pa.timestamp("ms", "UTC"), nullable=False),
            pa.field("timestampType", pa.int32(), nullable=False),
            pa.field("headers", pa.list_(pa.field("item", header, nullable=False)), nullable=False),
        ]
    )


def test_no_records_are_empty_columns() -> None:
    table = pa.record_batch(decode(b"").columns())
    table.validate(full=True)
    assert table.num_rows == 0


@pytest.mark.parametrize(("unit", "factor"), [("ms", 1), ("us", 1000), ("ns", 1_000_000)])
def test_timestamps_come_in_the_unit_that_is_wanted(unit: str, factor: int) -> None:
    records = decode(encode_batch(build_batch([OracleRecord(0, NOW)])))
    column = pa.record_batch(records.columns(timestamp_unit=unit)).column("timestamp")
    assert column.type == pa.timestamp(unit, "UTC")
    assert column.cast(pa.int64()).to_pylist() == [NOW * factor]
    with pytest.raises(ValueError, match="timestamp_unit must be one of ms, us, ns, not 's'"):
        records.columns(timestamp_unit="s")


def test_columns_outlive_everything_they_came_from() -> None:
    """A test that would catch memory used again too early: what comes back to the pool is overwritten."""
    written = random_records(500)
    data = encode_batch(build_batch(written))
    memory._poison(True)
    try:
        tables = [pa.record_batch(decode(data).columns()) for _ in range(4)]
        # A column by itself, when the rest of its batch is gone.
        values = pa.record_batch(decode(data).columns()).column("value")
        gc.collect()
        for _ in range(10):
            decode(data).columns()
        assert all(table.to_pylist() == as_rows(written) for table in tables)
        assert values.to_pylist() == [r.value for r in written]
    finally:
        memory._poison(False)


def test_memory_goes_back_when_the_last_export_is_released() -> None:
    data = encode_batch(build_batch(random_records(500)))
    gc.collect()
    before = memory.statistics()["in_use"]
    table = pa.record_batch(decode(data).columns())
    column = table.column("offset")
    assert memory.statistics()["in_use"] > before
    del table
    gc.collect()
    assert memory.statistics()["in_use"] > before
    del column
    gc.collect()
    assert memory.statistics()["in_use"] == before


def test_capsules_that_nobody_imports_are_released() -> None:
    columns = decode(encode_batch(build_batch(random_records(50)))).columns()
    gc.collect()
    before = memory.statistics()["in_use"]
    for _ in range(3):
        columns.__arrow_c_array__()
        columns.__arrow_c_schema__()
    assert memory.statistics()["in_use"] == before


def test_columns_can_be_exported_more_than_once() -> None:
    columns = decode(encode_batch(build_batch(random_records(50)))).columns()
    assert pa.record_batch(columns) == pa.record_batch(columns)


def test_columns_and_records_come_from_the_same_scan() -> None:
    records = decode(encode_batch(build_batch(random_records(200))), offset=50)
    table = pa.record_batch(records.columns())
    assert [row["offset"] for row in table.to_pylist()] == [r.offset for r in as_oracle(records)]
    assert table.num_rows == len(records) == 150


def test_columns_are_made_of_records() -> None:
    with pytest.raises(TypeError):
        Columns(None, None, 0, 0)  # type: ignore[call-arg]


@pytest.mark.parametrize("names", [["value"], ["offset", "key"], ["headers", "timestampType", "topic"], []])
def test_only_the_columns_that_are_wanted_are_made_in_their_order(names: list[str]) -> None:
    written = random_records(100)
    batch = pa.record_batch(decode(encode_batch(build_batch(written))).columns(names=names))
    assert batch.schema.names == names
    assert batch.num_rows == 100
    if names:
        assert batch.to_pylist() == [{name: row[name] for name in names} for row in as_rows(written)]


@pytest.mark.parametrize(("first", "count"), [(0, 100), (0, 1), (13, 50), (99, 1), (100, 0), (40, None)])
def test_rows_can_be_chosen(first: int, count: int | None) -> None:
    written = random_records(100)
    columns = decode(encode_batch(build_batch(written))).columns(first=first, count=count)
    end = 100 if count is None else first + count
    assert pa.record_batch(columns).to_pylist() == as_rows(written)[first:end]


def test_with_nullable_every_field_may_be_null_and_no_headers_are_null() -> None:
    written = random_records(100)
    for records in (written, [OracleRecord(0, NOW, value=b"no headers at all")]):
        batch = pa.record_batch(decode(encode_batch(build_batch(records))).columns(nullable=True))
        item = batch.schema.field("headers").type.value_field
        assert all(field.nullable for field in [*batch.schema, item, *item.type])
        batch.validate(full=True)
        expected = as_rows(records)
        for row in expected:
            row["headers"] = row["headers"] or None
        assert batch.to_pylist() == expected


@pytest.mark.parametrize("names", [["nonesuch"], ["key", "key"]])
def test_columns_that_there_are_not_are_refused_with_those_there_are(names: list[str]) -> None:
    records = decode(encode_batch(build_batch(random_records(1))))
    with pytest.raises(
        ValueError, match="key, value, topic, partition, offset, timestamp, timestampType, headers"
    ):
        records.columns(names=names)


@pytest.mark.parametrize(("first", "count"), [(-1, 1), (0, 11), (11, 0), (5, -1), (3, 8)])
def test_rows_that_there_are_not_are_refused(first: int, count: int) -> None:
    records = decode(encode_batch(build_batch(random_records(10))))
    with pytest.raises(IndexError, match="of 10"):
        records.columns(first=first, count=count)


def test_records_are_taken_up_to_a_number_and_a_size() -> None:
    written = [OracleRecord(offset, NOW, key=b"k", value=b"x" * 9) for offset in range(10)]
    records = decode(encode_batch(build_batch(written)))
    assert records.fitting(0, most=4, bytes=1000) == 4
    assert records.fitting(8, most=4, bytes=1000) == 2
    assert records.fitting(0, most=10, bytes=30) == 3
    assert records.fitting(0, most=10, bytes=1) == 1
    assert records.fitting(10, most=10, bytes=30) == records.fitting(11, most=10, bytes=30) == 0


def test_the_position_of_an_offset_is_that_of_the_first_record_not_before_it() -> None:
    written = [OracleRecord(offset, NOW, value=b"x") for offset in (5, 6, 9)]
    records = decode(encode_batch(build_batch(written)))
    assert [records.position_of(offset) for offset in (0, 5, 6, 7, 9, 10)] == [0, 0, 1, 2, 2, 3]
