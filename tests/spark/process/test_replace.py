"""replace_kafka: jobs that say format("kafka") run on Ottla, in its session and in no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

import ottla
from ottla.broker import Cluster
from ottla.spark import replace_kafka, restore_kafka

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC, COPY = "orders", "copies"


@pytest.fixture
def replaced(spark: SparkSession) -> Iterator[SparkSession]:
    replace_kafka(spark)
    yield spark
    restore_kafka(spark)


@pytest.fixture
def servers(kafka: Cluster) -> dict[str, str]:
    with ottla.Client(kafka.bootstrap) as client:
        for topic in (TOPIC, COPY):
            client.admin.create_topic(topic, partitions=1)
        for value in (b"a", b"b", b"a"):
            client.produce(TOPIC, value)
        client.flush()
    return {"kafka.bootstrap.servers": kafka.bootstrap}


def written(kafka: Cluster) -> list[str]:
    with ottla.Client(kafka.bootstrap) as client:
        records = client.consume(COPY, start="earliest", stop="latest")
        return sorted((record.value or b"").decode() for record in records)


def stream(spark: SparkSession, servers: dict[str, str]) -> DataFrame:
    options = {**servers, "subscribe": TOPIC, "startingOffsets": "earliest"}
    return (
        spark.readStream.format("kafka").options(**options).load().selectExpr("cast(value as string) value")
    )


def test_kafka_is_not_ours_before_it_is_replaced_nor_in_other_sessions(spark: SparkSession) -> None:
    others = spark.newSession()
    for session in (spark, others):
        with pytest.raises(AnalysisException, match="Failed to find data source: kafka"):
            session.read.format("kafka").load()
    replace_kafka(spark)
    with pytest.raises(AnalysisException, match="Failed to find data source: kafka"):
        others.read.format("kafka").load()
    restore_kafka(spark)
    with pytest.raises(AnalysisException, match="Failed to find data source: kafka"):
        spark.read.format("kafka").load()


def test_it_says_so_once(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    try:
        replace_kafka(spark)
        replace_kafka(spark)
    finally:
        restore_kafka(spark)
    assert [record.getMessage() for record in caplog.records if record.name == "ottla.spark"] == [
        'format("kafka") of this session is read and written by Ottla from now on'
    ]


def test_other_formats_are_what_they_were(replaced: SparkSession, tmp_path: Path) -> None:
    target = str(tmp_path / "rows")
    replaced.range(3).write.format("kafka").format("json").save(target)
    assert replaced.read.load(target, format="json").count() == 3
    with pytest.raises(AnalysisException, match="already exists"):
        replaced.range(3).write.json(target)
    replaced.range(2).write.save(target, format="json", mode="overwrite")
    assert replaced.read.format("json").load(target).count() == 2


def test_a_batch_is_read_and_written_without_a_mode(
    replaced: SparkSession, servers: dict[str, str], kafka: Cluster
) -> None:
    rows = replaced.read.load(format="KAFKA", subscribe=TOPIC, **servers).select("value")
    assert sorted(bytes(row.value) for row in rows.collect()) == [b"a", b"a", b"b"]
    rows.write.format("kafka").options(topic=COPY, **servers).save()
    rows.limit(1).write.save(format="kafka", mode="errorIfExists", topic=COPY, **servers)
    assert written(kafka) == ["a", "a", "a", "b"]


def test_a_mode_that_would_do_something_else_is_still_refused(
    replaced: SparkSession, servers: dict[str, str], kafka: Cluster
) -> None:
    rows = replaced.sql("select 'x' as value")
    for mode, refusal in (("ignore", "Ignore"), ("overwrite", "Save mode Overwrite not allowed for Kafka")):
        with pytest.raises(AnalysisException, match=refusal):
            rows.write.mode(mode).format("kafka").options(topic=COPY, **servers).save()
    assert written(kafka) == []


def test_arguments_can_be_given_by_the_names_that_spark_has_for_them(
    replaced: SparkSession, servers: dict[str, str], kafka: Cluster
) -> None:
    rows = replaced.sql("select 'x' as value")
    rows.write.format(source="kafka").mode(saveMode="append").options(topic=COPY, **servers).save()
    assert written(kafka) == ["x"]
    stream(replaced, servers).writeStream.outputMode(outputMode="append")


def test_a_stream_is_read_and_written(
    replaced: SparkSession, servers: dict[str, str], kafka: Cluster, tmp_path: Path
) -> None:
    writer = stream(replaced, servers).writeStream.trigger(availableNow=True)
    query = writer.start(format="kafka", topic=COPY, checkpointLocation=str(tmp_path), **servers)
    assert query.awaitTermination(600)
    assert written(kafka) == ["a", "a", "b"]


def test_totals_in_update_mode_which_python_sinks_lack_are_written(
    replaced: SparkSession, servers: dict[str, str], kafka: Cluster, tmp_path: Path
) -> None:
    totals = stream(replaced, servers).groupBy("value").count()
    rows = totals.selectExpr("value as key", "concat(value, '=', count) as value")
    writer = rows.writeStream.format("kafka").outputMode("update").options(**servers).option("topic", COPY)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(600)
    assert written(kafka) == ["a=2", "b=1"]


def test_a_function_that_comes_after_the_format_gets_the_rows_also_in_update_mode(
    replaced: SparkSession, servers: dict[str, str], kafka: Cluster, tmp_path: Path
) -> None:
    seen = []
    writer = stream(replaced, servers).writeStream.format("kafka").outputMode("update").options(**servers)
    writer = writer.option("topic", COPY).foreachBatch(lambda batch, number: seen.append(batch.count()))
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(600)
    assert seen == [3]
    assert written(kafka) == []


def test_batches_of_a_stream_are_written_by_the_session_that_spark_cloned_for_it(
    replaced: SparkSession, servers: dict[str, str], kafka: Cluster, tmp_path: Path
) -> None:
    def write(batch: DataFrame, batch_id: int) -> None:
        batch.write.format("kafka").options(topic=COPY, **servers).save()

    writer = stream(replaced, servers).writeStream.foreachBatch(write)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(600)
    assert written(kafka) == ["a", "a", "b"]
