"""What a session is to do, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from bench.clients.job import Codec

Connector: TypeAlias = Literal["kafka", "ottla", "memory"]
"""The formats: the JVM connector, this one, and Arrow batches from memory (`bench.spark_jobs.memory`)."""

JSON_COLUMNS = "id bigint, customer string, amount double, country string, note string"
"""The columns of the values that are JSON."""

ROWS_A_MICRO_BATCH = 100


@dataclass(frozen=True)
class Job:
    """One measurement: `topic` is read, or written in the case `write`; a `stream` reads it and writes to `sink`.

    `rows` is how many the topic has or shall have; of a stream, the micro-batches are counted instead.
    """

    case: Literal["read", "json", "count", "count_json", "write", "stream"]
    connector: Connector
    bootstrap: str
    topic: str
    rows: int = 0
    size: int = 100
    codec: Codec = "none"
    partitions: int = 1
    batches: int = 0
    sink: str = ""


@dataclass(frozen=True)
class Measured:
    """Times are in seconds.

    Of a stream: `wall` is from its start to the end of its first micro-batch, `batches` is what Spark says the
    later ones took, and `passed` is from the moment rows were stored to the end of their micro-batch.
    """

    wall: float = 0.0
    rows: int = 0
    batches: list[float] = field(default_factory=list)
    passed: list[float] = field(default_factory=list)
