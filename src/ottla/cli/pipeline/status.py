"""`ottla pipeline status`: how far the pipeline of a file is, from its checkpoints and its topics; no Spark."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from ottla.cli.options import Bootstrap, Debug, Json
from ottla.cli.output import Cell, show
from ottla.cli.pipeline.check import Checkpoint, File, load, reach_brokers

if TYPE_CHECKING:
    from ottla.spark.pipeline.model import Pipeline
    from ottla.spark.pipeline.status import SinkStatus


def status(
    file: File,
    checkpoint: Checkpoint = None,
    bootstrap: Bootstrap = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show how far a pipeline is: the last micro-batch of each sink, its lag, and what is open.

    \b
    Examples:
      ottla pipeline status revenue.toml
      ottla pipeline status revenue.toml --json | jq .sinks[].lag
    """
    from ottla.spark.pipeline.status import pipeline_status

    pipeline = load(file, bootstrap=bootstrap, checkpoint=checkpoint)
    reach_brokers(pipeline)
    found, now = pipeline_status(pipeline), datetime.now(UTC)
    if json:
        typer.echo(json_module.dumps(_as_json(pipeline, found), ensure_ascii=False))
        return
    rows = [row for each in found for row in _rows(each, now)]
    show(("what", "where", "detail"), rows, as_json=False)


def _rows(sink: SinkStatus, now: datetime) -> Iterator[Sequence[Cell]]:
    yield ("sink", sink.sink, _summary(sink, now))
    for each in sink.positions:
        read = "nothing read" if each.offset is None else f"read up to {each.offset}"
        end = "it is gone" if each.end is None else f"ends at {each.end}"
        lag = "" if each.lag is None else f", lag {each.lag}"
        yield ("source", f"{each.topic}:{each.partition}", f"{read}, {end}{lag}")
    state = sink.delivery
    if state is None:
        return
    if state.last is not None:
        yield ("decision", sink.sink, f"batch {state.last.batch_id}, {state.last.tasks} tasks")
    for left in state.open:
        fate = "decided, to be committed" if left.is_decided else "undecided"
        yield ("open", f"{state.names.sink_id}, slot {left.slot}", fate)
    if state.lost:
        slots = ", ".join(map(str, state.lost))
        yield ("lost", f"{state.names.sink_id}, slots {slots}", "decided and gone: start the pipeline again")


def _summary(sink: SinkStatus, now: datetime) -> str:
    if sink.is_new:
        return "never started"
    parts = []
    if sink.batch is not None:
        parts.append(f"batch {sink.batch} committed {_ago(sink.committed_at, now)}")
    if sink.begun is not None:
        parts.append(f"batch {sink.begun} begun {_ago(sink.begun_at, now)}")
    if sink.lag is not None:
        parts.append(f"lag {sink.lag}")
    if sink.is_writing:
        parts.append("a transaction is open: it runs, or was left so")
    return ", ".join(parts)


def _ago(when: datetime | None, now: datetime) -> str:
    if when is None:
        return "at an unknown time"
    seconds = max(0, int((now - when).total_seconds()))
    if seconds < 120:
        return f"{seconds} s ago"
    if seconds < 7200:
        return f"{seconds // 60} min ago"
    return f"at {when.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"


def _as_json(pipeline: Pipeline, sinks: Sequence[SinkStatus]) -> dict[str, Any]:
    return {"pipeline": pipeline.name, "sinks": [_sink_as_json(each) for each in sinks]}


def _sink_as_json(sink: SinkStatus) -> dict[str, Any]:
    state = sink.delivery
    return {
        "sink": sink.sink,
        "sink_id": sink.sink_id,
        "checkpoint": sink.checkpoint,
        "started": not sink.is_new,
        "batch": sink.batch,
        "committed": _moment(sink.committed_at),
        "begun": sink.begun,
        "begun_at": _moment(sink.begun_at),
        "lag": sink.lag,
        "positions": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "offset": each.offset,
                "end": each.end,
                "lag": each.lag,
            }
            for each in sink.positions
        ],
        "writing": sink.is_writing,
        "decided": None if state is None or state.last is None else state.last.batch_id,
        "open": [] if state is None else [left.slot for left in state.open],
        "lost": [] if state is None else list(state.lost),
    }


def _moment(when: datetime | None) -> str | None:
    return None if when is None else when.astimezone(UTC).isoformat(timespec="milliseconds")
