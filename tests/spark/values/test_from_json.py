"""Side by side with Spark's own from_json: the same bytes, the same rows, the same malformed.

Every input is read as every type, in one query. What is meant to differ is listed, and nothing else may.
"""

from __future__ import annotations

import decimal
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, Row, SparkSession
from pyspark.sql import functions as f

from ottla.spark.values import ValueOptions, Where, decoder

TYPES: Final = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(10,2)", "decimal(38,10)",
    "decimal(5,5)", "string", "binary", "date", "timestamp", "timestamp_ntz", "array<int>", "array<string>",
    "array<array<double>>", "map<string,int>", "map<string,string>", "struct<x:int,y:string>",
    "array<struct<x:int,y:string>>", "map<string,struct<x:int,y:date>>",
)  # fmt: skip

NUMBERS: Final = """0 -0 -0.0 1 127 128 200 -128 -129 256 32767 32768 2147483647 2147483648 -2147483649
9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809 1.0 1.5 1e3
1E+3 1e-3 -1.25e2 01 -01 00 +1 .5 1. - 1e
1e+ 0.1 123456789012345678901234567890 1e400 -1e400 1e-400 NaN Infinity -Infinity +INF INF -INF +Infinity +NaN 0x10
1_0 1f 12345.678 12345.675 12345.665 99999999.994 99999999.995 0.005 0.0049999 -0.005 3.4028236e39 16777217
0.1234567890123456789 1.7976931348623157e308 4.9e-324 9007199254740993 true false null tru nul nulll True""".split()  # noqa: SIM905

STRINGS: Final = (
    "", "a", "1", "1.5", " 1", "1,000.5", "abc", "NaN", "Infinity", "INF", "+INF", "-INF", "true", r"a\nb", r"\u0041",
    r"\ud83d\ude00", r"\ud800", r"\udc00x", r"\x", r"\u12g4", "a\nb", "\t", "\x7f", r"\'", r"\/\b\f\r\t\"\\", "é😀",
    r"\u0000", "aGVsbG8=", "aGVsbG8", "aGVs bG8=", "aGVsbG8==", "!!!!", r"aGVs\nbG8=", "-_-_", "+/+/", "abcd", "ab==",
    "abc=", "a===", r"\u0061bcd", "+1", ".5", "1.", "1e5", "1e", "--1", "1.2.3", "99999999.995", "-", ".", "1-",
)  # fmt: skip

TIMES: Final = """2026-05-01 2026-5-1 2026 2026-05 2026-05-01T12:00:00 2026-05-01x 2026-02-29 2024-02-29 2026-13-01
2026-00-01 2026-01-00 0001-01-01 9999-12-31 10000-01-01 +10000-01-01 -0001-01-01 1582-10-10 19000 02026-05-01
5881580-07-11 5881580-07-12 2026-05-01Z 2026-05-001 2026-005-01 26-05-01 epoch 2026/05/01 0000-01-01 -2026 00123
2026-05-01T12:00:00Z 2026-05-01T12:00:00+02:00 2026-05-01T12:00:00+0200 2026-05-01T12:00:00+02 2026-05-01T12:00:00+2
2026-05-01T12:00:00+2:30 2026-05-01T12:00:00-02:30:15 2026-05-01T12:00:00UTC 2026-05-01T12:00:00GMT+2
2026-05-01T12:00:00UTC+2 2026-05-01T12:00:00UT 2026-05-01T12:00:00z 2026-05-01t12:00:00Z 2026-05-01T12:00:00+18:00
2026-05-01T12:00:00+18:01 2026-05-01T12:00:00.1Z 2026-05-01T12:00:00.123456Z 2026-05-01T12:00:00.1234567891Z
2026-05-01T12:00:00.Z 2026-05-01T12:00:00. 2026-05-01T12:00Z 2026-05-01T12:00 2026-05-01T12 2026-05-01T12Z
2026-05-01T 2026-05-01T1:2:3Z 2026-05-01T24:00:00Z 2026-05-01T23:60:00Z 2026-05-01T23:59:60Z
0001-01-01T00:00:00Z 9999-12-31T23:59:59.999999Z 294247-01-10T04:00:54.775807Z 294247-01-10T04:00:54.775808Z
-2026-05-01T12:00:00Z 2026-05-01T12:00:00-00:00 2026-05-01T12:00:00+05:75 2026-05-01T12:00:00,5Z
2026-05-01T12:00:00Zx 2026-05-01T12:00:00.5+01:00 2026-05-01T12:00:00+1:2 2026-05-01T12:00:00+1:2:3
2026-05-01T12:00:00+010203 20260501T120000Z 2026-05-01T12:00:00+12345 2026-05-01T120:00:00 2026-05-01T012:00:00
2026-05-01T12:00:000 2026-05-01T12:00:00GMT0 2026-05-01T12:00:00+02:03:4 2026-05-01T12:00:00+02:03:04
2026-05-01T12:00:00gmt 2026-05-01T12:00:00GMT+05:30 2026-05-01T12:00:00UT+02:00 2026-05-01T12:00:00+2:03""".split()  # noqa: SIM905

