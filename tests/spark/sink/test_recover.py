"""recover(): a query that is gone leaves nothing behind that keeps readers waiting, nor anything half written."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

import ottla.spark
from ottla import TopicPartition
from ottla.broker import Cluster
from ottla.spark import OptionError
from ottla.spark.sink.exactly_once.errors import SinkFencedError
from ottla.spark.sink.exactly_once.recovery import UnknownSinkError
from tests.spark.sink import left_behind


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(topics={"orders": 3}) as cluster:
        yield cluster


@pytest.fixture
def options(cluster: Cluster) -> dict[str, str]:
    """Of the query; only those for Kafka count here."""
    return {"Kafka.Bootstrap.Servers": cluster.bootstrap, "topic": "orders"}


def test_what_was_decided_is_committed_and_what_was_not_is_aborted(
    cluster: Cluster, options: dict[str, str]
) -> None:
    begun = left_behind.start(cluster)
    outcomes = [left_behind.prepare(cluster, begun, 0, slot, b"decided-%d" % slot) for slot in range(2)]
    # An orphan of a wider attempt.
    left_behind.prepare(cluster, begun, 0, 2, b"undecided")
    left_behind.decide_and_die(cluster, begun, 0, outcomes)
    shown = ottla.spark.recover(options, "billing")
    assert [(left.slot, left.is_decided) for left in shown.open] == [(0, True), (1, True), (2, False)]
    assert shown.blocked[TopicPartition("orders", 2)] == (2,)
    assert not shown.is_complete
    assert left_behind.committed(cluster) == []

    aborted = ottla.spark.recover(options, "billing", "abort")
    assert [left.slot for left in aborted.open] == [0, 1]
    finished = ottla.spark.recover(options, "billing", "finish")
    assert finished.is_complete
    assert finished.blocked == {}
    assert left_behind.committed(cluster) == [b"decided-0", b"decided-1"]
    assert ottla.spark.recover(options, "billing", "finish").is_complete, "once more does no harm"


def test_a_query_that_still_runs_is_shut_out(cluster: Cluster, options: dict[str, str]) -> None:
    begun = left_behind.start(cluster)
    outcomes = [left_behind.prepare(cluster, begun, 0, 0, b"row")]
    ottla.spark.recover(options, "billing", "finish")
    with pytest.raises(ottla.KafkaError):
        left_behind.commit(cluster, 0, outcomes)
    with pytest.raises(SinkFencedError):
        left_behind.decide_and_die(cluster, begun, 0, outcomes)
    assert left_behind.committed(cluster) == []


def test_a_sink_that_is_forgotten_is_anothers_to_use(cluster: Cluster, options: dict[str, str]) -> None:
    begun = left_behind.start(cluster)
    left_behind.commit(cluster, 0, [left_behind.prepare(cluster, begun, 0, 0, b"row")])
    assert ottla.spark.recover(options, "billing", "forget").is_complete
    shown = ottla.spark.recover(options, "billing")
    assert shown.last is not None
    assert shown.last.is_released
    with pytest.raises(UnknownSinkError, match="has no topic ottla-sink-other"):
        ottla.spark.recover(options, "other")
    assert left_behind.committed(cluster) == [b"row"]


def test_mistakes_are_named(options: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="'undo' is none of show, finish, abort, forget"):
        ottla.spark.recover(options, "billing", "undo")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"'kafka.bootstrap.servers' is missing"):
        ottla.spark.recover({"topic": "orders"}, "billing")
    with pytest.raises(ValueError, match="sink id 'a b'"):
        ottla.spark.recover(options, "a b")


def test_it_needs_no_spark() -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None; import ottla.spark; print(ottla.spark.recover.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "recover\n"
