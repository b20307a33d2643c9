"""The connector on Apache Kafka, where neither end is ours: written by confluent-kafka, or read by it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from tests.interop import confluent
from tests.interop.apache import ApacheKafka
from tests.interop.spark.outcome import Plain, rows_of
from tests.interop.spark.run import Run, Stream
from tests.interop.spark.sinks import records_of
from tests.interop.spark.topics import CODECS, Entry, Topics, entries
from tests.interop.waiting import eventually

pytestmark = pytest.mark.kafka

EARLIEST = {"subscribe": "@t@", "startingOffsets": "earliest"}
COMMITTED = {**EARLIEST, "kafka.isolation.level": "read_committed"}

MakeRun = Callable[[str], Run]


@pytest.fixture
def make_run(both_connectors: SparkSession, apache: ApacheKafka, topics: Topics, tmp_path: Path) -> MakeRun:
    def make(name: str) -> Run:
        return Run(both_connectors, "ottla", apache.bootstrap, tmp_path, name, topics)

    return make


def values(rows: Plain) -> list[str]:
    return sorted(row[1] for row in rows["rows"])


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_written_is_what_confluent_kafka_reads(make_run: MakeRun, codec: str) -> None:
    run = make_run(f"written-{codec}")
    run.topics.create(run.topic("t"), partitions=3)
    frame = run.spark.range(0, 3000, 1, 2).select(
        col("id").cast("string").alias("key"), (col("id") * 7).cast("string").alias("value")
    )
    options = run.options({"topic": "@t@", "kafka.compression.type": codec})
    frame.write.format("ottla").options(**options).mode("append").save()
    found = records_of(run.bootstrap, run.topic("t"))
    assert sorted(int(key) for _, key, _, _ in found) == list(range(3000))
    assert all(int(value) == int(key) * 7 for _, key, value, _ in found)


def test_records_go_to_the_partitions_that_the_java_client_chooses_for_their_keys(make_run: MakeRun) -> None:
    run = make_run("partitions")
    run.topics.create(run.topic("t"), partitions=5)
    run.topics.create(run.topic("u"), partitions=5)
    frame = run.spark.sql("SELECT CAST(id AS string) AS key, 'v' AS value FROM range(200)")
    for name, topic in (("kafka", "t"), ("ottla", "u")):
        frame.write.format(name).options(**run.options({"topic": f"@{topic}@"})).mode("append").save()
    assert records_of(run.bootstrap, run.topic("t")) == records_of(run.bootstrap, run.topic("u"))


def test_a_topic_survives_being_copied_by_a_stream(make_run: MakeRun) -> None:
    run = make_run("copy")
    run.topics.create(run.topic("t"), partitions=3)
    run.topics.create(run.topic("u"), partitions=3)
    run.topics.write(run.topic("t"), [entry for p in range(3) for entry in entries(40, p)])
    source = run.stream({**EARLIEST, "includeHeaders": "true", "maxOffsetsPerTrigger": "70"})
    query = (
        source.select("key", "value", "partition", "headers")
        .writeStream.format("ottla")
        .options(**run.options({"topic": "@u@", "includeHeaders": "true"}))
        .option("checkpointLocation", str(run.folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(600)
    assert records_of(run.bootstrap, run.topic("u")) == records_of(run.bootstrap, run.topic("t"))


def test_read_committed_reads_what_was_committed_and_nothing_of_what_was_aborted(make_run: MakeRun) -> None:
    run = make_run("transactions")
    run.topics.create(run.topic("t"))
    transactions = [([b"c%d-%d" % (n, i) for i in range(20)], n % 2 == 0) for n in range(10)]
    confluent.produce_transactions(run.bootstrap, run.topic("t"), transactions)
    committed = sorted(value.decode() for values, commit in transactions for value in values if commit)
    assert values(rows_of(run.read(COMMITTED))) == committed
    assert len(values(rows_of(run.read(EARLIEST)))) == 200


def test_a_committed_stream_waits_for_an_open_transaction_and_goes_on_after_it(make_run: MakeRun) -> None:
    run = make_run("open")
    run.topics.create(run.topic("t"))
    run.topics.write(run.topic("t"), [Entry(b"before")])
    ending = run.topics.begin(run.topic("t"), [Entry(b"within")])
    run.topics.write(run.topic("t"), [Entry(b"behind")])
    running = Stream(run, COMMITTED, processingTime="0 seconds")
    running.settled()
    assert [values(batch) for batch in running.batches] == [["before"]]
    ending.commit_transaction(30)

    def has_come() -> bool:
        running.settled()
        return len(running.batches) > 1

    # Kafka writes the markers of a commit behind its response.
    eventually(has_come, "what was committed", 120)
    running.stopped()
    assert sorted(value for batch in running.batches for value in values(batch)) == [
        "before",
        "behind",
        "within",
    ]


def test_a_stream_reads_every_record_once_however_small_its_batches_are(make_run: MakeRun) -> None:
    run = make_run("small")
    run.topics.create(run.topic("t"), partitions=3)
    run.topics.write(run.topic("t"), [entry for p in range(3) for entry in entries(30, p)], codec="zstd")
    outcome = Stream(run, {**EARLIEST, "maxOffsetsPerTrigger": "25"}, availableNow=True).finished()
    read = [(row[3], row[4]) for batch in outcome["batches"] for row in batch["rows"]]
    assert sorted(read) == [(partition, offset) for partition in range(3) for offset in range(30)]


# Back to the JVM connector


def test_the_jvm_connector_goes_on_behind_a_batch_that_was_not_packed(make_run: MakeRun) -> None:
    run = make_run("back")
    run.topics.create(run.topic("t"), partitions=2)
    read = []
    for number, (format, target) in enumerate((("ottla", "8"), ("ottla", "off"), ("kafka", "off"))):
        run.topics.write(run.topic("t"), entries(3, first=3 * number))
        query = Stream(run, {**EARLIEST, "targetPartitions": target}, format, availableNow=True)
        (batch,) = query.finished()["batches"]
        read.append(sorted(row[4] for row in batch["rows"]))
    assert read == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_the_jvm_connector_refuses_a_checkpoint_whose_last_batch_was_packed(make_run: MakeRun) -> None:
    run = make_run("packed")
    run.topics.create(run.topic("t"), partitions=2)
    run.topics.write(run.topic("t"), entries(3))
    packed = {**EARLIEST, "targetPartitions": "8"}
    Stream(run, packed, "ottla", availableNow=True).finished()
    run.topics.write(run.topic("t"), entries(3, first=3))
    with pytest.raises(StreamingQueryException, match=":plan"):
        Stream(run, packed, "kafka", availableNow=True).finished()
