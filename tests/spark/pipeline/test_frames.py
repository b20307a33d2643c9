"""What of a result becomes key, value and headers of a record; which views there are. Nothing is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from ottla.spark.options.parsing import OptionError
from ottla.spark.pipeline.frames import SourceFrames, sink_frame
from ottla.spark.pipeline.model import Pipeline, TopicSink, TopicSource


def pipeline(**sink: Any) -> Pipeline:
    return Pipeline(
        "p",
        kafka={"bootstrap.servers": "localhost:9092"},
        sources={"orders": TopicSource(topics=("orders",))},
        transform="SELECT * FROM orders",
        sinks={"out": TopicSink(topic="out", **sink)},
        checkpoint=str(Path("/checkpoints")),
    )


@pytest.fixture(scope="module")
def result(spark: SparkSession) -> DataFrame:
    return spark.sql(
        "SELECT 7 AS key, 1.5D AS price, 'pear' AS name, map('a', 1) AS tags, "
        "CAST(NULL AS array<struct<key: string, value: binary>>) AS headers, X'00FF' AS value"
    )


def written(result: DataFrame, **sink: Any) -> DataFrame:
    return sink_frame(pipeline(**sink), "out", result, {"orders": SourceFrames(result)})


def test_a_value_has_all_columns_but_the_key_and_the_headers(result: DataFrame) -> None:
    rows = written(result)
    assert {field.name: field.dataType.simpleString() for field in rows.schema} == {
        "key": "binary",
        "headers": "array<struct<key:string,value:binary>>",
        "value": "struct<price:double,name:string,tags:map<string,int>,value:binary>",
    }
    assert [row["key"] for row in rows.collect()] == [b"7"]


def test_an_expression_makes_the_key_and_columns_are_named(result: DataFrame) -> None:
    rows = written(result, key="name || '!'", columns=("key", "price"))
    [row] = rows.collect()
    assert (row["key"], row["value"].asDict()) == (b"pear!", {"key": 7, "price": 1.5})
    assert written(result, where="price > 2").count() == 0


def test_a_column_may_have_any_name(result: DataFrame) -> None:
    [row] = written(result.selectExpr("price AS `net.price`", "name AS `a``b`")).collect()
    assert row["value"].asDict() == {"net.price": 1.5, "a`b": "pear"}


def test_a_sink_of_bytes_takes_the_column_value_and_a_binary_key_stays(result: DataFrame) -> None:
    [row] = written(result, format="bytes", key="value").collect()
    assert (row["key"], row["value"]) == (b"\x00\xff", b"\x00\xff")
    [row] = written(result, format="string", columns=("price",)).collect()
    assert row["value"] == b"1.5"


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        ({"key": "tags"}, r"sinks\['out'\].key: it is map<string,int>"),
        ({"format": "string", "columns": ("tags",)}, r"the column tags is map<string,int>: use json or avro"),
    ],
)
def test_what_cannot_be_written_is_a_mistake_with_its_key(
    result: DataFrame, sink: dict[str, Any], said: str
) -> None:
    with pytest.raises(OptionError, match=said):
        written(result, **sink)


def test_a_result_without_a_value_is_named_with_what_it_has(result: DataFrame) -> None:
    with pytest.raises(OptionError, match="takes a column named value, and the result has price, name"):
        written(result.select("price", "name"), format="string")
