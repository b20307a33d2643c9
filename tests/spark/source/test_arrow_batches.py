"""Records to batches: the requested columns and no others, under the requested names."""

from __future__ import annotations

import pyarrow as pa

from ottla.spark.options.connector import SourceOptions
from ottla.spark.source.arrow_batches import Gathering, batch_maker
from ottla.spark.source.schema import SourceColumns
from ottla.spark.values import ValueOptions
from ottla.wire.batches import PlainRecord, encode_batch
from ottla.wire.records import Records, decode_fetch
from tests.spark.reading import source_schema


def fetched(*values: bytes | None) -> Records:
    records: list[PlainRecord] = [
        (number, 1_700_000_000_000 + number, b"k%d" % number, value, [])
        for number, value in enumerate(values)
    ]
    return decode_fetch(encode_batch(records), "orders", 3)


def test_only_what_is_wanted_is_made_in_the_order_in_which_it_is_wanted() -> None:
    make = batch_maker(SourceColumns(("offset", "key"), ("offset", "key")))
    batch = make(fetched(b"a", b"b", b"c"), 1, 2)
    assert batch.schema == pa.schema([("offset", pa.int64()), ("key", pa.binary())])
    assert batch.to_pylist() == [{"offset": 1, "key": b"k1"}, {"offset": 2, "key": b"k2"}]


def test_a_column_has_the_name_that_the_schema_gives_it() -> None:
    make = batch_maker(SourceColumns(("VALUE",), ("value",)))
    assert make(fetched(b"a"), 0, 1).to_pylist() == [{"VALUE": b"a"}]


def test_rows_that_are_dropped_are_dropped_from_all_columns() -> None:
    value = ValueOptions.parse(
        {"value.format": "json", "value.schema": "id bigint", "value.malformed": "drop"}
    )
    make = batch_maker(SourceColumns(("key", "id"), ("key", None), value))
    batch = make(fetched(b'{"id": 1}', b"{", b'{"id": 3}'), 0, 3)
    assert batch.to_pylist() == [{"key": b"k0", "id": 1}, {"key": b"k2", "id": 3}]


def test_columns_of_the_value_come_in_the_order_of_the_schema() -> None:
    given = {"value.format": "json", "value.schema": "a bigint, b string"}
    parsed = SourceOptions.parse(
        {"kafka.bootstrap.servers": "localhost:1", "subscribe": "orders", **given}, streaming=False
    )
    make = batch_maker(SourceColumns.of(source_schema(parsed), parsed))
    (row,) = make(fetched(b'{"b": "x", "a": 1}'), 0, 1).to_pylist()
    assert list(row)[:4] == ["key", "a", "b", "topic"]
    assert (row["a"], row["b"], row["topic"], row["partition"]) == (1, "x", "orders", 3)


def _numbers(first: int, count: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(first, first + count), pa.int64())})


def test_small_batches_are_put_together_in_their_order_up_to_a_number_of_rows() -> None:
    gathering = Gathering(most_rows=10, most_bytes=1_000_000)
    made = [done for first in range(0, 24, 4) for done in gathering.add(_numbers(first, 4))]
    made += gathering.rest()
    assert [batch.num_rows for batch in made] == [8, 8, 8]
    assert pa.Table.from_batches(made).column("n").to_pylist() == list(range(24))
    assert list(gathering.rest()) == []


def test_small_batches_are_put_together_up_to_a_number_of_bytes() -> None:
    gathering = Gathering(most_rows=1_000, most_bytes=80)
    made = [done for first in range(0, 24, 4) for done in gathering.add(_numbers(first, 4))]
    assert [batch.num_rows for batch in made] == [8, 8]
    assert [batch.num_rows for batch in gathering.rest()] == [8]


def test_a_batch_that_is_large_already_is_not_copied() -> None:
    gathering = Gathering(most_rows=10, most_bytes=1_000_000)
    large = _numbers(0, 10)
    assert list(gathering.add(large)) == []
    (done,) = gathering.add(_numbers(10, 1))
    assert done is large


def test_batches_without_rows_are_left_out() -> None:
    gathering = Gathering(most_rows=10, most_bytes=1_000_000)
    assert list(gathering.add(_numbers(0, 0))) == []
    assert list(gathering.rest()) == []
