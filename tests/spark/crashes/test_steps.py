"""A Python process of the sink is killed at every step, and the query started again: every row once.

One Spark for all of them; drivers that are killed as a whole, executors, and Apache Kafka are in
tests/interop/crashes (`make crash-matrix`).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from ottla.broker import Cluster
from tests.interop.confluent import committed_values
from tests.spark.crashes.steps import STEPS, KillOrders

_WITHIN_S = 600


@pytest.fixture
def copying(spark: SparkSession, kafka: Cluster, tmp_path: Path) -> DataFrame:
    """A stream of two tasks in its first batch."""
    kafka.create_topic("copies", 2)
    (tmp_path / "in").mkdir()
    put(tmp_path, "1.txt", "a", "b")
    put(tmp_path, "2.txt", "c")
    return spark.readStream.text(str(tmp_path / "in"))


def put(folder: Path, name: str, *lines: str) -> None:
    (folder / "in" / name).write_text("".join(f"{line}\n" for line in lines))


def run(lines: DataFrame, kafka: Cluster, folder: Path) -> None:
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "topic": "copies",
        "checkpointLocation": str(folder / "checkpoint"),
    }
    query = lines.writeStream.format("ottla").options(**options).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(_WITHIN_S), "the query did not end"
    finally:
        query.stop()


@pytest.mark.parametrize(
    "step",
    ["1-fenced", "1-after", "2-fenced", "3-marker-sent", "4-before", "4-decided", "5-one-ended", "6-after"],
)
def test_a_query_whose_process_was_killed_writes_every_row_once(
    copying: DataFrame, kafka: Cluster, tmp_path: Path, kill_orders: KillOrders, step: str
) -> None:
    kill_orders.give(STEPS[step])
    with pytest.raises(StreamingQueryException):
        run(copying, kafka, tmp_path)
    assert kill_orders.are_carried_out
    put(tmp_path, "3.txt", "d")
    run(copying, kafka, tmp_path)
    assert sorted(committed_values(kafka.bootstrap, "copies")) == [b"a", b"b", b"c", b"d"]
