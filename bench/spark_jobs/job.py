"""What a session is to do, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from bench.clients.job import Codec

Connector: TypeAlias = Literal["kafka", "ottla", "in_memory"]
"""The formats: the JVM connector, this one, and rows in memory (`bench.spark_jobs.memory`)."""

JSON_COLUMNS = "id bigint, customer string, amount double, country string, note string"
"""The columns of the values that are JSON."""

AVRO_SCHEMA = """{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "customer", "type": "string"}, {"name": "amount", "type": "double"},
    {"name": "country", "type": "string"}, {"name": "note", "type": "string"}]}"""
"""The same columns, of the values that are Avro."""

ROWS_A_MICRO_BATCH = 100

AT_LEAST_ONCE = {"ottla.delivery": "at-least-once"}
"""What the JVM connector promises, for jobs that are measured against it."""


@dataclass(frozen=True)
class Job:
    """One measurement: `topic` is read, or written in the case `write`; a `stream` reads it and writes to `sink`.

    `rows` is how many the topic has or shall have; of a stream, the micro-batches are counted instead. `partitions`
    is how many tasks write, and how many tasks rows in memory are read by. `options` are the connector's own, beside
    those that say what is read and written.

    The case `sink` is a stream of rows that Spark makes itself, `rows` of them in each of `batches` micro-batches, to
    `sink`. It goes on from where a `checkpoint` ends, if one is given. If it is `spaced`, a micro-batch begins some
    seconds after the one before, so that the query ends between two of them, and otherwise at once.
    """

    case: Literal[
        "read", "json", "avro", "count", "count_json", "count_avro", "write", "stream", "sum", "sink"
    ]
    connector: Connector
    bootstrap: str
    topic: str
    rows: int = 0
    size: int = 100
    codec: Codec = "none"
    partitions: int = 1
    batches: int = 0
    sink: str = ""
    checkpoint: str = ""
    spaced: bool = False
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """Times are in seconds.

    `rows` are those that a count or a sum saw, `total` is the sum over all groups. Of a stream: `wall` is from the
    first word of the query, `readStream`, to the end of its first micro-batch, `batches` is what Spark says
    that each micro-batch took, and `passed` is from the moment rows were stored to the end of their micro-batch, for
    all but the first. A micro-batch that had begun before the query was started is not counted, and not the first.
    """

    wall: float = 0.0
    rows: int = 0
    total: float = 0.0
    batches: list[float] = field(default_factory=list)
    passed: list[float] = field(default_factory=list)