SPACED_TIMES: Final = (
    "2026-05-01 12:00:00Z", "2026-05-01 12:00", " 2026-05-01 ", "2026-05-01 ", r"\t2026-05-01",
    "2026-05-01T12:00:00  Z", "2026-05-01T12:00:00 +02:00", "2026-05-01 +02:00", " 2026-05-01T12:00:00Z ",
    "2026-05-01T12:00:00 GMT", "2026-05-01 12:00:00.5",
)  # fmt: skip

NESTED: Final = (
    "[]", "{}", "[1,2]", "[1,null]", '[1,"a"]', '["a",1,2]', "[[1]]", "[[1,2],[],null]", "[1,2", "[,1]", "[1,]",
    '{"x":1,"y":"b"}', '{"x":"bad","y":"b"}', '{"y":1,"x":2}', '{"x":1,"x":2}', '{"x":"q","x":2}', '{"X":5}',
    '{"x":1', '{"x":1,}', '{"a":1}', '{"a":null}', '{"a":"x","b":2}', '{"":1}', "{a:1}", "{'a':'b'}", '[{"x":1}]',
    '[{"x":1},{"x":"a","y":"q"},{"x":3}]', "[null]", '[{"x":1},2]', '{"a":{"x":1}}',
    '{"a":{"x":"q","y":"2026-05-01"},"b":{"x":4}}', '{"x":1,"z":{"a":[1,{"b":2}]}}',
)  # fmt: skip

# As whole documents, for the columns `v string, k int`.
DOCUMENTS: Final = (
    "", "   ", "\n", "null", "1", '"x"', "true", "[]", '[{"v":"a"}]', "{", "}", "{}", " {} ", '{"v":"a"} ',
    '{"V":"a"}', '{"v":"a","c":{"d":[1,2,{"e":null}]}}', '{"v":"a","c":tru}', '{"v":"a","c":01}', '{"v":"a"',
    '{"v":"a', '{"v":"a",}', '{,"v":"a"}', '{"v" "a"}', '{"v":}', '{"v":"a" "k":1}', "{'v':'a'}", "{v:1}",
    r'{"\u0076":"a"}', '{"v":"a","c":NaN}', '\ufeff{"v":"a"}', "\x00", '{"v":"a",\u00a0"k":1}', '/*c*/{"v":"a"}',
    '{"v"\t:\r\n"a"}', '{"v"\f:"a"}', '{"k":1.5,"v":"kept"}', '{"v":"kept","k":1.5}', '{"k":1.5,"v":"a","c":}',
    '{"c":' + "[" * 999 + "]" * 999 + "}", '{"c":' + "[" * 1000 + "]" * 1000 + "}", '{"c":' + "[" * 100_000,
    '{"":1}', "{null:1}", "{1:1}", '{"v":"a";"k":1}', '{"c":-}', '{"c":1.}', '{"c":.5}', '{"c":-INF}', '{"c":INF}',
    r'{"c":"\ud800"}', r'{"c":"\u12"}', '{"c":1x}', '{"c":truex}', '{"c":"x"y}', '{"c":[1,]}', '{"c":[,]}',
    '{"c":{"x":1,}}', '{"c":{"x"}}', '{"c":[1}]', '{"c":{"x":1]}', '{"c":' + "1" * 1001 + "}", '{"a\nb":1}',
)  # fmt: skip


def fragments() -> list[str]:
    quoted = [f'"{text}"' for text in (*STRINGS, *TIMES, *SPACED_TIMES)]
    return [*NUMBERS, *quoted, *NESTED, "'single'", "'it\\'s'", "1" * 999, "1" * 1001, "0." + "1" * 998]


