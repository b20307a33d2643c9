"""Pipelines on the embedded cluster: what is written, what is reported, and how they end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from typer.testing import CliRunner

import ottla.spark
from ottla.broker import Cluster
from ottla.cli.app import app
from ottla.spark.pipeline.failures import PipelineFailedError
from ottla.spark.pipeline.model import TopicSink, TopicSource, Watermark
from ottla.spark.pipeline.options import sink_options
from ottla.spark.pipeline.progress import BatchProgress
from ottla.spark.pipeline.running import RunningPipeline, run, start
from ottla.spark.pipeline.runs import JobRun, StreamRun
from ottla.spark.sink.exactly_once.names import SinkNames
from tests.spark.pipeline.pipelines import (
    CUSTOMERS,
    ORDERS,
    WITHIN_S,
    committed,
    create_topics,
    only_orders,
    order,
    pipeline,
    put_customer,
    until_read,
    values,
)
from tests.spark.sink import left_behind

_COUNTS = "SELECT customer, count(*) AS n FROM orders GROUP BY customer"


@pytest.fixture(autouse=True)
def topics(kafka: Cluster) -> None:
    create_topics(kafka)


def test_orders_are_joined_with_the_newest_customers_and_written_once_over_a_restart(
    kafka: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    put_customer(kafka, 1, "CZ")
    put_customer(kafka, 2, "AT")
    kafka.seed("orders", [order(1), b"no order", order(2, customer=2)])
    revenue = pipeline(kafka, tmp_path)
    with start(revenue, spark) as running:
        first = until_read(running, 3)
        # The next micro-batch has to see what has become of the table since.
        put_customer(kafka, 1, "SK")
        put_customer(kafka, 2, None)
        kafka.seed("orders", [order(3), order(4, customer=2)], partition=1)
        until_read(running, 2)
    kafka.seed("orders", [order(5), b"worse"])
    run(replace(revenue, trigger="available-now"), spark)
    assert values(kafka, "priced") == [
        {"id": 1, "country": "CZ", "cents": 100},
        {"id": 2, "country": "AT", "cents": 100},
        {"id": 3, "country": "SK", "cents": 100},
        {"id": 5, "country": "SK", "cents": 100},
    ]
    assert {record.key for record in committed(kafka, "priced")} == {b"1", b"2", b"3", b"5"}
    assert [record.value for record in committed(kafka, "dead")] == [b"no order", b"worse"]
    assert [
        (batch.sink, batch.rows_in, batch.rows_out, batch.dead_letters, batch.lag) for batch in first
    ] == [("priced", 3, 2, 1, 0)]
    assert first[0].seconds > 0
    assert first[0].rows_per_second > 0


def test_a_dead_letter_is_the_record_as_it_came_and_says_where_it_came_from(
    kafka: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    with ottla.Client(kafka.bootstrap) as client:
        headers: list[tuple[str, bytes | None]] = [("trace", b"7"), ("empty", None)]
        client.produce("orders", b"\xff{", b"key", partition=1, headers=headers).result(timeout=30)
    once = replace(only_orders(kafka, tmp_path, None, columns=("id",)), trigger="available-now")
    run(once, spark)
    [letter] = committed(kafka, "dead")
    assert (letter.key, letter.value) == (b"key", b"\xff{")
    assert letter.headers[:2] == headers
    told = dict(letter.headers[2:])
    assert told["ottla.dead_letter.topic"] == b"orders"
    assert (told["ottla.dead_letter.partition"], told["ottla.dead_letter.offset"]) == (b"1", b"0")
    assert told.keys() >= {"ottla.dead_letter.timestamp", "ottla.dead_letter.error"}
    assert committed(kafka, "priced") == []


@pytest.mark.parametrize(
    ("output", "sql", "written"),
    [
        ("append", "SELECT customer, id FROM orders", [[1, 1], [1, 3], [2, 2]]),
        ("update", _COUNTS, [[1, 1], [1, 2], [2, 1]]),
        ("complete", _COUNTS, [[1, 1], [1, 2], [2, 1], [2, 1]]),
        # No window is complete before the watermark has passed it, a day later.
        ("append", "SELECT window.start, count(*) AS n FROM orders GROUP BY window(timestamp, '1 day')", []),
    ],
    ids=["rows", "update", "complete", "windows"],
)
def test_good_rows_and_dead_letters_come_from_one_read_in_every_output_mode(
    kafka: Cluster, spark: SparkSession, tmp_path: Path, output: str, sql: str, written: list[list[int]]
) -> None:
    """As many offsets for both: each micro-batch has one source, and its dead letters are those of its rows."""
    kafka.seed("orders", [order(1), b"bad", order(2, customer=2)])
    totals = replace(only_orders(kafka, tmp_path, sql, output=output), trigger="available-now")
    if "window" in sql:
        timed = replace(ORDERS, watermark=Watermark(column="timestamp", delay="1 second"))
        totals = replace(totals, sources={"orders": timed})
    batches = []
    for more in ([order(3), b"worse"], []):
        with start(totals, spark) as running:
            assert running.wait(WITHIN_S)
            batches += [batch for batch in running.progress() if batch.rows_in]
            [query] = running.queries.values()
            assert {len(each.sources) for each in query.recentProgress} == {1}
        kafka.seed("orders", more)
    assert [(batch.rows_in, batch.dead_letters) for batch in batches] == [(3, 1), (2, 1)]
    assert [record.value for record in committed(kafka, "dead")] == [b"bad", b"worse"]
    assert [list(value.values()) for value in values(kafka, "priced")] == written
    assert batches[-1].state_rows == {"append": 1 if "window" in sql else 0}.get(output, 2)
    assert (batches[-1].state_bytes > 0) == (batches[-1].state_rows > 0)


def test_a_batch_writes_what_is_there_and_ends(kafka: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    put_customer(kafka, 1, "CZ")
    kafka.seed("orders", [order(1), b"bad", order(2)])
    job = replace(pipeline(kafka, tmp_path), mode="batch", checkpoint=None)
    with start(job, spark) as running:
        assert running.wait(WITHIN_S)
        [done] = running.progress()
        assert running.progress() == ()
    assert (done.sink, done.rows_out, done.dead_letters) == ("priced", 2, 1)
    assert [value["id"] for value in values(kafka, "priced")] == [1, 2]
    assert [record.value for record in committed(kafka, "dead")] == [b"bad"]


def test_a_pipeline_that_is_stopped_finishes_its_micro_batch(
    kafka: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    with _in_a_batch(kafka, spark, tmp_path) as running:
        running.finish()
        assert not running.wait(0.5)
        assert running.states == {"priced": "running"}
        # This would have been the next one.
        kafka.seed("orders", [order(3)])
        (tmp_path / "go").touch()
        running.stop(WITHIN_S)
        assert not running.is_active
        assert [(batch.batch_id, batch.rows_out) for batch in running.progress()] == [(0, 2)]
    assert [value["id"] for value in values(kafka, "priced")] == [1, 2]


def test_a_pipeline_that_is_interrupted_leaves_nothing_open_and_writes_its_batch_at_the_next_start(
    kafka: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    options = {"kafka.bootstrap.servers": kafka.bootstrap}
    with _in_a_batch(kafka, spark, tmp_path) as running:
        # The task of the other partition has written its row, and left its transaction open.
        until = time.monotonic() + WITHIN_S
        while not ottla.spark.recover(options, "revenue-priced").open:
            assert time.monotonic() < until
        running.stop(0)
    assert ottla.spark.recover(options, "revenue-priced").is_complete
    assert committed(kafka, "priced") == []
    (tmp_path / "go").touch()
    run(replace(running.pipeline, trigger="available-now"), spark)
    assert [value["id"] for value in values(kafka, "priced")] == [1, 2]


@contextmanager
def _in_a_batch(kafka: Cluster, spark: SparkSession, folder: Path) -> Iterator[RunningPipeline]:
    """A pipeline whose first micro-batch has begun, and goes on with its second row when there is a file `go`."""

    def held(orders: DataFrame) -> DataFrame:
        wait = f.udf(_wait_for_file(folder / "go"), "bigint", useArrow=False)
        return orders.select(wait("id").alias("id"))

    for partition in range(2):
        kafka.seed("orders", [order(partition + 1)], partition=partition)
    copies = only_orders(kafka, folder, held)
    in_two_tasks = replace(ORDERS, options={"minPartitions": "2"})
    with start(replace(copies, sources={"orders": in_two_tasks}), spark) as running:
        until = time.monotonic() + WITHIN_S
        while not (folder / "go.waits").exists():
            assert time.monotonic() < until
            assert not running.wait(0.05)
        yield running


def _wait_for_file(path: Path) -> Any:
    def wait(number: int) -> int:
        import time

        if number == 2:
            path.with_suffix(".waits").touch()
        until = time.monotonic() + 4 * WITHIN_S  # the test gives up first
        while number == 2 and not path.exists() and time.monotonic() < until:
            time.sleep(0.02)
        return number

    return wait


def test_a_sink_that_fails_ends_the_others_and_is_named_with_its_own_words(
    kafka: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    kafka.seed("orders", [order(1), order(2, customer=13)])
    source = TopicSource(topics=("orders",), format="json", schema="id bigint, customer int")
    two = replace(
        only_orders(kafka, tmp_path, "SELECT * FROM orders"),
        sources={"orders": source},
        sinks={
            "good": TopicSink(topic="priced", columns=("id",)),
            "bad": TopicSink(topic="dead", where="raise_error('no customer ' || customer) IS NULL"),
        },
    )
    with start(two, spark) as running:
        with pytest.raises(PipelineFailedError, match=r"^sink bad: .*no customer 1") as raised:
            running.wait(WITHIN_S)
        assert not running.is_active
    assert raised.value.sink == "bad"
    assert "\tat " not in str(raised.value)
    assert len(str(raised.value)) < 1_000


def test_a_table_keeps_the_newest_row_of_each_key_and_drops_those_without_key_or_value(
    kafka: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    with ottla.Client(kafka.bootstrap) as client:
        client.produce("customers", b'{"customer": 9, "country": "??"}').result(timeout=30)
    for country in ("CZ", "AT", "SK"):
        put_customer(kafka, 1, country)
    put_customer(kafka, 2, "DE")
    put_customer(kafka, 2, None)
    job = replace(
        pipeline(kafka, tmp_path),
        sources={"customers": CUSTOMERS},
        transform="SELECT key, customer, country FROM customers",
        sinks={"priced": TopicSink(topic="priced")},
        mode="batch",
        checkpoint=None,
    )
    run(job, spark)
    [record] = committed(kafka, "priced")
    assert (record.key, record.value) == (b"1", b'{"customer":1,"country":"SK"}')


@pytest.mark.parametrize("nested", [False, True])
def test_a_row_of_a_table_whose_fields_are_all_null_is_there(
    kafka: Cluster, spark: SparkSession, tmp_path: Path, nested: bool
) -> None:
    """Only a record without a value removes a key."""
    with ottla.Client(kafka.bootstrap) as client:
        for key, value in (
            (b"1", b"{}"),
            (b"2", b'{"country": "CZ"}'),
            (b"2", None),
            (b"3", b'{"customer": 3}'),
        ):
            client.produce("customers", value, key=key).result(timeout=30)
    fields = "value.customer, value.country" if nested else "customer, country"
    job = replace(
        pipeline(kafka, tmp_path),
        sources={"customers": replace(CUSTOMERS, nested=nested)},
        transform=f"SELECT key, {fields}, offset FROM customers",
        sinks={"priced": TopicSink(topic="priced", columns=("offset",))},
        mode="batch",
        checkpoint=None,
    )
    run(job, spark)
    found = {(record.key, record.value) for record in committed(kafka, "priced")}
    assert found == {(b"1", b'{"offset":0}'), (b"3", b'{"offset":3}')}


def test_a_table_may_be_of_avro_that_is_no_record(
    kafka: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    with ottla.Client(kafka.bootstrap) as client:
        for key, value in ((b"1", b"\x04CZ"), (b"2", b"\x04AT"), (b"2", None)):
            client.produce("customers", value, key=key).result(timeout=30)
    job = replace(
        pipeline(kafka, tmp_path),
        sources={"customers": replace(CUSTOMERS, format="avro", schema='"string"')},
        transform="SELECT key, value AS country FROM customers",
        sinks={"priced": TopicSink(topic="priced")},
        mode="batch",
        checkpoint=None,
    )
    run(job, spark)
    [record] = committed(kafka, "priced")
    assert (record.key, record.value) == (b"1", b'{"country":"CZ"}')


_IN_A_FILE = """\
checkpoint = "checkpoints"
kafka.bootstrap.servers = "{bootstrap}"
sources.orders.topic = "orders"
transform.sql = "SELECT nam FROM orders"
sinks.priced.topic = "priced"
"""


@pytest.mark.usefixtures("own_logging", "spark")
def test_a_mistake_in_the_sql_of_a_file_ends_the_command_with_one_line_and_where_more_is(
    kafka: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "naming.toml"
    file.write_text(_IN_A_FILE.format(bootstrap=kafka.bootstrap))
    said = CliRunner().invoke(app, ["pipeline", "run", str(file), "--once"])
    assert (said.exit_code, said.stdout) == (2, "naming: starting Spark\n")
    first, log = said.stderr.splitlines()
    assert first.startswith("ottla: ")
    assert "`nam` cannot be resolved" in first
    assert log.startswith("ottla: Spark's log is ")


def test_what_is_left_of_a_wait_may_be_less_than_spark_can_wait_for() -> None:
    """It takes whole milliseconds, and its error would be taken for the end of the query."""

    def waits(timeout: float) -> bool:
        if int(timeout * 1000) <= 0:
            raise IllegalArgumentException("requirement failed: Timeout has to be positive")
        return False

    query = StreamRun("totals", SimpleNamespace(awaitTermination=waits), {}, None)
    query.wait(0.0004)
    assert query.error is None
    assert query.is_active


def test_the_last_micro_batches_are_known_when_the_session_is_gone(kafka: Cluster, tmp_path: Path) -> None:
    """Behind Spark Connect a query says nothing without its session."""
    batch = BatchProgress(
        sink="priced", batch_id=0, timestamp="", rows_in=1, rows_out=1, dead_letters=0, seconds=1.0
    )
    session = _OwnSession()
    running = RunningPipeline(pipeline(kafka, tmp_path), [_EndedRun(session, batch)], session)  # type: ignore[arg-type,list-item]
    assert running.wait()
    assert session.is_stopped
    assert running.progress() == (batch,)
    assert running.progress() == ()
    assert running.last == {"priced": batch}
    running.stop()


class _OwnSession:
    is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True


class _EndedRun:
    """A query that has ended with one micro-batch."""

    sink = "priced"
    is_active = False
    error = None

    def __init__(self, session: _OwnSession, batch: BatchProgress) -> None:
        self._session = session
        self._left = [batch]

    def progress(self) -> list[BatchProgress]:
        assert not self._session.is_stopped
        found, self._left = self._left, []
        return found

    def finish(self) -> None: ...

    def stop(self) -> None: ...


def test_a_java_process_that_is_gone_is_a_failure_and_leaves_nothing_open(
    kafka: Cluster, tmp_path: Path
) -> None:
    copies = only_orders(kafka, tmp_path, None, columns=("id",))
    left_behind.prepare(kafka, left_behind.start(kafka, SinkNames("revenue-priced")), 0, 0, b"undecided")
    options = {"kafka.bootstrap.servers": kafka.bootstrap}
    assert not ottla.spark.recover(options, "revenue-priced").is_complete
    gone: Any = _Gone()
    running = RunningPipeline(copies, [StreamRun("priced", gone, sink_options(copies, "priced"), gone)], gone)
    with pytest.raises(PipelineFailedError, match=r"^sink priced: Spark's Java process has ended"):
        running.wait()
    assert ottla.spark.recover(options, "revenue-priced").is_complete
    assert (running.progress(), running.states) == ((), {"priced": "ended"})
    running.stop()


class _Gone:
    """What PySpark has of a JVM that was killed."""

    def __getattr__(self, name: str) -> Any:
        raise Py4JNetworkError("An error occurred while trying to connect to the Java server")


def test_a_job_that_begins_behind_its_interruption_is_interrupted_once_more() -> None:
    session = _LateSession()
    job = JobRun("priced", _LateJob(session), None, {}, session)  # type: ignore[arg-type]
    job.stop()
    assert not job.is_active
    # What the user wants is no failure.
    assert job.error is None
    assert job.progress() == []


class _LateSession:
    """Its job begins when an interruption has passed."""

    def __init__(self) -> None:
        self.has_passed = threading.Event()
        self.is_interrupted = threading.Event()
        self._begun = False

    def addTag(self, tag: str) -> None:  # noqa: N802  Spark's name
        assert self.has_passed.wait(WITHIN_S)
        self._begun = True

    def interruptTag(self, tag: str) -> None:  # noqa: N802  Spark's name
        (self.is_interrupted if self._begun else self.has_passed).set()


class _LateJob:
    """A DataFrame and its writer in one."""

    def __init__(self, session: _LateSession) -> None:
        self._session = session

    @property
    def write(self) -> _LateJob:
        return self

    def format(self, name: str) -> _LateJob:
        return self

    def mode(self, name: str) -> _LateJob:
        return self

    def options(self, **options: str) -> _LateJob:
        return self

    def save(self) -> None:
        assert self._session.is_interrupted.wait(1.0)
        raise PySparkException("the job was cancelled")
