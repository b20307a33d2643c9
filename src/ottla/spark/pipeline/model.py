"""What a pipeline is: frozen values, made by a program or read from a file, that know nothing of a running Spark.

    pipeline = Pipeline(
        "revenue",
        kafka={"bootstrap.servers": "localhost:9092"},
        sources={"orders": TopicSource(topics=("orders",), format="json", schema="id bigint, country string")},
        transform="SELECT country, count(*) AS orders FROM orders GROUP BY country",
        sinks={"totals": TopicSink(topic="totals", key="country", format="json", output="update")},
        checkpoint="checkpoints/revenue",
    )
    pipeline.run()

Invariant: a Pipeline that exists is valid, as far as that can be known without Spark and without a broker (`checks`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.spark.pipeline.running import RunningPipeline

ValueFormat: TypeAlias = Literal["bytes", "string", "json", "avro"]
WhenMalformed: TypeAlias = Literal["fail", "drop"]
Isolation: TypeAlias = Literal["read_committed", "read_uncommitted"]
OutputMode: TypeAlias = Literal["append", "update", "complete"]
Mode: TypeAlias = Literal["stream", "batch"]
PipelineDelivery: TypeAlias = Literal["exactly-once", "at-least-once"]
Transform: TypeAlias = "str | Callable[..., DataFrame] | None"


@dataclass(frozen=True, kw_only=True)
class Watermark:
    """How late a row may be: `delay` behind the largest value of `column`, as Spark writes it ("10 seconds")."""

    column: str
    delay: str


@dataclass(frozen=True, kw_only=True)
class TopicSource:
    """A topic, several, or those that a pattern matches, as a DataFrame.

    `table` makes it the newest value of each key, read anew for every micro-batch; otherwise it is a stream (or, in
    a pipeline of mode batch, what is there).
    """

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    format: ValueFormat = "bytes"
    schema: str | None = None
    start: str = "earliest"
    """earliest, latest, or the connector's JSON of offsets. For the first start; later ones go on where it was."""
    table: bool = False
    watermark: Watermark | None = None
    malformed: WhenMalformed = "fail"
    dead_letter: str | None = None
    """The topic of values that cannot be decoded; they are written in the transactions of the rows read with them."""
    isolation: Isolation = "read_committed"
    nested: bool = False
    # Not in the repr, which ends up in logs: there may be a password among them.
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """More options of `format("ottla")`."""


@dataclass(frozen=True, kw_only=True)
class TopicSink:
    """A topic, and what of the transform's rows becomes a record in it."""

    topic: str
    format: ValueFormat = "json"
    schema: str | None = None
    """Of Avro; without it one is made from the columns."""
    key: str | None = None
    """An expression in SQL, for the key as string or binary; None: the column `key` if there is one."""
    columns: tuple[str, ...] = ()
    """What makes the value; none named: all but the one that is the key by its name."""
    where: str | None = None
    output: OutputMode = "append"
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """More options of `format("ottla")`."""


@dataclass(frozen=True)
class Pipeline:
    """Sources, a transform, sinks: one exactly-once query for each sink."""

    name: str
    kafka: Mapping[str, str] = field(default_factory=dict, kw_only=True, repr=False)
    """Options of Kafka's client, for all sources and sinks: `bootstrap.servers` at least."""
    sources: Mapping[str, TopicSource] = field(kw_only=True)
    transform: Transform = field(default=None, kw_only=True)
    """SQL over views that are called as the sources, or a function whose parameters are; None: the only source."""
    sinks: Mapping[str, TopicSink] = field(kw_only=True)
    checkpoint: str | None = field(default=None, kw_only=True)
    mode: Mode = field(default="stream", kw_only=True)
    trigger: str | None = field(default=None, kw_only=True)
    """A pause between the starts of micro-batches ("5 seconds"), or "available-now"; None: no pause."""
    delivery: PipelineDelivery = field(default="exactly-once", kw_only=True)
    spark: Mapping[str, str] = field(default_factory=dict, kw_only=True, repr=False)
    """Settings of the Spark session, by their full names."""

    def __post_init__(self) -> None:
        from ottla.spark.pipeline.checks import check

        check(self)
        # What was checked is what runs, also if a program goes on with its dicts.
        for name in ("kafka", "sources", "sinks", "spark"):
            object.__setattr__(self, name, dict(getattr(self, name)))

    @staticmethod
    def from_file(path: str | Path, *, overrides: Mapping[str, str] | None = None) -> Pipeline:
        """The pipeline of a TOML file; each of its mistakes is in the error, with its line.

        `overrides` beat the file: checkpoint, trigger, mode and delivery by these names, properties of Kafka's client
        as kafka.bootstrap.servers, settings of Spark by their full names.
        """
        from ottla.spark.pipeline.file import load

        return load(path, overrides=overrides)

    def start(
        self, spark: SparkSession | None = None, *, master: str | None = None, remote: str | None = None
    ) -> RunningPipeline:
        """Start the query of each sink, in `spark` or in a session of its own, and return what watches them."""
        from ottla.spark.pipeline.running import start

        return start(self, spark, master=master, remote=remote)

    def run(
        self, spark: SparkSession | None = None, *, master: str | None = None, remote: str | None = None
    ) -> None:
        """Start, and wait until all queries have ended, or one has failed."""
        from ottla.spark.pipeline.running import run

        run(self, spark, master=master, remote=remote)