def differs_on_purpose(kind: str, text: str) -> bool:
    """What docs/spark.md lists."""
    if kind == "tinyint":
        # Jackson takes 128 to 255 for a byte and makes it negative.
        return text in {"128", "200", "255"}
    if kind == "timestamp":
        # Seconds that overflow wrap around in Spark.
        return text in {"9007199254740993", "9223372036854775807", "-9223372036854775808"}
    if kind == "binary":
        # In base64, Jackson lets control characters pass that it refuses in other strings.
        return text == '"\t"'
    if kind == "date":
        # Spark takes a string of digits that is no year for a number of days.
        return text.strip('"').lstrip("+-").isdigit()
    return False


def plain(value: Any) -> Any:
    """Comparable, with floats by their bits."""
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, Row):
        return {name: plain(each) for name, each in value.asDict().items()}
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        # Arrow has maps as lists of pairs; a Row is a tuple too.
        is_map = bool(value) and isinstance(value[0], tuple) and not isinstance(value[0], Row)
        return {k: plain(v) for k, v in value} if is_map else [plain(each) for each in value]
    return value


def ours(schema: str, documents: list[str]) -> list[dict[str, Any]]:
    options = ValueOptions.parse(
        {"value.format": "json", "value.schema": schema, "value.malformed": "column"}
    )
    assert options is not None
    names = [field.name for field in options.fields()]
    values = pa.array([document.encode() for document in documents], pa.binary())
    columns, _ = decoder(options, names)(values, Where("t", 0, pa.array(range(len(documents)))))
    lists = [_numbers(column).to_pylist() for column in columns]
    return [dict(zip(names, map(plain, row), strict=True)) for row in zip(*lists, strict=True)]


def _numbers(column: pa.Array) -> pa.Array:
    """Days and microseconds: Python's own types end with the year 9999."""
    if pa.types.is_date(column.type):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


AS_NUMBER: Final = {
    "date": "unix_date({})",
    "timestamp": "unix_micros({})",
    "timestamp_ntz": "unix_micros(cast({} as timestamp))",
}


def from_json(kind: str) -> tuple[Column, Column]:
    """The value and the corrupt record, each as Python can take it."""
    parsed = f.from_json("j", f"v {kind}, k int, bad string", {"columnNameOfCorruptRecord": "bad"})
    if kind not in AS_NUMBER:
        return parsed["v"], parsed["bad"]
    number = AS_NUMBER[kind].format(f"from_json(j, 'v {kind}, k int').v")
    return f.expr(number), parsed["bad"]


def test_every_input_as_every_type_is_read_as_from_json_reads_it(spark: SparkSession) -> None:
    texts = fragments()
    documents = [f'{{"v":{text},"k":7}}' for text in texts]
    columns = [column for kind in TYPES for column in from_json(kind)]
    frame = spark.createDataFrame([(document,) for document in documents], "j string").coalesce(1)
    rows = frame.select(*columns).collect()
    different = []
    for number, kind in enumerate(TYPES):
        for text, row, here in zip(texts, rows, ours(f"v {kind}, k int", documents), strict=True):
            theirs, corrupt = row[2 * number], row[2 * number + 1]
            expected = written(theirs, text) if kind == "string" else plain(theirs)
            found = _empty_map(kind, here["v"])
            if differs_on_purpose(kind, text):
                continue
            if (corrupt is not None) != (here["_malformed"] is not None):
                different.append((kind, text, "malformed" if corrupt else theirs, here))
            elif corrupt is None and expected != found:
                different.append((kind, text, theirs, here["v"]))
    assert not different, "\n".join(map(repr, different))


def written(theirs: str | None, text: str) -> str | None:
    """Read as a string, a value of another type is its text as it stands, where from_json writes it anew."""
    return theirs if theirs is None or text.startswith(('"', "'")) else text


def _empty_map(kind: str, value: Any) -> Any:
    return {} if kind.startswith("map") and value == [] else value


def test_whole_documents_are_malformed_where_from_json_says_so(spark: SparkSession) -> None:
    schema = "v string, k int"
    frame = spark.createDataFrame([(document,) for document in DOCUMENTS], "j string").coalesce(1)
    options = {"columnNameOfCorruptRecord": "bad"}
    found = (
        frame.select(f.from_json("j", f"{schema}, bad string", options).alias("r")).select("r.*").collect()
    )
    theirs = [(row["v"], row["k"], row["bad"] is not None) for row in found]
    here = [(row["v"], row["k"], row["_malformed"] is not None) for row in ours(schema, list(DOCUMENTS))]
    assert [(d, o) for d, o in zip(DOCUMENTS, here, strict=True)] == list(zip(DOCUMENTS, theirs, strict=True))
