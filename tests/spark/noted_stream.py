"""A stream into files whose tasks note what they have read: in this process, or in a program that a test kills.

    python -m tests.spark.noted_stream FOLDER BATCH TASK NAME=VALUE...    the options are those of the source

The program never ends by itself: in this batch, this task stops in the middle of its rows. Every task leaves a note
of what it has read, in a file that is there only when it is whole.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

Held: TypeAlias = tuple[int, int]
"""The batch, and the task in it, that is not to end."""
Note: TypeAlias = dict[int, list[list[int]]]
"""For each partition of a task the ranges of offsets that it has read, in that order: one, if nothing is missing."""

COLUMNS = "partition int, offset bigint"
_CONF = {
    # It lives for seconds: what the second compiler would make faster never pays for it.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def start(
    spark: SparkSession, folder: Path, run: str, source: Mapping[str, str], held: Held | None = None
) -> StreamingQuery:
    """Reads what there is. The notes of each run have a folder of their own, everything else is shared."""
    rows = spark.readStream.format("ottla").options(**source).load().selectExpr("partition", "offset")
    noted = rows.mapInArrow(_noting(folder / run, held), COLUMNS)
    files = noted.writeStream.format("parquet").option("path", str(folder / "rows"))
    stream = files.option("checkpointLocation", str(folder / "checkpoint"))
    return stream.trigger(availableNow=True).start()


def notes(folder: Path, run: str, batch: int) -> dict[int, Note]:
    """Of the tasks of a batch, as far as there are any."""
    found: dict[int, Note] = {}
    for path in (folder / run).glob(f"{batch}-*.json"):
        note = json.loads(path.read_text())
        found[int(path.stem.partition("-")[2])] = {int(number): ranges for number, ranges in note.items()}
    return found


def _noting(
    folder: Path, held: Held | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    # Functions inside a function travel to workers by value: these do not import the tests.
    def store(batch: int, task: int, note: Note) -> None:
        folder.mkdir(exist_ok=True)
        unfinished = folder / f"{batch}-{task}.unfinished"
        unfinished.write_text(json.dumps(note))
        os.replace(unfinished, folder / f"{batch}-{task}.json")

    def noting(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        batch, task = int(context.getLocalProperty("streaming.sql.batchId") or -1), context.partitionId()
        note: Note = {}
        for rows in batches:
            for partition, offset in zip(*(column.to_pylist() for column in rows.columns), strict=True):
                ranges = note.setdefault(partition, [[offset, offset]])
                if ranges[-1][1] != offset:
                    ranges.append([offset, offset])
                ranges[-1][1] += 1
            yield rows
            if (batch, task) == held:
                store(batch, task, note)
                while True:
                    time.sleep(1)
        store(batch, task, note)

    return noting


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("batch", type=int)
    parser.add_argument("task", type=int)
    parser.add_argument("options", nargs="+", metavar="NAME=VALUE")
    arguments = parser.parse_args()
    builder = SparkSession.builder.master("local[2]")
    for name, value in _CONF.items():
        builder = builder.config(name, value)
    source = dict(option.split("=", 1) for option in arguments.options)
    held = (arguments.batch, arguments.task)
    start(builder.getOrCreate(), arguments.folder, "killed", source, held).awaitTermination()


if __name__ == "__main__":
    main()
