"""Writes without Spark: a writer is pickled, written by tasks, and committed, in the order of Spark."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark import TaskContext, cloudpickle

from ottla.spark.options.connector import SinkOptions
from ottla.spark.sink.sent_rows import SentRows
from ottla.spark.sink.writers import KafkaBatchWriter, KafkaStreamWriter
from tests.spark.sinks import rows, schema_of

BATCH_ID, QUERY_ID = "streaming.sql.batchId", "sql.streaming.queryId"


@contextmanager
def running_task(slot: int, properties: dict[str, str]) -> Iterator[None]:
    """Inside, TaskContext.get() is that of a task."""
    before = TaskContext._taskContext
    TaskContext._setTaskContext(None)
    TaskContext(partitionId=slot, localProperties=properties)
    try:
        yield
    finally:
        TaskContext._setTaskContext(before)


class Query:
    """A streaming query: an id in a checkpoint, and options. Rows of a task are a list of values."""

    def __init__(self, options: dict[str, str], folder: Path, query_id: str = "query-1") -> None:
        folder.mkdir(exist_ok=True)
        (folder / "metadata").write_text(f'{{"id":"{query_id}"}}')
        self.query_id = query_id
        self.options = {"checkpointLocation": str(folder), **options}

    def writer(self) -> KafkaStreamWriter:
        return KafkaStreamWriter(SinkOptions.parse(self.options), schema_of("value"))

    def started(self) -> bytes:
        """What the tasks get."""
        pickled: bytes = cloudpickle.dumps(self.writer())  # type: ignore[no-untyped-call]
        return pickled

    def written(self, started: bytes, batch: int, slot: int, values: Sequence[bytes]) -> SentRows:
        """What a task does, and hands back."""
        with running_task(slot, {BATCH_ID: str(batch), QUERY_ID: self.query_id}):
            writer: KafkaStreamWriter = pickle.loads(started)
            message = writer.write(iter([rows(value=values)]))
        copied: SentRows = pickle.loads(pickle.dumps(message))
        return copied

    def write(self, batch: int, *tasks: Sequence[bytes]) -> list[SentRows]:
        started = self.started()
        return [self.written(started, batch, slot, values) for slot, values in enumerate(tasks)]

    def run(self, batch: int, *tasks: Sequence[bytes]) -> None:
        """A whole micro-batch."""
        self.writer().commit(list(self.write(batch, *tasks)), batch)


class Job:
    """A batch write."""

    def __init__(self, options: dict[str, str]) -> None:
        self.started: bytes = cloudpickle.dumps(  # type: ignore[no-untyped-call]
            KafkaBatchWriter(SinkOptions.parse(options), schema_of("value"))
        )
        self.messages: list[SentRows] = []

    def writer(self) -> KafkaBatchWriter:
        """As the tasks have it, and the process that commits."""
        arrived: KafkaBatchWriter = pickle.loads(self.started)
        return arrived

    def write(self, *tasks: Sequence[bytes]) -> Job:
        for slot, values in enumerate(tasks):
            with running_task(slot, {}):
                message = self.writer().write(iter([rows(value=values)]))
            self.messages.append(pickle.loads(pickle.dumps(message)))
        return self

    def commit(self) -> None:
        self.writer().commit(list(self.messages))

    def abort(self) -> None:
        self.writer().abort([*self.messages, None])
