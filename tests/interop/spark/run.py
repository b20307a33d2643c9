"""What a job gets: one connector, one cluster, topics and a folder of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.interop.spark.outcome import Plain, rows_of
from tests.interop.spark.topics import Topics

Options = Mapping[str, str]
_OWN_TOPIC = re.compile(r"@(\w+)@")
WITHIN_S = 180
# What cannot succeed is asked three times, a second apart unless told.
_IMPATIENT = {"fetchOffset.retryIntervalMs": "10"}
# Tasks and offsets are to be those of the JVM connector, which does not know the option. Cases of their own pack.
_UNPACKED = {"targetPartitions": "off"}


@dataclass(frozen=True)
class Run:
    """A case with one of the connectors. In options, `@t@` stands for the case's own topic t."""

    spark: SparkSession
    format: str
    bootstrap: str
    folder: Path
    case: str
    topics: Topics

    @property
    def prefix(self) -> str:
        """What the names of this run's topics begin with."""
        return f"{self.case}.{self.format}."

    def topic(self, name: str) -> str:
        return self.prefix + name

    def options(self, options: Options) -> dict[str, str]:
        """The options of a case in full; one that is "-" is left out, which is how a case goes without brokers."""
        full = {"kafka.bootstrap.servers": self.bootstrap, **_IMPATIENT, **_UNPACKED, **options}
        return {name: self._named(value) for name, value in full.items() if value != "-"}

    def read(self, options: Options) -> DataFrame:
        return self.spark.read.format(self.format).options(**self.options(options)).load()

    def stream(self, options: Options, format: str | None = None) -> DataFrame:
        return self.spark.readStream.format(format or self.format).options(**self.options(options)).load()

    def _named(self, value: str) -> str:
        return _OWN_TOPIC.sub(lambda found: self.topic(found[1]), value)


class Stream:
    """A streaming query whose batches are looked at one by one."""

    def __init__(self, run: Run, options: Options, format: str | None = None, **trigger: Any) -> None:
        self.batches: list[Plain] = []
        self.query: StreamingQuery = (
            run.stream(options, format)
            .writeStream.foreachBatch(self._take)
            .option("checkpointLocation", str(run.folder / "checkpoint"))
            .trigger(**trigger)
            .start()
        )

    def finished(self) -> Plain:
        """The batches of a query that ends by itself."""
        ended(self.query)
        return self._outcome()

    def settled(self) -> None:
        """Until all that is there now has been read."""
        self.query.processAllAvailable()

    def stopped(self) -> Plain:
        self.query.stop()
        return self._outcome()

    def _take(self, frame: DataFrame, _batch_id: int) -> None:
        if (batch := rows_of(frame))["rows"]:
            self.batches.append(batch)

    def ends(self) -> list[Plain]:
        """The offsets at which batches with rows ended."""
        sources = [each["sources"][0] for each in self.query.recentProgress if each["numInputRows"]]
        return [_parsed(source["endOffset"]) for source in sources]

    def _outcome(self) -> Plain:
        return {
            "batches": self.batches,
            "ends": [_of_topics(end) for end in self.ends()],
        }


def ended(query: StreamingQuery) -> None:
    """Wait for a query that ends by itself; its error is raised here."""
    if not query.awaitTermination(WITHIN_S):
        query.stop()
        raise TimeoutError(f"the query still runs after {WITHIN_S} s: {query.status}")


def _parsed(stored: Any) -> Plain:
    return json.loads(stored) if isinstance(stored, str) else stored


def _of_topics(end: Plain) -> Plain:
    """Without what is no topic: that it is there at all, one case of its own shows."""
    return {name: partitions for name, partitions in end.items() if not name.startswith(":")}
