"""Side by side with Spark's own to_json: the same rows, the same bytes, but for doubles that Java writes too long.

Rows are random, and extreme, and every column is compared by itself, in one query.
"""

from __future__ import annotations

import json
import struct
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from ottla._native.json_documents import write_json

INT32, INT64 = 2**31, 2**63
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [
        "",
        '"',
        "\\",
        "\0",
        "\x1f\x7f\x80",
        "/",
        "\u2028\u2029",
        "é😀",
        "\b\f\n\r\t\v",
        "</script>",
        "\ufeff\uffff",
    ]
)
DOUBLES = st.floats() | st.sampled_from(
    [
        0.0,
        -0.0,
        1e7,
        9999999.0,
        1e-3,
        9.99e-4,
        1e23,
        2e23,
        8.41e21,
        2.0**-44,
        5e-324,
        1e-323,
        1.7976931348623157e308,
    ]
)
FLOATS = st.floats(width=32) | st.sampled_from([0.0, -0.0, 1e7, 16777216.0, 2.0**-149, 2.0**-126])
DAYS = st.integers(-INT32, INT32 - 1) | st.integers(-800_000, 800_000)
MOMENTS = st.integers(-INT64, INT64 - 1) | st.integers(-(2**52), 2**52) | st.integers(-3000, 3000)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    unscaled = st.integers(-most, most) | st.integers(-1000, 1000)
    return unscaled.map(lambda number: Decimal(number).scaleb(-scale))


def texts(length: int) -> st.SearchStrategy[list[str | None]]:
    return st.lists(st.none() | TEXT, max_size=length)


def maps(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[str, Any]]]:
    return st.dictionaries(TEXT, st.none() | inner, max_size=3).map(lambda found: list(found.items()))


ARROW_POINT: Final = pa.struct([("x", pa.float64()), ('the "y"\n', pa.string())])
FLAGS: Final = pa.map_(pa.string(), pa.bool_())
DEEP = st.fixed_dictionaries({"inner": st.lists(st.just([("yes", True), ("unknown", None)]), max_size=2)})
POINT = st.fixed_dictionaries({"x": st.none() | DOUBLES, 'the "y"\n': st.none() | TEXT})
COLUMNS: Final[dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]]] = {
    "boolean": (pa.bool_(), st.booleans()),
    "tiny": (pa.int8(), st.integers(-128, 127)),
    "small": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "int": (pa.int32(), st.integers(-INT32, INT32 - 1)),
    "big": (pa.int64(), st.integers(-INT64, INT64 - 1) | st.integers(-1000, 1000)),
    "float": (pa.float32(), FLOATS),
    "double": (pa.float64(), DOUBLES),
    "cents": (pa.float64(), st.integers(-(10**9), 10**9).map(lambda cents: cents / 100)),
    "price": (pa.decimal128(10, 2), decimals(10, 2)),
    "fine": (pa.decimal128(28, 12), decimals(28, 12)),
    "large": (pa.decimal128(28, 0), decimals(28, 0)),
    "small decimal": (pa.decimal128(28, 28), decimals(28, 28)),
    "text": (pa.string(), TEXT),
    "bytes": (pa.binary(), st.binary(max_size=12)),
    "day": (pa.date32(), DAYS),
    "moment": (pa.timestamp("us", "UTC"), MOMENTS),
    "wall clock": (pa.timestamp("us"), MOMENTS),
    "nothing": (pa.null(), st.none()),
    "empty": (pa.struct([]), st.just({})),
    "texts": (pa.list_(pa.string()), texts(4)),
    "lists": (
        pa.list_(pa.list_(pa.int32())),
        st.lists(st.none() | st.lists(st.none() | st.integers(-9, 9)), max_size=3),
    ),
    "point": (ARROW_POINT, POINT),
    "points": (pa.list_(ARROW_POINT), st.lists(st.none() | POINT, max_size=3)),
    "days": (pa.map_(pa.string(), pa.date32()), maps(DAYS)),
    "deep": (pa.map_(pa.string(), pa.struct([("inner", pa.list_(FLAGS))])), maps(DEEP)),
}  # fmt: skip
HAVE_DOUBLES: Final = {"float", "double", "point", "points"}
EXAMPLES: Final = 250


def random_columns() -> pa.RecordBatch:
    rows: list[dict[str, Any]] = []

    @given(st.fixed_dictionaries({name: st.none() | values for name, (_, values) in COLUMNS.items()}))
    @settings(max_examples=EXAMPLES, database=None, deadline=None)
    def collect(row: dict[str, Any]) -> None:
        rows.append(row)

    collect()
    kinds = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])
    return pa.RecordBatch.from_pylist(rows, kinds)


def read_back(text: str, column: str) -> Any:
    """One number is the same however it was written, and a float is read as one."""
    if column == "float":
        return struct.pack("<f", json.loads(text)[column])
    return repr(json.loads(text))


def test_every_type_is_written_as_to_json_writes_it(spark: SparkSession) -> None:
    batch = random_columns()
    assert batch.num_rows >= EXAMPLES
    schema = from_arrow_schema(batch.schema, prefer_timestamp_ntz=True)
    frame = spark.createDataFrame(pa.Table.from_batches([batch]), schema).coalesce(1)
    columns = [f.to_json(f.struct(f.col(f"`{name}`"))).alias(f"{at}") for at, name in enumerate(COLUMNS)]
    theirs = frame.select(*columns, f.to_json(f.struct("*")).alias("all")).collect()
    # Before Java 19, Double.toString writes more digits of some numbers than they need (JDK-4511638).
    (version,) = spark.sql("SELECT java_method('java.lang.Runtime', 'version')").collect()[0]
    is_exact = int(version.split(".")[0]) >= 19
    different = []
    for at, name in enumerate(COLUMNS):
        ours = pa.array(write_json(batch.select([name]))).to_pylist()
        for mine, row in zip(ours, theirs, strict=True):
            text, expected = mine.decode(), row[at]
            if text == expected:
                continue
            is_longer = not is_exact and name in HAVE_DOUBLES and len(text) <= len(expected)
            if is_longer and read_back(text, name) == read_back(expected, name):
                continue
            different.append((name, text, expected))
    assert not different, "\n".join(map(repr, different[:20]))
    whole = pa.array(write_json(batch.drop_columns([*HAVE_DOUBLES]))).to_pylist()
    rest = frame.drop(*HAVE_DOUBLES).select(f.to_json(f.struct("*"))).collect()
    assert [text.decode() for text in whole] == [row[0] for row in rest]
