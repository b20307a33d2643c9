"""What a batch query plans and reads."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition

from ottla.broker import Cluster
from ottla.spark.options.connector import SourceOptions
from ottla.spark.options.parsing import OptionError
from ottla.spark.source.batch_reader import KafkaBatchReader
from ottla.spark.source.packing import RangePartition
from tests.spark.reading import source_schema


@pytest.fixture
def topic(kafka: Cluster) -> str:
    """Ten records in partition 0, four in partition 1, none in partition 2."""
    kafka.create_topic("t", 3)
    kafka.seed("t", [b"%d" % number for number in range(10)])
    kafka.seed("t", [b"%d" % number for number in range(4)], partition=1)
    return "t"


def _reader(kafka: Cluster, **options: str) -> KafkaBatchReader:
    given = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": "t", **options}
    parsed = SourceOptions.parse(given, streaming=False)
    return KafkaBatchReader(parsed, source_schema(parsed))


def _planned(reader: KafkaBatchReader) -> list[list[tuple[int, int, int]]]:
    """For each task, what it reads."""
    partitions = reader.partitions()
    assert isinstance(partitions, list), "Spark refuses anything else"
    tasks = [partition.ranges for partition in partitions if isinstance(partition, RangePartition)]
    return [[(one.partition, one.start, one.end) for one in ranges] for ranges in tasks]


@pytest.mark.usefixtures("topic")
def test_a_task_reads_several_partitions_and_empty_ones_have_no_part_in_it(kafka: Cluster) -> None:
    assert _planned(_reader(kafka)) == [[(0, 0, 10), (1, 0, 4)]]


@pytest.mark.usefixtures("topic")
def test_without_packing_each_partition_has_a_task_and_empty_ones_have_none(kafka: Cluster) -> None:
    assert _planned(_reader(kafka, targetPartitions="off")) == [[(0, 0, 10)], [(1, 0, 4)]]


@pytest.mark.usefixtures("topic")
def test_tasks_are_cut_by_number_and_by_size(kafka: Cluster) -> None:
    pieces = [[(0, 0, 5)], [(0, 5, 10)], [(1, 0, 4)]]
    assert _planned(_reader(kafka, minPartitions="3")) == pieces
    assert _planned(_reader(kafka, maxRecordsPerPartition="6")) == pieces


@pytest.mark.usefixtures("topic")
def test_the_range_of_a_query_is_what_its_options_say(kafka: Cluster) -> None:
    reader = _reader(
        kafka,
        startingOffsets='{"t":{"0":3,"1":-2,"2":0}}',
        endingOffsets='{"t":{"0":8,"1":-1,"2":0}}',
    )
    assert _planned(reader) == [[(0, 3, 8), (1, 0, 4)]]


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_a_start_behind_the_end_is_an_error(kafka: Cluster, fail_on_data_loss: str) -> None:
    reader = _reader(kafka, startingOffsets='{"t":{"0":11,"1":0,"2":0}}', failOnDataLoss=fail_on_data_loss)
    with pytest.raises(
        OptionError, match="start offset 11 is greater than the resolved end offset 10 for topic t"
    ):
        reader.partitions()


@pytest.mark.usefixtures("topic")
def test_a_task_has_all_it_needs_in_its_pickle(kafka: Cluster) -> None:
    reader = _reader(kafka, targetPartitions="off")
    partition = pickle.loads(pickle.dumps(reader.partitions()[1]))
    batches = list(pickle.loads(pickle.dumps(reader)).read(partition))
    assert [value for batch in batches for value in batch.column("value").to_pylist()] == [
        b"0",
        b"1",
        b"2",
        b"3",
    ]


@pytest.mark.usefixtures("topic")
def test_the_partition_that_spark_invents_for_an_empty_query_has_no_rows(kafka: Cluster) -> None:
    assert list(_reader(kafka, startingOffsets='{"t":{"0":10,"1":4,"2":0}}').read(InputPartition(None))) == []


@pytest.mark.usefixtures("topic")
def test_spark_reads_every_record_once(kafka: Cluster, spark: SparkSession) -> None:
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": "t", "minPartitions": "4"}
    rows = spark.read.format("ottla").options(**options).load().select("partition", "offset").collect()
    assert sorted(map(tuple, rows)) == [(0, at) for at in range(10)] + [(1, at) for at in range(4)]
    nothing = (
        spark.read.format("ottla").options(**options, startingOffsets='{"t":{"0":10,"1":4,"2":0}}').load()
    )
    assert nothing.count() == 0
