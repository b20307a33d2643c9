"""Where columns meet C: what is refused and how it is told, what is given back, and who may run meanwhile."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from ottla._native.encode import Rows, encode_columns
from tests.native.encode_support import (
    HEADERS,
    NOW,
    PARTITIONS,
    SOME_ROWS,
    everything_given_back,
    table,
    values,
)
from tests.native.test_border import another_thread_ran, needs_gil

VALUE = pa.array([b"x", b"y"])


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        (
            {"value": pa.array([1, 2])},
            TypeError,
            "column 'value' is of type int64, but must be binary or utf8",
        ),
        ({"value": pa.array([1.5, 2])}, TypeError, "column 'value' is of type float64"),
        (
            {"value": pa.array([1, 2]).dictionary_encode()},
            TypeError,
            "column 'value' is of type dictionary<int64>, but must be binary or utf8 .*: cast it",
        ),
        (
            {"value": VALUE, "partition": pa.array([1, 2]).dictionary_encode()},
            TypeError,
            "column 'partition' is of type dictionary<int64>",
        ),
        (
            {"value": pa.array([b"ab", b"cd"], pa.binary(2))},
            TypeError,
            "column 'value' is of type fixed_size_binary",
        ),
        ({"value": VALUE, "key": pa.array([True, False])}, TypeError, "column 'key' is of type bool"),
        (
            {"value": VALUE, "key": pa.array([1, 2]).cast(pa.timestamp("us", "UTC"))},
            TypeError,
            r"column 'key' is of type timestamp\[us\], but",
        ),
        ({"value": pa.array([None, None], pa.month_day_nano_interval())}, TypeError, "is of type 'tin' "),
        (
            {"value": VALUE, "timestamp": pa.array([1, 2], pa.int32())},
            TypeError,
            r"column 'timestamp' is of type int32, but must be int64 \(milliseconds\) or a timestamp",
        ),
        (
            {"value": VALUE, "timestamp": pa.array([1, 2], pa.date32())},
            TypeError,
            "'timestamp' is of type date32",
        ),
        (
            {"value": VALUE, "partition": pa.array([1, 2], pa.uint32())},
            TypeError,
            "column 'partition' is of type uint32, but must be int8, int16, int32 or int64",
        ),
        (
            {"value": VALUE, "headers": pa.array(["a", "b"])},
            TypeError,
            "column 'headers' is of type utf8, but must be a list of struct<key: utf8, value: binary>",
        ),
        (
            {"value": VALUE, "headers": pa.array([["a"], None])},
            TypeError,
            "column 'headers' is of type list<item: utf8>|column 'headers' is of type list<element: utf8>",
        ),
        (
            {"value": VALUE, "headers": pa.array([[{"name": "a", "value": b""}], None])},
            TypeError,
            "list<.*: struct<name: utf8, value: binary>>",
        ),
        (
            {"value": VALUE, "headers": pa.array([[{"key": b"a", "value": b""}], None])},
            TypeError,
            "list<.*: struct<key: binary, value: binary>>",
        ),
        ({"value": [b"x", b"y"]}, TypeError, "column 'value' must be an Arrow array .* not list"),
        ({"value": VALUE, "key": None}, TypeError, "column 'key' must be an Arrow array .* not NoneType"),
        ([b"x"], TypeError, "columns must be a mapping of names to Arrow arrays, .* not list"),
        (VALUE, TypeError, "columns must be an Arrow array of structs, not of type binary"),
        (
            {"value": VALUE, "topic": VALUE, "offset": VALUE},
            ValueError,
            "unknown columns 'topic', 'offset': known are key, value, headers, timestamp, partition",
        ),
        (pa.table({"value": VALUE, "Key": VALUE}), ValueError, "unknown columns 'Key'"),
        ({"key": VALUE}, ValueError, "there is no column 'value', only 'key'"),
        ({}, ValueError, "there is no column 'value', only nothing"),
        (pa.table([VALUE, VALUE], names=["value", "value"]), ValueError, "a column is there twice"),
        (
            {"value": VALUE, "key": VALUE[1:]},
            ValueError,
            "columns differ in their number of rows: 'value' has 2, 'key' has 1",
        ),
        (
            {"value": VALUE, "partition": pa.array([0, 7])},
            ValueError,
            "no partition 7 of topic .*, which has partitions 0 to 6. In the table it is row 1",
        ),
        (
            {"value": VALUE, "partition": pa.array([0, -7])},
            ValueError,
            "row 1 is for partition -7, and there are none below 0; null is for a row",
        ),
        ({"value": VALUE, "key": pa.array([b"k", None])}, ValueError, "row 1 has neither partition nor key"),
        (
            {
                "value": VALUE,
                "key": VALUE,
                "headers": pa.array([[], [{"key": "a", "value": b""}, None]], HEADERS),
            },
            ValueError,
            "row 1 has a null instead of header 1",
        ),
        (
            {"value": VALUE, "key": VALUE, "headers": pa.array([[], [{"key": None, "value": b""}]], HEADERS)},
            ValueError,
            "row 1 has no key for header 0; only the value of a header may be null",
        ),
        (
            {"value": VALUE, "key": VALUE, "timestamp": pa.array([0, 2**62]).cast(pa.timestamp("s"))},
            ValueError,
            "row 1 has a timestamp that does not fit",
        ),
        (
            pa.array([{"value": b"x", "key": b"k"}, None]),
            ValueError,
            "row 1 is null as a whole; a tombstone is a row whose value is null",
        ),
    ],
)
def test_what_is_wrong_is_named(columns: Any, error: type[Exception], message: str) -> None:
    with everything_given_back(), pytest.raises(error, match=message):
        encode_columns(columns, partitions=7, batch_size=1000, now=NOW)
    with everything_given_back(), pytest.raises(error, match=message):
        Rows(columns).slices(partitions=7, most_bytes=1000)


def test_rows_are_counted_across_chunks_in_errors() -> None:
    column = pa.chunked_array([[b"a", b"b"], [b"c"], [], [b"d", None]], pa.binary())
    with pytest.raises(ValueError, match=r"^row 4 has neither"):
        encode_columns({"value": column, "key": column}, partitions=1, batch_size=1000, now=NOW)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("partitions", 0, "partitions must be at least 1, not 0"),
        ("batch_size", 61, "batch_size must be from 62 to 2147483647 bytes, not 61"),
        ("batch_size", 2**31, "batch_size must be"),
        ("max_record_size", 0, "max_record_size must be from 62"),
        ("unkeyed_partition", 4, "unkeyed_partition must be from 0 to 3, not 4"),
        ("unkeyed_partition", -1, "unkeyed_partition must be from 0 to 3, not -1"),
    ],
)
def test_options_out_of_range_are_named(option: str, value: int, message: str) -> None:
    options: dict[str, Any] = {"partitions": 4, "batch_size": 1000, "now": NOW, option: value}
    with pytest.raises(ValueError, match=message):
        encode_columns({"value": VALUE}, **options)


class FailingStream:
    """Exports one chunk, then an error."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        def batches() -> Any:
            yield pa.record_batch({"value": VALUE})
            raise OSError("the disk is gone")

        schema = pa.schema([("value", pa.binary())])
        return pa.RecordBatchReader.from_batches(schema, batches()).__arrow_c_stream__()


