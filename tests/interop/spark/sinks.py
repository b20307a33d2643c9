"""The jobs that write, and what they leave in their topic, read back by confluent-kafka."""

from __future__ import annotations

from confluent_kafka import Message
from pyspark.sql import DataFrame

from tests.interop.confluent import committed
from tests.interop.spark.jobs import AVAILABLE_NOW, Job
from tests.interop.spark.outcome import Plain
from tests.interop.spark.run import Options, Run, ended


def write(
    query: str, *, mode: str | None = "append", partitions: int = 1, looks_at: tuple[str, ...] = ("t", "u")
) -> Job:
    """The rows of a query, into the topics t and u, or another that there is none of before."""

    def job(run: Run, options: Options) -> Plain:
        _make_topics(run, partitions)
        writer = run.spark.sql(query.replace("@prefix@", run.prefix)).write.format(run.format)
        writer = writer.options(**run.options(options))
        (writer.mode(mode) if mode else writer).save()
        return _written(run, looks_at)

    return job


def write_stream(*columns: str, mode: str = "append") -> Job:
    """A stream of the JVM connector, whichever sink is looked at, with the columns that are named."""

    def job(run: Run, options: Options) -> Plain:
        _make_topics(run, 1)
        source = {"subscribe": "side-plain", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "40"}
        frame = run.stream(source, format="kafka")
        selected = frame.selectExpr(*(column.replace("@prefix@", run.prefix) for column in columns))
        _write_all(run, selected, options, mode)
        return _written(run, ("t", "u"))

    return job


def _write_all(run: Run, frame: DataFrame, options: Options, mode: str) -> None:
    query = (
        frame.writeStream.format(run.format)
        .options(**run.options(options))
        .option("checkpointLocation", str(run.folder / "checkpoint"))
        .outputMode(mode)
        .trigger(**AVAILABLE_NOW)
        .start()
    )
    ended(query)


def _make_topics(run: Run, partitions: int) -> None:
    for name in ("t", "u"):
        run.topics.create(run.topic(name), partitions)


def _written(run: Run, names: tuple[str, ...]) -> Plain:
    return {name: records_of(run.bootstrap, run.topic(name)) for name in names}


def records_of(bootstrap: str, topic: str) -> Plain:
    """Partition, key, value and headers of every record, sorted: who writes decides on no order between tasks."""
    return sorted(map(_plain, committed(bootstrap, topic)), key=repr)


def _plain(message: Message) -> Plain:
    headers = [[pair[0], _text(pair[1])] for pair in message.headers() or []]
    return [message.partition(), _text(message.key()), _text(message.value()), headers]


def _text(data: str | bytes | None) -> str | None:
    return data.decode("latin-1") if isinstance(data, bytes) else data
