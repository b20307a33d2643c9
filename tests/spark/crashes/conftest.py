"""A small query that copies files into a topic, in the one Spark of these tests: run, killed, and run again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ottla.broker import Cluster
from tests.interop.confluent import committed_values
from tests.interop.waiting import eventually
from tests.spark.crashes.steps import Kill, KillOrders

WITHIN_S = 600
TOPIC = "copies"


class Copying:
    """The lines of all files in a folder are the rows: at first a, b and c, in two tasks."""

    def __init__(self, spark: SparkSession, kafka: Cluster, folder: Path, orders: KillOrders) -> None:
        self.kafka = kafka
        self.folder = folder
        self.orders = orders
        (folder / "in").mkdir()
        self.put("1.txt", "a", "b")
        self.put("2.txt", "c")
        self.lines = spark.readStream.text(str(folder / "in"))

    def put(self, name: str, *lines: str) -> None:
        (self.folder / "in" / name).write_text("".join(f"{line}\n" for line in lines))

    @property
    def options(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.kafka.bootstrap, "topic": TOPIC}

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def run(
        self,
        rows: DataFrame | None = None,
        mode: str = "append",
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Until all that is there is written."""
        with self._started(rows, mode, options or {}) as query:
            self.finish(query)

    @contextmanager
    def held(self, kill: Kill, options: Mapping[str, str] | None = None) -> Iterator[StreamingQuery]:
        """A query of which a process has stopped where it was ordered to."""
        self.orders.give(kill.of("held"))
        with self._started(None, "append", options or {}) as query:
            eventually(
                lambda: self.orders.are_carried_out or not query.isActive, "the process to stop", WITHIN_S
            )
            assert self.orders.are_carried_out, query.exception()
            yield query

    def finish(self, query: StreamingQuery) -> None:
        assert query.awaitTermination(WITHIN_S), "the query did not end"

    @contextmanager
    def _started(
        self, rows: DataFrame | None, mode: str, options: Mapping[str, str]
    ) -> Iterator[StreamingQuery]:
        writer = (self.lines if rows is None else rows).writeStream.format("ottla").outputMode(mode)
        given = {**self.options, "checkpointLocation": str(self.checkpoint), **options}
        query = writer.options(**given).trigger(availableNow=True).start()
        try:
            yield query
        finally:
            query.stop()

    @property
    def written(self) -> list[bytes]:
        """What confluent-kafka reads with read_committed."""
        return sorted(committed_values(self.kafka.bootstrap, TOPIC))


@pytest.fixture
def copying(spark: SparkSession, kafka: Cluster, tmp_path: Path, kill_orders: KillOrders) -> Copying:
    kafka.create_topic(TOPIC, 2)
    return Copying(spark, kafka, tmp_path, kill_orders)
