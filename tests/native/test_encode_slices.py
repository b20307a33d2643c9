"""`Rows`: a table that is read once and encoded in slices, cut by what its rows take."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla._native.accumulator import Accumulator
from ottla._native.encode import Rows, encode_columns
from ottla.errors import RecordTooLargeError
from tests.native.encode_support import NOW, PARTITIONS, Row, everything_given_back, expected_batches, table

sizes = st.integers(min_value=0, max_value=40) | st.sampled_from([500, 3000])
rows_of_all_sizes = st.lists(
    st.builds(
        Row,
        sizes.map(bytes),
        st.none() | st.binary(max_size=10),
        st.none() | sizes.map(lambda size: (("h", bytes(size)),)),
        st.none() | st.integers(min_value=0, max_value=2**40),
    ),
    max_size=60,
)


@settings(deadline=None)
@given(
    rows=rows_of_all_sizes,
    encoded=st.booleans(),
    most_bytes=st.integers(min_value=1, max_value=4000),
    most_rows=st.none() | st.integers(min_value=1, max_value=9),
    batch_size=st.sampled_from([62, 300, 100_000]),
    cut=st.integers(min_value=0, max_value=60),
)
def test_slices_have_every_row_once_in_order_and_what_they_take_is_bounded(
    rows: list[Row], encoded: bool, most_bytes: int, most_rows: int | None, batch_size: int, cut: int
) -> None:
    kind = pa.dictionary(pa.int8(), pa.binary()) if encoded else pa.binary()
    whole = table(rows, value=kind)
    chunks = pa.concat_tables([whole.slice(0, cut), whole.slice(cut)])
    read = Rows(chunks)
    assert len(read) == len(rows)
    slices = read.slices(
        partitions=PARTITIONS, most_bytes=most_bytes, most_rows=most_rows, unkeyed_partition=2
    )
    assert [first for first, _, _ in slices] == [sum(n for _, n, _ in slices[:i]) for i in range(len(slices))]
    assert sum(count for _, count, _ in slices) == len(rows)
    for first, count, size in slices:
        assert count <= (most_rows or count)
        assert size <= most_bytes or count == 1
        batches = encode_columns(
            read,
            partitions=PARTITIONS,
            batch_size=batch_size,
            now=NOW,
            unkeyed_partition=2,
            first=first,
            count=count,
        )
        expected = expected_batches(
            rows[first : first + count], partitions=PARTITIONS, batch_size=batch_size, unkeyed=2
        )
        assert [bytes(batch) for batch in batches] == [batch.data for batch in expected]
        # Each row by itself would be the most: a slice of an eighth of a buffer always fits into the buffer.
        assert sum(len(bytes(batch)) for batch in batches) <= 6 * size


def test_what_is_wrong_with_a_row_is_told_with_its_number_in_the_table() -> None:
    columns = {"value": pa.array([b"x"] * 5), "timestamp": pa.array([1, 1, 1, 1, -1])}
    with pytest.raises(ValueError, match="row 4 has a timestamp before 1970"):
        encode_columns(
            Rows(columns), partitions=1, batch_size=100, now=NOW, unkeyed_partition=0, first=3, count=2
        )


@pytest.mark.parametrize(
    ("limits", "limit"),
    [({"max_record_size": 1000}, "max_request_size"), ({"buffer": 1000}, "buffer_memory")],
)
def test_a_row_that_is_too_large_for_a_request_or_the_buffer_is_found(limits: Any, limit: str) -> None:
    rows = Rows({"value": pa.array([b"x"] * 3000 + [bytes(1000)])})
    with pytest.raises(RecordTooLargeError, match=rf"row 3000 takes 10\d\d bytes, .*{limit}=1000") as raised:
        rows.slices(partitions=1, most_bytes=100, unkeyed_partition=0, **limits)
    assert (raised.value.limit, raised.value.size > 1000) == (limit, True)


def test_the_largest_row_that_is_not_refused_is_encoded() -> None:
    rows = Rows({"value": pa.array([bytes(900)])})
    accumulator = Accumulator(batch_size=500, max_bytes=2000)
    fitting = next(limit for limit in range(900, 1100) if not _refused(rows, limit))
    (batch,) = encode_columns(
        rows,
        partitions=1,
        batch_size=500,
        now=NOW,
        unkeyed_partition=0,
        max_record_size=fitting,
        accumulator=accumulator,
    )
    assert batch.size == fitting


def _refused(rows: Rows, limit: int) -> bool:
    try:
        rows.slices(partitions=1, most_bytes=1, unkeyed_partition=0, max_record_size=limit)
    except RecordTooLargeError:
        return True
    return False


@pytest.mark.parametrize(("first", "count"), [(0, 4), (2, 2), (-1, 1), (1, -1), (4, None)])
def test_rows_that_there_are_not_are_refused(first: int, count: int | None) -> None:
    rows = Rows({"value": pa.array([b"x"] * 3)})
    with pytest.raises(ValueError, match=f"from row {first} on: there are 3"):
        encode_columns(
            rows, partitions=1, batch_size=100, now=NOW, unkeyed_partition=0, first=first, count=count
        )


def test_the_arrays_are_kept_as_long_as_the_rows_are_and_no_longer() -> None:
    data = bytearray(b"abc")
    offsets = pa.array([0, 1, 2, 3], pa.int32()).buffers()[1]
    column = pa.Array.from_buffers(pa.binary(), 3, [None, offsets, pa.py_buffer(data)])
    with everything_given_back():
        rows = Rows({"value": column})
        del column
        with pytest.raises(BufferError):
            data.append(0)
        rows.slices(partitions=1, most_bytes=1, unkeyed_partition=0)
        del rows
        data.append(0)


def test_a_map_is_taken_as_headers() -> None:
    headers = pa.array([[("h", b"1"), ("n", None)], None, []], pa.map_(pa.string(), pa.binary()))
    columns = {"value": pa.array([b"a", b"b", b"c"]), "headers": headers}
    (batch,) = encode_columns(columns, partitions=1, batch_size=1000, now=NOW, unkeyed_partition=0)
    rows = [Row(b"a", None, (("h", b"1"), ("n", None))), Row(b"b"), Row(b"c")]
    (expected,) = expected_batches(rows, partitions=1, batch_size=1000)
    assert bytes(batch) == expected.data


def test_rows_know_whether_all_of_them_name_their_partitions() -> None:
    values = pa.array([b"a", b"b", b"c"])
    named, some = pa.array([0, 1, 0], pa.int32()), pa.array([0, None, 0], pa.int32())
    assert Rows({"value": values, "partition": named}).name_partitions
    assert Rows({"value": values, "partition": named.cast(pa.int64())}).name_partitions
    assert not Rows({"value": values, "partition": some}).name_partitions
    assert not Rows({"value": values}).name_partitions
    chunks = pa.chunked_array([named, some])
    assert not Rows({"value": pa.chunked_array([values, values]), "partition": chunks}).name_partitions


@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize("partitions", [None, pa.int8(), pa.int32(), pa.int64()])
def test_columns_that_cannot_have_nulls_become_the_same_batches_as_those_that_could(
    keys: bool, partitions: pa.DataType | None
) -> None:
    """The usual columns have loops of their own; a validity buffer, even if nothing is null, is unusual."""
    count = 500
    columns = {"value": pa.array([b"v" * (number % 40) for number in range(count)])}
    if keys:
        columns["key"] = pa.array([b"k%d" % (number % 9) for number in range(count)])
    if partitions is not None:
        columns["partition"] = pa.array([number % PARTITIONS for number in range(count)], partitions)
    nullable = {
        name: pa.concat_arrays([pa.nulls(1, column.type), column])[1:] for name, column in columns.items()
    }
    usual, general = Rows(columns), Rows(nullable)
    cut: dict[str, Any] = {"partitions": PARTITIONS, "unkeyed_partition": 1}
    assert usual.slices(most_bytes=2000, **cut) == general.slices(most_bytes=2000, **cut)
    for first, part in ((0, count), (3, 333)):
        batches, expected = (
            encode_columns(rows, batch_size=1000, now=NOW, first=first, count=part, **cut)
            for rows in (usual, general)
        )
        assert [bytes(batch) for batch in batches] == [bytes(batch) for batch in expected]
        assert [batch.partition for batch in batches] == [batch.partition for batch in expected]
