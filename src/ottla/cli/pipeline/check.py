"""`ottla pipeline check`: whether a file is a pipeline, and which; no Spark and no broker is needed.

And what all commands share that take such a file: its path, what beats it, its mistakes, and its brokers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.options import Bootstrap, Debug, pair, reach
from ottla.cli.output import Cell, show

if TYPE_CHECKING:
    from ottla.spark.pipeline.model import Pipeline, TopicSink, TopicSource

File = Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline, in TOML.", show_default=False)]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        "--checkpoint", metavar="DIR", help="Where the pipeline keeps how far it is, instead of there."
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; may be repeated."),
]


def check(file: File, bootstrap: Bootstrap = None, debug: Debug = False) -> None:
    """Say what a pipeline is, or all that is wrong with its file.

    \b
    Example:
      ottla pipeline check revenue.toml
    """
    pipeline = load(file, bootstrap=bootstrap)
    show(("what", "name", "detail"), list(_rows(pipeline)), as_json=False)
    typer.echo("ok", err=True)


def load(
    file: Path,
    *,
    bootstrap: str | None = None,
    checkpoint: str | None = None,
    conf: Sequence[str] | None = None,
    once: bool = False,
) -> Pipeline:
    """The pipeline of a file, and what the command line says against it; mistakes end the command."""
    from ottla.spark.options.parsing import OptionError
    from ottla.spark.pipeline.model import Pipeline

    try:
        pipeline = Pipeline.from_file(file, overrides=_overrides(bootstrap, checkpoint, conf))
    except OptionError as error:
        typer.echo(f"ottla: {error}", err=True)
        raise typer.Exit(2) from error
    # A batch ends by itself.
    return replace(pipeline, trigger="available-now") if once and pipeline.mode == "stream" else pipeline


def reach_brokers(pipeline: Pipeline) -> None:
    """Raises within seconds where none responds, before Spark takes as long to start and a minute to notice."""
    if "bootstrap.servers" not in pipeline.kafka:
        return  # each source and sink has its own
    from ottla.client.blocking.client import Client
    from ottla.spark.options.client import sink_config

    with Client(config=sink_config(dict(pipeline.kafka))) as kafka:
        reach(kafka)


def _overrides(
    bootstrap: str | None, checkpoint: str | None, conf: Sequence[str] | None
) -> Mapping[str, str]:
    overrides = dict(pair(text, "--conf") for text in conf or ())
    if bootstrap is not None:
        overrides["kafka.bootstrap.servers"] = bootstrap
    if checkpoint is not None:
        overrides["checkpoint"] = checkpoint
    return overrides


def _rows(pipeline: Pipeline) -> Iterator[Sequence[Cell]]:
    pace = {None: "without pauses", "available-now": "up to what is there, then it ends"}
    how = (
        "one batch"
        if pipeline.mode == "batch"
        else f"stream, {pace.get(pipeline.trigger, f'a micro-batch every {pipeline.trigger}')}"
    )
    yield ("pipeline", pipeline.name, f"{how}; {pipeline.delivery}")
    for name, source in pipeline.sources.items():
        yield ("source", name, _source(source))
    if pipeline.transform is not None:
        sql = pipeline.transform
        yield ("transform", "SQL" if isinstance(sql, str) else "Python", _transform(sql))
    for name, sink in pipeline.sinks.items():
        yield ("sink", name, _sink(sink))
    if pipeline.checkpoint is not None:
        yield ("checkpoint", pipeline.checkpoint, "")


def _source(source: TopicSource) -> str:
    topics = f"topics like {source.pattern}" if source.pattern else ", ".join(source.topics)
    parts = [topics, "table" if source.table else "stream", source.format]
    if source.watermark is not None:
        parts.append(f"watermark {source.watermark.column} - {source.watermark.delay}")
    if source.dead_letter is not None:
        parts.append(f"malformed to {source.dead_letter}")
    elif source.format != "bytes":
        parts.append(f"malformed: {source.malformed}")
    return "; ".join(parts)


def _transform(transform: object) -> str:
    if isinstance(transform, str):
        text = " ".join(transform.split())
        return text if len(text) <= 60 else text[:57] + "..."
    return getattr(transform, "__qualname__", repr(transform))


def _sink(sink: TopicSink) -> str:
    parts = [sink.topic, sink.format, sink.output]
    if sink.key is not None:
        parts.append(f"key {sink.key}")
    if sink.where is not None:
        parts.append(f"where {sink.where}")
    return "; ".join(parts)
