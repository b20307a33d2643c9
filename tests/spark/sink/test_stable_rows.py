"""By chance or not: which rows the tasks of a query have, as its plan says."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from ottla.spark.sink.stable_rows import fix_tasks, what_is_unstable

_ADAPTIVE = "spark.sql.adaptive.streaming.stateless.enabled"


@pytest.fixture
def lines(spark: SparkSession, tmp_path: Path) -> DataFrame:
    return spark.readStream.text(str(tmp_path))


def test_queries_that_look_at_their_records_only_are_stable(lines: DataFrame) -> None:
    for query in (
        lines,
        lines.where("value > 'a'").repartition("value"),
        lines.repartition(3),
        lines.groupBy("value").count(),
        lines.dropDuplicates(["value"]),
        lines.withColumn("read_at", sql.current_timestamp()).where("read_at > '2020-01-01'"),
        lines.select(sql.explode(sql.split("value", " "))),
    ):
        assert what_is_unstable(query) is None


def most_by_value(lines: DataFrame) -> DataFrame:
    return lines.withColumn("random", sql.rand()).groupBy("value").agg(sql.max("random").alias("most"))


def test_random_values_in_a_column_do_no_harm(lines: DataFrame) -> None:
    with_id = lines.withColumn("id", sql.expr("uuid()"))
    assert what_is_unstable(with_id.where("value > 'a'")) is None
    assert what_is_unstable(most_by_value(lines)) is None


def test_rows_that_are_chosen_by_a_random_value_are_found(lines: DataFrame) -> None:
    with_id = lines.withColumn("id", sql.expr("uuid()")).select(sql.concat("id", "value").alias("value"))
    for query, step in (
        (lines.where(sql.rand() < 0.5), "Filter by (rand("),
        (lines.sample(0.5), "a sample of the rows"),
        (with_id.repartition("value"), "RepartitionByExpression by value"),
        (with_id.groupBy("value").count(), "Aggregate by value"),
        (most_by_value(lines).where("most > 1"), "Filter by (most >"),
    ):
        found = what_is_unstable(query)
        assert found is not None
        assert found.startswith(step), found


def test_adaptive_execution_is_off_for_streams_from_then_on(spark: SparkSession, lines: DataFrame) -> None:
    session = spark.newSession()
    assert session.conf.get(_ADAPTIVE) == "true"
    fix_tasks(session)
    fix_tasks(session)
    assert session.conf.get(_ADAPTIVE) == "false"
