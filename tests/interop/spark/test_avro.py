"""Side by side with Spark's own Avro: columns and rows are those of from_avro, bytes and schemas those of to_avro."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.avro.functions import from_avro, to_avro

from ottla.spark.values import ValueOptions, Where, decoder
from ottla.spark.values.avro_encoder import AvroEncoder, avro_schema_of

# Not for Kafka's sake, but for the jars: one process has one JVM, and this one has Spark's connector in it.
pytestmark = pytest.mark.kafka


def record(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": n, "type": kind} for n, kind in fields.items()],
    }


def logical(kind: str, logical_type: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical_type, **more}


WIDE: Final = record(
    "Wide",
    a="boolean",
    b="int",
    c="long",
    d="float",
    e="double",
    f="bytes",
    g="string",
    h=["null", "string"],
    i=["string", "null"],
    j={"type": "enum", "name": "E", "symbols": ["A", "B"]},
    k={"type": "fixed", "name": "F", "size": 3},
    l={"type": "array", "items": ["null", "int"]},
    m={"type": "map", "values": record("M", x="int")},
    n=record("N", x="long", y=["null", record("O", z="string")]),
    o=["null", "N"],
    p=["int", "long"],
    q=["null", "float", "double"],
    r=["int", "string", "null"],
    s=["string"],
    t=logical("int", "date"),
    u=logical("long", "timestamp-millis"),
    v=logical("long", "timestamp-micros"),
    w=logical("long", "local-timestamp-micros"),
    x=logical("bytes", "decimal", precision=12, scale=3),
    y=logical("fixed", "decimal", name="G", size=9, precision=20, scale=0),
    z=logical("string", "uuid"),
    aa=logical("int", "time-millis"),
    ab={"type": "array", "items": {"type": "array", "items": logical("long", "local-timestamp-millis")}},
)
AT: Final = datetime(2026, 5, 1, 12, 30, 15, 250_000, UTC)
FULL: Final[dict[str, Any]] = {
    "a": True, "b": -5, "c": 2**60, "d": 1.5, "e": -2.25, "f": b"\x00\xff", "g": "é😀", "h": "h", "i": "i", "j": "B",
    "k": b"abc", "l": [1, None, -3], "m": {"k": {"x": 1}}, "n": {"x": 7, "y": {"z": "z"}}, "o": {"x": 8, "y": None},
    "p": 9, "q": 0.5, "r": "r", "s": "s", "t": date(2026, 5, 1), "u": AT, "v": AT.replace(microsecond=1),
    "w": AT.replace(tzinfo=None), "x": Decimal("-123456789.125"), "y": Decimal(-(10**19)),
    "z": "123e4567-e89b-12d3-a456-426614174000", "aa": 86_399_999, "ab": [[AT.replace(tzinfo=None)], []],
}  # fmt: skip
EMPTY: Final = {
    **FULL, "h": None, "i": None, "l": [], "m": {}, "n": {"x": 0, "y": None}, "o": None, "q": None, "r": None,
    "t": date(1582, 10, 4), "u": AT.replace(year=1500), "ab": [],
}  # fmt: skip


def datums(schema: Any, *rows: Any) -> list[bytes]:
    parsed = fastavro.parse_schema(schema)
    found = []
    for row in rows:
        out = io.BytesIO()
        # Of a time of day fastavro makes one by itself.
        fastavro.schemaless_writer(out, parsed, row)
        found.append(out.getvalue())
    return found


def ours(schema: Any, values: list[bytes | None]) -> pa.StructArray:
    options = ValueOptions.parse(
        {"value.format": "avro", "value.schema": json.dumps(schema), "value.nested": "true"}
    )
    assert options is not None
    where = Where("t", 0, pa.array(range(len(values))))
    columns, keep = decoder(options, ["value"])(pa.array(values, pa.binary()), where)
    assert keep is None
    return columns[0]


def test_columns_and_rows_are_those_of_from_avro(both_connectors: SparkSession) -> None:
    values: list[bytes | None] = [*datums(WIDE, FULL, EMPTY), None]
    frame = both_connectors.createDataFrame([(value,) for value in values], "v binary").coalesce(1)
    found = frame.select(from_avro("v", json.dumps(WIDE), {"mode": "PERMISSIVE"}).alias("v")).toArrow()
    theirs, here = found["v"].combine_chunks(), ours(WIDE, values)
    assert here.type == theirs.type
    assert here.to_pylist(maps_as_pydicts="strict") == theirs.to_pylist(maps_as_pydicts="strict")


COLUMNS: Final = (
    "a boolean, b tinyint, c smallint, d int not null, e bigint, f float, g double, h decimal(10,2), "
    "i decimal(38,10), j string, k binary, l date, m timestamp, n timestamp_ntz, o array<int>, p map<string,int>, "
    "q struct<x:int,y:struct<z:string>>, r array<struct<x:int>>, s map<string,struct<x:decimal(4,1)>>"
)
ROW: Final = (
    True, -1, 300, 5, 2**40, 1.5, -2.5, Decimal("-1.25"), Decimal("123.5"), "é", b"\x00", date(2026, 5, 1),
    datetime(2026, 5, 1, 12, 0, 0, 5), datetime(1500, 5, 1), [1, None], {"k": None}, (1, ("z",)), [(1,), None],
    {"k": (Decimal("1.5"),)},
)  # fmt: skip


def test_values_and_schemas_are_those_of_to_avro(both_connectors: SparkSession) -> None:
    nulls = tuple(5 if number == 3 else None for number in range(len(ROW)))
    frame = both_connectors.createDataFrame([ROW, nulls], COLUMNS).coalesce(1)
    theirs = [bytes(row[0]) for row in frame.select(to_avro(f.struct("*"))).collect()]
    encoder = AvroEncoder(frame.schema.fields)
    assert encoder(frame.toArrow().to_struct_array().combine_chunks()).to_pylist() == theirs
    assert json.loads(avro_schema_of(frame.schema)) == _schema_of(both_connectors, frame.schema)
    # A schema of one's own: what may be null is in another order, and a timestamp has milliseconds.
    own = record("Own", m=["null", logical("long", "timestamp-millis")], d="int", j=["null", "string"])
    chosen = frame.select("d", "m", "j")
    given = [bytes(row[0]) for row in chosen.select(to_avro(f.struct("*"), json.dumps(own))).collect()]
    encoder = AvroEncoder(chosen.schema.fields, json.dumps(own))
    assert encoder(chosen.toArrow().to_struct_array().combine_chunks()).to_pylist() == given


def _schema_of(spark: SparkSession, struct: t.StructType) -> Any:
    jvm: Any = spark._jvm
    converters = getattr(jvm.org.apache.spark.sql.avro, "SchemaConverters$").__getattr__("MODULE$")
    kind = jvm.org.apache.spark.sql.types.DataType.fromJson(struct.json())
    return json.loads(converters.toAvroType(kind, False, "topLevelRecord", "").toString())
