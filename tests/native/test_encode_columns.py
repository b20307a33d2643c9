"""Arrow columns into batches: the bytes are the oracle's, whatever the columns look like in memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla._native.encode import encode_columns
from tests.native.encode_support import (
    HEADER_FIELDS,
    HEADERS,
    NOW,
    PARTITIONS,
    SOME_ROWS,
    Row,
    array,
    decoded,
    expected_batches,
    oracle_bytes,
    table,
    values,
)
from tests.oracle.murmur2 import partition_for
from tests.oracle.records import CREATE_TIME, OracleBatch
from tests.records.peers import PEERS, Peer
from tests.records.vectors import KafkaVector, kafka_vectors

BYTES_TYPES = [pa.binary(), pa.large_binary(), pa.binary_view()]
TEXT_TYPES = [pa.string(), pa.large_string(), pa.string_view()]
DICTIONARY_TYPES = [pa.dictionary(pa.int8(), pa.binary()), pa.dictionary(pa.int32(), pa.large_binary())]
INDEX_TYPES = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
]


def written_by_a_producer(vector: KafkaVector) -> bool:
    """Whether a producer could have sent it; brokers write control batches and their own timestamps."""
    entry = vector.entries[0]
    return (
        vector.exact
        and isinstance(entry, OracleBatch)
        and entry.timestamp_type == CREATE_TIME
        and all(record.timestamp >= 0 for record in entry.records)
        and not entry.control
        and len(entry.records) > 0
    )


optional_bytes = st.none() | st.binary(max_size=40)
texts = st.text(st.characters(codec="utf-8"), max_size=20)
headers = st.none() | st.lists(st.tuples(texts, optional_bytes), max_size=3).map(tuple)
# Differences beyond 63 bits wrap around in Java and here, but not in the oracle's encoder or in other clients.
wide = st.integers(min_value=0, max_value=2**62)
timestamps = st.none() | st.integers(min_value=NOW - 100_000, max_value=NOW + 100_000) | wide
row_lists = st.lists(
    st.builds(
        Row,
        value=optional_bytes,
        key=optional_bytes,
        headers=headers,
        timestamp=timestamps,
        partition=st.none() | st.integers(min_value=0, max_value=PARTITIONS - 1),
    ),
    max_size=40,
)


def assert_encodes_to(columns: Any, rows: Sequence[Row], *, batch_size: int = 300) -> None:
    batches = encode_columns(
        columns, partitions=PARTITIONS, batch_size=batch_size, now=NOW, unkeyed_partition=2, rows=True
    )
    expected = expected_batches(rows, partitions=PARTITIONS, batch_size=batch_size, unkeyed=2)
    assert [(batch.partition, list(batch.rows), bytes(batch)) for batch in batches] == [
        (batch.partition, batch.rows, batch.data) for batch in expected
    ]


@settings(deadline=None)
@given(rows=row_lists, batch_size=st.integers(min_value=62, max_value=600))
def test_the_bytes_are_those_of_the_oracle(rows: list[Row], batch_size: int) -> None:
    assert_encodes_to(table(rows), rows, batch_size=batch_size)


@settings(deadline=None)
@given(
    pairs=st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=300)), max_size=40),
    batch_size=st.integers(min_value=62, max_value=2000),
    cut=st.integers(min_value=0, max_value=40),
)
def test_keys_and_values_alone_have_a_loop_of_their_own(
    pairs: list[tuple[bytes, bytes]], batch_size: int, cut: int
) -> None:
    rows = [Row(value, key) for key, value in pairs]
    columns = {name: array(rows, name, pa.binary()) for name in ("key", "value")}
    assert all(column.buffers()[0] is None for column in columns.values())  # no bitmap, no nulls
    assert_encodes_to(columns, rows, batch_size=batch_size)
    assert_encodes_to({name: column[cut:] for name, column in columns.items()}, rows[cut:])
    # One segment for each of the two loops, and batches that begin in the one and end in the other.
    with_nulls = pa.chunked_array([columns["key"], pa.array([None, b"k"], pa.binary())])
    mixed = {
        "key": with_nulls,
        "value": pa.chunked_array([columns["value"], pa.array([b"v", b"w"], pa.binary())]),
    }
    assert_encodes_to(mixed, [*rows, Row(b"v"), Row(b"w", b"k")], batch_size=batch_size)


@settings(deadline=None)
@given(
    rows=row_lists,
    key=st.sampled_from([*BYTES_TYPES, *DICTIONARY_TYPES]),
    value=st.sampled_from([*BYTES_TYPES, *DICTIONARY_TYPES]),
    cuts=st.lists(st.integers(min_value=0, max_value=40), max_size=6),
    padding=st.integers(min_value=0, max_value=9),
)
def test_chunks_slices_and_layouts_make_no_difference(
    rows: list[Row], key: pa.DataType, value: pa.DataType, cuts: list[int], padding: int
) -> None:
    # A slice out of the middle of something longer; each column is then cut into chunks of its own.
    around = [Row(b"before", b"k", (("h", b"v"),), 1, 1)] * padding
    whole = table([*around, *rows, *around], key, value).slice(padding, len(rows))
    assert_encodes_to(whole, rows)
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    shifted = [0, *sorted({max(bound - 1, 0) for bound in bounds}), len(rows)]
    columns = {
        name: pa.chunked_array(
            [
                whole[name].combine_chunks().slice(a, b - a)
                for a, b in itertools.pairwise(bounds if i % 2 else shifted)
            ],
            whole[name].type,
        )
        for i, name in enumerate(whole.column_names)
    }
    assert_encodes_to(columns, rows)
    assert_encodes_to(pa.concat_tables([whole.slice(a, b - a) for a, b in itertools.pairwise(bounds)]), rows)


@pytest.mark.parametrize("vector", [v for v in kafka_vectors() if written_by_a_producer(v)], ids=str)
def test_kafkas_own_client_writes_the_same_bytes(vector: KafkaVector) -> None:
    (entry,) = vector.entries
    assert isinstance(entry, OracleBatch)
    rows = [Row(r.value, r.key, tuple(r.headers), r.timestamp) for r in entry.records]
    (batch,) = encode_columns(table(rows), partitions=1, batch_size=2**20, now=NOW, unkeyed_partition=0)
    batch.set_producer(entry.producer_id, entry.producer_epoch, entry.base_sequence, entry.transactional)
    batch.seal()
    # Base offset and leader epoch, in front, are set by the broker and not covered by the checksum.
    assert bytes(batch)[16:] == vector.data[16:]


@settings(deadline=None)
@given(rows=row_lists)
@pytest.mark.parametrize("peer", PEERS, ids=str)
def test_other_clients_read_every_batch(peer: Peer, rows: list[Row]) -> None:
    for batch in encode_columns(
        table(rows), partitions=PARTITIONS, batch_size=400, now=NOW, unkeyed_partition=0
    ):
        assert peer.decode(bytes(batch)) == [record.plain for record in decoded(batch).records]


@pytest.mark.parametrize("index", INDEX_TYPES, ids=str)
@pytest.mark.parametrize("kind", [*BYTES_TYPES, *TEXT_TYPES], ids=str)
def test_dictionaries_are_taken_with_every_index_and_nulls_on_both_sides(
    index: pa.DataType, kind: pa.DataType
) -> None:
    entries = pa.array(["left out", "a", None, "thirteen bytes"], pa.string()).cast(kind)[1:]
    column = pa.DictionaryArray.from_arrays(pa.array([2, 0, None, 1, 0, 2], index), entries)
    values = [b"thirteen bytes", b"a", None, None, b"a", b"thirteen bytes"]
    rows = [Row(cell, cell) for cell in values]
    assert_encodes_to({"key": column, "value": column}, rows)
    assert_encodes_to({"key": column[1:5], "value": column[1:5]}, rows[1:5])
    assert_encodes_to(pa.table({"value": column, "key": column}).slice(2), rows[2:])


def test_an_index_beyond_the_signed_range_is_read_as_unsigned() -> None:
    entries = pa.array([b"%d" % number for number in range(200)])
    for index in (pa.uint8(), pa.uint16()):
        column = pa.DictionaryArray.from_arrays(pa.array([199, 3], index), entries)
        assert_encodes_to({"value": column}, [Row(b"199"), Row(b"3")])


@pytest.mark.parametrize("kind", [*BYTES_TYPES, *TEXT_TYPES], ids=str)
def test_every_type_of_bytes_and_text_is_taken(kind: pa.DataType) -> None:
    cells = ["", "a", "exactly 12 b", "thirteen bytes", None, "long " * 100, "ä"]
    column = pa.array(cells, pa.string()).cast(kind)
    encoded = [None if cell is None else cell.encode() for cell in cells]
    rows = [Row(cell, cell) for cell in encoded]
    assert_encodes_to({"key": column, "value": column}, rows, batch_size=4000)
    assert_encodes_to({"key": column[2:6], "value": column[2:6]}, rows[2:6], batch_size=4000)


@pytest.mark.parametrize("name", ["key", "value", "headers", "timestamp", "partition"])
def test_a_column_of_nulls_is_taken(name: str) -> None:
    columns = {"value": pa.array([b"x"] * 3), name: pa.nulls(3)}
    assert_encodes_to(columns, [Row(None if name == "value" else b"x")] * 3)


def test_only_the_value_is_needed() -> None:
    assert_encodes_to({"value": pa.array([b"a", b"b"])}, [Row(b"a"), Row(b"b")])


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64()], ids=str)
def test_every_signed_integer_may_be_a_partition(kind: pa.DataType) -> None:
    cells = [0, 4, None, 1, 3, None]
    rows = [Row(b"v", b"key", partition=cell) for cell in cells]
    column = pa.array(cells, kind)
    columns = {"key": pa.array([b"key"] * 6), "value": pa.array([b"v"] * 6), "partition": column}
    assert_encodes_to(columns, rows)
    assert_encodes_to({name: column[2:] for name, column in columns.items()}, rows[2:])


@pytest.mark.parametrize(
    ("unit", "cells", "milliseconds"),
    [
        ("s", [0, 1, 1_700_000_000], [0, 1000, NOW]),
        ("ms", [0, 1, NOW], [0, 1, NOW]),
        ("us", [999, 1000, 1999], [0, 1, 1]),
        ("ns", [999_999, 1_000_000, 1_999_999], [0, 1, 1]),
    ],
)
@pytest.mark.parametrize("zone", [None, "Europe/Prague"])
def test_timestamps_are_rounded_down_to_milliseconds(
    unit: str, zone: str | None, cells: list[int], milliseconds: list[int]
) -> None:
    column = pa.array([*cells, None], pa.int64()).cast(pa.timestamp(unit, zone))
    rows = [Row(b"v", timestamp=time) for time in [*milliseconds, None]]
    assert_encodes_to({"value": pa.array([b"v"] * len(rows)), "timestamp": column}, rows, batch_size=2000)


@pytest.mark.parametrize("lists", [pa.list_, pa.large_list])
@pytest.mark.parametrize("key", TEXT_TYPES, ids=str)
@pytest.mark.parametrize("value", [*BYTES_TYPES, *TEXT_TYPES], ids=str)
def test_headers_are_taken_in_every_layout(
    lists: Callable[..., pa.DataType], key: pa.DataType, value: pa.DataType
) -> None:
    rows = [
        Row(b"v", headers=headers)
        for headers in [
            (("a", b"1"), ("a", None)),
            None,
            (),
            (("", b""),),
            (("long key " * 5, b"long " * 9),),
        ]
    ]
    entries = [pair for row in rows for pair in row.headers or ()]
    structs = pa.StructArray.from_arrays(
        [
            pa.array([name for name, _ in entries]).cast(key),
            pa.array([cell for _, cell in entries], pa.binary()).cast(value),
        ],
        ["key", "value"],
    )
    kind = lists(structs.type)
    list_class = pa.ListArray if lists is pa.list_ else pa.LargeListArray
    offsets = pa.array([0, None, 2, 2, 3, 4], pa.int32() if lists is pa.list_ else pa.int64())
    column = list_class.from_arrays(offsets, structs)
    assert column.type == kind
    columns = {"value": pa.array([b"v"] * 5), "headers": column}
    assert_encodes_to(columns, rows, batch_size=2000)
    assert_encodes_to({name: column[1:] for name, column in columns.items()}, rows[1:], batch_size=2000)


def test_the_order_of_fields_in_headers_makes_no_difference() -> None:
    column = pa.array([[{"value": b"v", "key": "k"}]], pa.list_(pa.struct(HEADER_FIELDS[::-1])))
    assert_encodes_to({"value": pa.array([b"x"]), "headers": column}, [Row(b"x", headers=(("k", b"v"),))])


def test_slices_of_headers_and_of_their_structs_are_found() -> None:
    rows = [Row(b"%d" % i, headers=tuple((f"k{j}", b"%d" % j) for j in range(i % 4))) for i in range(20)]
    column = array(rows, "headers", HEADERS)
    entries = column.values
    sliced = pa.ListArray.from_arrays(
        pa.array([offset - 3 for offset in column.offsets.to_pylist()[4:]], pa.int32()), entries.slice(3)
    )
    value = array(rows, "value", pa.binary())
    assert_encodes_to({"value": value[4:], "headers": sliced}, rows[4:], batch_size=500)
    assert_encodes_to({"value": value[9:], "headers": sliced[5:]}, rows[9:], batch_size=500)


def test_record_batches_tables_struct_arrays_and_streams_are_taken() -> None:
    whole = table(SOME_ROWS)
    (batch,) = whole.to_batches()
    assert_encodes_to(whole, SOME_ROWS)
    assert_encodes_to(batch, SOME_ROWS)
    assert_encodes_to(batch.slice(7), SOME_ROWS[7:])
    assert_encodes_to(batch.to_struct_array(), SOME_ROWS)
    assert_encodes_to(batch.to_struct_array()[3:60], SOME_ROWS[3:60])
    assert_encodes_to(
        pa.chunked_array([batch.to_struct_array()[:50], batch.to_struct_array()[50:]]), SOME_ROWS
    )
    assert_encodes_to(
        pa.RecordBatchReader.from_batches(whole.schema, [batch, batch[:3]]), SOME_ROWS + SOME_ROWS[:3]
    )


def test_columns_may_be_in_any_order() -> None:
    whole = table(SOME_ROWS)
    assert_encodes_to(whole.select(whole.column_names[::-1]), SOME_ROWS)


def test_structs_inside_a_struct_with_an_offset_are_found() -> None:
    rows = SOME_ROWS[:20]
    (batch,) = table(rows).to_batches()
    shifted = pa.StructArray.from_arrays([column[5:] for column in batch.columns], batch.schema.names)
    assert_encodes_to(shifted[2:], rows[7:])


def test_polars_is_taken() -> None:
    frame = pl.DataFrame(
        {
            "key": [row.key for row in SOME_ROWS],
            "value": [row.value for row in SOME_ROWS],
            "headers": [
                None if row.headers is None else [{"key": key, "value": value} for key, value in row.headers]
                for row in SOME_ROWS
            ],
            "timestamp": [row.timestamp for row in SOME_ROWS],
            "partition": [row.partition for row in SOME_ROWS],
        },
        schema={
            "key": pl.Binary,
            "value": pl.Binary,
            "headers": pl.List(pl.Struct({"key": pl.String, "value": pl.Binary})),
            "timestamp": pl.Int64,
            "partition": pl.Int16,
        },
    )
    assert_encodes_to(frame, SOME_ROWS)
    assert_encodes_to(frame[10:90], SOME_ROWS[10:90])
    assert_encodes_to(frame[::3], SOME_ROWS[::3])
    assert_encodes_to(pl.concat([frame[:40], frame[40:]], rechunk=False), SOME_ROWS)
    assert_encodes_to({name: frame[name] for name in frame.columns}, SOME_ROWS)
    assert_encodes_to(frame.to_struct("rows"), SOME_ROWS)


def test_polars_times_are_taken() -> None:
    times = pl.Series("timestamp", [NOW, None], pl.Int64).cast(pl.Datetime("ms"))
    frame = pl.DataFrame({"value": ["a", "b"], "timestamp": times})
    assert_encodes_to(frame, [Row(b"a", timestamp=NOW), Row(b"b")])
    assert_encodes_to(frame.with_columns(pl.col("timestamp").dt.cast_time_unit("ns")), [Row(b"a"), Row(b"b")])


def test_a_bitmap_counts_even_if_the_nulls_are_not_counted() -> None:
    cells = [b"a", None, b"c", None, b"e"] * 5
    buffers = pa.array(cells, pa.binary()).buffers()
    column = pa.Array.from_buffers(pa.binary(), 20, buffers, null_count=-1, offset=3)
    assert_encodes_to({"value": column}, [Row(cell) for cell in cells[3:23]])


def test_an_array_without_any_bytes_is_taken() -> None:
    column = pa.Array.from_buffers(pa.binary(), 3, [None, pa.py_buffer(bytes(16)), pa.py_buffer(b"")])
    assert_encodes_to({"key": column, "value": column}, [Row(b"", b"")] * 3)


@pytest.mark.parametrize(
    "rows", [[], {"value": pa.array([], pa.binary())}, table([]), table([]).to_batches()]
)
def test_no_rows_are_no_batches(rows: Any) -> None:
    columns = pa.RecordBatchReader.from_batches(table([]).schema, []) if rows == [] else rows
    assert encode_columns(columns, partitions=1, batch_size=100, now=0) == []


@given(st.lists(st.binary(max_size=30), max_size=30), st.integers(min_value=1, max_value=1000))
def test_keys_choose_their_partition_as_in_kafka(keys: list[bytes], partitions: int) -> None:
    columns = {"key": pa.array(keys, pa.binary()), "value": pa.nulls(len(keys))}
    batches = encode_columns(columns, partitions=partitions, batch_size=10_000, now=NOW)
    for batch in batches:
        assert {partition_for(record.key or b"", partitions) for record in decoded(batch).records} == {
            batch.partition
        }
    assert sum(batch.count for batch in batches) == len(keys)


def test_a_batch_knows_itself() -> None:
    times = [NOW + 5, NOW + 9, NOW - 3]
    (batch,) = encode_columns(
        {"value": pa.array([b"a", b"b", b"c"]), "timestamp": pa.array(times)},
        partitions=3,
        batch_size=1000,
        now=NOW,
        unkeyed_partition=1,
        topic="orders",
    )
    assert (batch.topic, batch.partition, batch.count) == ("orders", 1, 3)
    assert (batch.base_timestamp, batch.max_timestamp) == (NOW + 5, NOW + 9)
    assert batch.size == batch.raw_size == len(batch) == len(bytes(batch))
    assert batch.sealed
    header = decoded(batch)
    assert (header.base_offset, header.leader_epoch) == (0, -1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert "3 records" in repr(batch)


def test_rows_are_known_only_if_asked_for() -> None:
    columns = {"key": pa.array([b"%d" % i for i in range(50)]), "value": pa.nulls(50)}
    for batch in encode_columns(columns, partitions=4, batch_size=120, now=NOW, rows=True):
        keys = [int(record.key or b"") for record in decoded(batch).records]
        assert list(batch.rows) == keys
        assert [batch.row_of(i) for i in range(batch.count)] == keys
        with pytest.raises(IndexError, match="record -1 of a batch"):
            batch.row_of(-1)
        with pytest.raises(IndexError):
            batch.row_of(batch.count)
    (batch, *_) = encode_columns(columns, partitions=4, batch_size=120, now=NOW)
    with pytest.raises(AttributeError, match=r"rows=True"):
        _ = batch.rows
    with pytest.raises(AttributeError, match=r"rows=True"):
        batch.row_of(0)


def test_no_batch_is_larger_than_allowed_unless_its_only_record_is() -> None:
    sizes = [0, 10, 300, 5000, 20, 20, 937, 938, 939, 100, 4000, 1]
    rows = [Row(bytes(size)) for size in sizes]
    batches = encode_columns(
        {"value": array(rows, "value", pa.binary())},
        partitions=1,
        batch_size=1024,
        now=NOW,
        unkeyed_partition=0,
    )
    assert [batch.size for batch in batches] == [
        len(batch.data) for batch in expected_batches(rows, partitions=1, batch_size=1024)
    ]
    assert all(batch.size <= 1024 or batch.count == 1 for batch in batches)
    assert any(batch.size > 1024 for batch in batches)
    assert [len(value or b"") for value in values(batches)] == sizes


def test_a_batch_may_be_exactly_as_large_as_allowed() -> None:
    rows = [Row(b"first"), Row(b"second")]
    size = len(oracle_bytes(rows))
    columns = {"value": array(rows, "value", pa.binary())}
    options = {"partitions": 1, "now": NOW, "unkeyed_partition": 0}
    assert len(encode_columns(columns, batch_size=size, **options)) == 1  # type: ignore[arg-type]
    assert len(encode_columns(columns, batch_size=size - 1, **options)) == 2  # type: ignore[arg-type]


def test_a_record_may_be_exactly_as_large_as_allowed() -> None:
    row = Row(bytes(1000), b"key", (("a", b"b"),))
    size = len(oracle_bytes([row]))
    columns = table([Row(b"small"), row])
    encode_columns(columns, partitions=1, batch_size=2000, now=NOW, unkeyed_partition=0, max_record_size=size)
    with pytest.raises(ValueError, match=rf"^row 1 takes {size} bytes, more than max_request_size="):
        encode_columns(
            columns, partitions=1, batch_size=2000, now=NOW, unkeyed_partition=0, max_record_size=size - 1
        )


@pytest.mark.parametrize("size", [63, 64, 8191, 8192, 2**20 - 1, 2**20])
def test_lengths_around_the_edges_of_varints_are_right(size: int) -> None:
    rows = [Row(bytes(size), bytes(size), (("k" * size, bytes(size)),))]
    assert_encodes_to(table(rows), rows, batch_size=100)


def test_many_records_in_one_batch_are_numbered_right() -> None:
    count = 20_000
    (batch,) = encode_columns(
        {"value": pa.nulls(count)}, partitions=1, batch_size=2**20, now=NOW, unkeyed_partition=0
    )
    assert bytes(batch) == oracle_bytes([Row(None)] * count)


def test_times_at_both_ends_of_the_range_come_back() -> None:
    times = [2**63 - 1, 0, NOW, 1, 2**63 - 1]
    (batch,) = encode_columns(
        {"value": pa.nulls(5), "timestamp": pa.array(times)},
        partitions=1,
        batch_size=1000,
        now=NOW,
        unkeyed_partition=0,
    )
    assert [record.timestamp for record in decoded(batch).records] == times


def test_keys_may_be_ignored() -> None:
    columns = {"key": pa.array([b"a", None, b"c", b"d"]), "value": pa.array([b"1", b"2", b"3", b"4"])}
    batches = encode_columns(
        columns, partitions=16, batch_size=1000, now=NOW, unkeyed_partition=11, ignore_keys=True
    )
    assert [(batch.partition, batch.count) for batch in batches] == [(11, 4)]
    assert [record.key for record in decoded(batches[0]).records] == [b"a", None, b"c", b"d"]


def test_partitions_that_are_named_count_although_keys_are_ignored() -> None:
    columns = {
        "key": pa.array([b"a", b"b", b"c"]),
        "value": pa.array([b"1", b"2", b"3"]),
        "partition": pa.array([3, None, 5]),
    }
    batches = encode_columns(
        columns, partitions=16, batch_size=1000, now=NOW, unkeyed_partition=11, ignore_keys=True
    )
    assert [batch.partition for batch in batches] == [3, 11, 5]


@pytest.mark.parametrize("key", [b"a", None])
def test_where_every_row_has_to_name_its_partition_one_that_does_not_is_an_error(key: bytes | None) -> None:
    columns = {
        "key": pa.array([b"a", key], pa.binary()),
        "value": pa.array([b"1", b"2"]),
        "partition": pa.array([3, None]),
    }
    with pytest.raises(ValueError, match="row 1 names no partition, keys are ignored"):
        encode_columns(columns, partitions=16, batch_size=1000, now=NOW, ignore_keys=True)


@pytest.mark.parametrize(("unit", "cell", "told"), [("ms", -1, -1), ("us", -1, -1), ("s", -7, -7000)])
def test_a_time_before_1970_is_refused(unit: str, cell: int, told: int) -> None:
    times = pa.array([0, cell], pa.int64()).cast(pa.timestamp(unit))
    with pytest.raises(ValueError, match=rf"row 1 has a timestamp before 1970 \({told} ms\)"):
        encode_columns(
            {"value": pa.array([b"1", b"2"]), "timestamp": times},
            partitions=1,
            batch_size=1000,
            now=NOW,
            unkeyed_partition=0,
        )
