"""Exactly once through the writers of a stream, without Spark: what readers of committed records see."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import ottla
from ottla.broker import Cluster
from ottla.broker.server.faults import delay, error
from ottla.spark.options.parsing import OptionError
from ottla.spark.sink.exactly_once.errors import (
    ForeignSinkError,
    SinkError,
    SinkFencedError,
    TransactionLostError,
)
from ottla.spark.sink.row_sender import SendError
from tests.spark.sink.tasks import Job, Query

TOPIC = "copies"
pytestmark = pytest.mark.kafka_cluster(topics={TOPIC: 2})


@pytest.fixture
def options(kafka: Cluster) -> dict[str, str]:
    return {"kafka.bootstrap.servers": kafka.bootstrap, "topic": TOPIC}


@pytest.fixture
def query(options: dict[str, str], tmp_path: Path) -> Query:
    return Query(options, tmp_path)


def committed(kafka: Cluster) -> list[bytes]:
    with ottla.Client(kafka.bootstrap, isolation_level="read_committed") as client:
        return sorted(
            record.value or b"" for record in client.consume(TOPIC, start="earliest", stop="latest")
        )


def test_rows_are_seen_when_their_batch_is_committed_and_all_at_once(kafka: Cluster, query: Query) -> None:
    messages = query.write(0, [b"a", b"b"], [b"c"], [])
    assert committed(kafka) == []
    query.writer().commit(list(messages), 0)
    assert committed(kafka) == [b"a", b"b", b"c"]
    query.run(1, [b"d"])
    assert committed(kafka) == [b"a", b"b", b"c", b"d"]


def test_brokers_are_asked_once_for_the_longest_timeout_that_they_allow(kafka: Cluster, query: Query) -> None:
    asked = kafka.faults.add("DescribeConfigs", action=delay(0))
    query.run(0, [b"a"])
    query.run(1, [b"b"])
    assert asked.hits == 1
    assert committed(kafka) == [b"a", b"b"]


def test_brokers_that_allow_less_than_they_did_are_asked_again(kafka: Cluster, query: Query) -> None:
    """As when all of them were restarted with a shorter timeout while the query runs."""
    asked = kafka.faults.add("DescribeConfigs", action=delay(0))
    query.run(0, [b"a"])
    refused = kafka.faults.add("InitProducerId", action=error("INVALID_TRANSACTION_TIMEOUT"), count=1)
    query.run(1, [b"b"])
    assert (refused.hits, asked.hits) == (1, 2)
    assert committed(kafka) == [b"a", b"b"]


def test_a_writer_starts_its_batch_once_however_often_it_is_pickled(kafka: Cluster, query: Query) -> None:
    writer = query.writer()
    assert pickled_start(writer) == pickled_start(writer) is not None


def test_a_batch_that_runs_again_after_its_commit_writes_nothing(kafka: Cluster, query: Query) -> None:
    query.run(0, [b"a"], [b"b"])
    query.run(0, [b"a"], [b"b"])
    query.run(0, [b"a", b"b"])
    assert committed(kafka) == [b"a", b"b"]


def test_a_batch_whose_driver_died_before_the_decision_is_written_by_the_next(
    kafka: Cluster, query: Query
) -> None:
    query.run(0, [b"a"])
    query.write(1, [b"b"], [b"c"], [b"d"])
    query.run(1, [b"b", b"c", b"d"])
    assert committed(kafka) == [b"a", b"b", b"c", b"d"]


def test_of_two_attempts_of_a_task_only_one_is_committed(kafka: Cluster, query: Query) -> None:
    started = query.started()
    query.written(started, 0, 0, [b"a"])
    again = query.written(started, 0, 0, [b"a"])
    query.writer().commit([again], 0)
    assert committed(kafka) == [b"a"]


def test_a_batch_whose_attempt_was_replaced_is_not_committed(kafka: Cluster, query: Query) -> None:
    started = query.started()
    first = query.written(started, 0, 0, [b"a"])
    query.written(started, 0, 0, [b"a"])
    with pytest.raises(TransactionLostError, match="run the query again"):
        query.writer().commit([first], 0)
    query.run(0, [b"a"])
    assert committed(kafka) == [b"a"]


def test_what_a_failed_batch_has_written_is_aborted_and_no_reader_waits_for_it(
    kafka: Cluster, query: Query, caplog: pytest.LogCaptureFixture
) -> None:
    messages = query.write(0, [b"a"], [b"b"])
    with caplog.at_level(logging.WARNING, "ottla.spark"):
        query.writer().abort([*messages, None], 0)
    assert caplog.messages == [
        "micro-batch 0 wrote 2 rows (10 bytes) to copies and has failed; "
        "it is written again when the query is started again"
    ]
    with ottla.Client(kafka.bootstrap) as client:
        client.produce(TOPIC, b"plain").result(timeout=30)
    assert committed(kafka) == [b"plain"]


def test_a_second_driver_fences_the_first(kafka: Cluster, query: Query) -> None:
    messages = query.write(0, [b"a"])
    query.run(0, [b"a"])
    with pytest.raises((SinkFencedError, TransactionLostError), match="another driver"):
        query.writer().commit(list(messages), 0)
    assert committed(kafka) == [b"a"]


def test_a_new_checkpoint_with_an_old_sink_id_is_refused(
    kafka: Cluster, options: dict[str, str], tmp_path: Path
) -> None:
    named = {**options, "ottla.sink.id": "mine"}
    Query(named, tmp_path / "1", "query-1").run(0, [b"a"])
    with pytest.raises(ForeignSinkError, match="query query-1, and this is query query-2"):
        Query(named, tmp_path / "2", "query-2").run(0, [b"b"])
    assert committed(kafka) == [b"a"]


def test_a_task_of_another_query_than_the_checkpoint_says_is_refused(query: Query) -> None:
    started = query.started()
    query.query_id = "query-2"
    with pytest.raises(
        SinkError, match="the checkpoint belongs to query query-1, and this task to query query-2"
    ):
        query.written(started, 0, 0, [b"a"])


def test_rows_that_are_refused_fail_their_task_and_the_next_attempt_writes_them(
    kafka: Cluster, query: Query
) -> None:
    started = query.started()
    kafka.faults.add("Produce", action=error("TOPIC_AUTHORIZATION_FAILED"), count=1)
    with pytest.raises(
        SendError, match=r"could not be written to topic copies.*their transaction is aborted"
    ):
        query.written(started, 0, 0, [b"a"])
    query.writer().commit([query.written(started, 0, 0, [b"a"])], 0)
    assert committed(kafka) == [b"a"]


def test_no_message_of_any_task_is_an_error_and_nothing_to_abort(query: Query) -> None:
    with pytest.raises(SinkError, match="no task has said what it wrote"):
        query.writer().commit([], 0)
    query.writer().abort([None], 0)


@pytest.mark.parametrize("refused", ["TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"])
def test_where_transactions_are_not_allowed_the_error_says_what_to_set(
    kafka: Cluster, query: Query, refused: str
) -> None:
    kafka.faults.add("InitProducerId", action=error(refused))
    with pytest.raises(OptionError, match=r"ids begin with query-1-.*ottla\.delivery to at-least-once"):
        query.started()


def test_a_timeout_that_brokers_do_not_allow_is_refused_before_any_task(
    options: dict[str, str], tmp_path: Path
) -> None:
    query = Query({**options, "kafka.transaction.timeout.ms": "2000000000"}, tmp_path)
    with pytest.raises(OptionError, match=r"kafka\.transaction\.timeout\.ms"):
        query.started()


def test_a_batch_write_is_seen_as_a_whole_when_it_is_committed(
    kafka: Cluster, options: dict[str, str]
) -> None:
    job = Job(options).write([b"a"], [], [b"b"])
    assert committed(kafka) == []
    job.commit()
    assert committed(kafka) == [b"a", b"b"]
    # The next one finds a name too, with or without rows.
    Job(options).write([]).commit()
    Job(options).write([b"c"]).commit()
    assert committed(kafka) == [b"a", b"b", b"c"]


def test_batch_writes_at_the_same_time_do_not_disturb_each_other(
    kafka: Cluster, options: dict[str, str]
) -> None:
    jobs = [Job(options).write([b"%d" % number]) for number in range(3)]
    for job in jobs:
        job.commit()
    assert committed(kafka) == [b"0", b"1", b"2"]


def test_nothing_of_a_batch_write_that_fails_is_seen_and_its_name_is_free_again(
    kafka: Cluster, options: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    job = Job(options).write([b"a"])
    with caplog.at_level(logging.WARNING, "ottla.spark"):
        job.abort()
    assert caplog.messages == ["a job that wrote 1 rows (5 bytes) to copies has failed; it is aborted"]
    Job(options).write([b"b"]).commit()
    assert committed(kafka) == [b"b"]


def pickled_start(writer: object) -> object:
    return writer.__getstate__()["start"]  # type: ignore[index]