def test_a_stream_that_fails_says_why() -> None:
    with (
        everything_given_back(),
        pytest.raises(OSError, match=r"the Arrow stream failed: .*the disk is gone"),
    ):
        encode_columns(FailingStream(), partitions=1, batch_size=1000, now=NOW)


def exported(kind: str, data: bytearray) -> Any:
    offsets = pa.array([0, 1, 2, 3], pa.int32()).buffers()[1]
    column = pa.Array.from_buffers(pa.binary(), 3, [None, offsets, pa.py_buffer(data)])
    return {
        "array": {"value": column},
        "stream": {"value": pa.chunked_array([column, column[1:]])},
        "struct": pa.record_batch({"value": column}),
        "table": pa.table({"value": column}),
    }[kind]


@pytest.mark.parametrize("kind", ["array", "stream", "struct", "table"])
def test_the_arrays_are_given_back(kind: str) -> None:
    data = bytearray(b"abc")
    columns = exported(kind, data)
    batches = encode_columns(columns, partitions=1, batch_size=1000, now=NOW, unkeyed_partition=0)
    del columns
    data.append(0)  # raises BufferError while somebody holds the buffer
    assert values(batches)[:3] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("kind", ["array", "stream", "struct", "table"])
def test_the_arrays_are_given_back_after_an_error(kind: str) -> None:
    data = bytearray(b"abc")
    columns = exported(kind, data)
    with pytest.raises(ValueError, match="neither partition nor key"):
        encode_columns(columns, partitions=1, batch_size=1000, now=NOW)
    del columns
    data.append(0)


def test_the_memory_goes_back_to_the_pool() -> None:
    with everything_given_back():
        batches = encode_columns(
            table(SOME_ROWS), partitions=PARTITIONS, batch_size=300, now=NOW, unkeyed_partition=0, rows=True
        )
        kept = batches[3]
        data, rows = bytes(kept), list(kept.rows)
        view = memoryview(kept)
        del batches
        assert bytes(kept) == bytes(view) == data
        assert list(kept.rows) == rows
        del kept
        assert bytes(view) == data  # the view alone keeps the batch
        del view


@needs_gil
def test_others_can_run_while_many_rows_are_encoded() -> None:
    columns = {"value": pa.array([b"x" * 100] * 100_000)}
    assert another_thread_ran(
        lambda: encode_columns(columns, partitions=1, batch_size=2**20, now=NOW, unkeyed_partition=0)
    )


@needs_gil
def test_others_can_run_while_large_rows_are_encoded() -> None:
    columns = {"value": pa.array([bytes(2**20)] * 8)}
    assert another_thread_ran(
        lambda: encode_columns(columns, partitions=1, batch_size=2**20, now=NOW, unkeyed_partition=0)
    )


class Exported:
    """Exports the same capsules again and again; pyarrow itself lets other threads run while it makes some."""

    def __init__(self, column: pa.Array) -> None:
        self.capsules = column.__arrow_c_array__()

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self.capsules  # type: ignore[no-any-return]


@needs_gil
def test_the_gil_is_kept_for_a_few_rows() -> None:
    columns = {"value": Exported(pa.array([b"x" * 100] * 100))}
    assert not another_thread_ran(
        lambda: encode_columns(columns, partitions=1, batch_size=2**20, now=NOW, unkeyed_partition=0)
    )
