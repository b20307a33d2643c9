"""How far a pipeline is, and whether something of it is open, without Spark: out of its checkpoints and its topics.

A checkpoint has a file for each micro-batch that was planned, with the offsets where it ends, and one for each that
is committed. A planned one that is not committed runs now, or has failed or been interrupted: which of these, files
do not say. An open transaction of its sink, or a commit of some seconds ago, is the best that is known.

Invariant: looking changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from ottla.client.topic_partition import TopicPartition
from ottla.spark.checkpoint_files import contents, numbered
from ottla.spark.options.parsing import OptionError
from ottla.spark.pipeline.options import sink_checkpoint, sink_id, sink_options, source_options

if TYPE_CHECKING:
    from ottla.spark.pipeline.model import Pipeline
    from ottla.spark.sink.exactly_once.recovery import SinkState

_NOTHING: Final = "-"
"""In place of the offset of a source that has not begun."""


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """A partition that a sink's query reads: the next offset to be read, and where the partition ends."""

    topic: str
    partition: int
    offset: int | None
    """None: nothing of it was read."""
    end: int | None
    """None: there is no such partition any more."""

    @property
    def lag(self) -> int | None:
        """How many offsets it has that were not read; None where that is not known."""
        if self.offset is None or self.end is None:
            return None
        return max(0, self.end - self.offset)


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """A sink of a pipeline at one moment."""

    sink: str
    sink_id: str
    checkpoint: str
    batch: int | None
    """The last micro-batch that is committed; None: there is none yet."""
    committed_at: datetime | None
    begun: int | None
    """A later one that was planned."""
    begun_at: datetime | None
    positions: tuple[SourcePosition, ...]
    """Behind the last committed batch."""
    delivery: SinkState | None
    """Of exactly-once writes; None where there are none, or nothing was written yet."""

    @property
    def is_new(self) -> bool:
        """Whether it was never started."""
        return self.batch is None and self.begun is None

    @property
    def is_writing(self) -> bool:
        """Whether a transaction is open: of a micro-batch that runs, or of one that was left."""
        return self.delivery is not None and (bool(self.delivery.open) or self.delivery.driver_is_open)

    @property
    def lag(self) -> int | None:
        known = [each.lag for each in self.positions if each.lag is not None]
        return sum(known) if known else None


def pipeline_status(pipeline: Pipeline) -> tuple[SinkStatus, ...]:
    """Of each sink, in their order."""
    if pipeline.checkpoint is None:
        raise OptionError(
            f"pipeline {pipeline.name} has no checkpoint, as one of mode batch: nothing is kept of how far it is"
        )
    ends = _ends(pipeline)
    return tuple(_sink(pipeline, name, ends) for name in pipeline.sinks)


def _sink(pipeline: Pipeline, name: str, ends: Mapping[TopicPartition, int]) -> SinkStatus:
    checkpoint = sink_checkpoint(pipeline, name)
    assert checkpoint is not None
    committed, planned = numbered(f"{checkpoint}/commits"), numbered(f"{checkpoint}/offsets")
    batch = max(committed, default=None)
    begun = max((each for each in planned if batch is None or each > batch), default=None)
    read = {} if batch is None else offsets_in(contents(f"{checkpoint}/offsets/{batch}").decode())
    return SinkStatus(
        name,
        sink_id(pipeline, name),
        checkpoint,
        batch,
        None if batch is None else committed[batch],
        begun,
        None if begun is None else planned[begun],
        tuple(_positions(read, ends)),
        _delivery(pipeline, name),
    )


def offsets_in(text: str) -> dict[TopicPartition, int]:
    """Of a file in the folder `offsets`: a version, a line of settings, and a line for each source.

    A partition that several sources read counts as far as all of them have come.
    """
    from ottla.spark.source.checkpoint import from_json

    found: dict[TopicPartition, int] = {}
    for line in text.splitlines()[2:]:
        if line in ("", _NOTHING):
            continue
        for partition, offset in from_json(json.loads(line)).items():
            found[partition] = min(offset, found.get(partition, offset))
    return found


def _positions(
    read: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Iterable[SourcePosition]:
    for partition in sorted(ends.keys() | read.keys()):
        yield SourcePosition(*partition, read.get(partition), ends.get(partition))


def _ends(pipeline: Pipeline) -> dict[TopicPartition, int]:
    """Of all that the streams among the sources read, each on the cluster that it is read from."""
    from ottla.client.blocking.client import Client
    from ottla.spark.options.client import source_config
    from ottla.spark.options.connector import SourceOptions
    from ottla.spark.source.partition_discovery import discover

    ends: dict[TopicPartition, int] = {}
    for name, source in pipeline.sources.items():
        if source.table:
            continue
        options = SourceOptions.parse(source_options(pipeline, name), streaming=True)
        with Client(config=source_config(options.kafka)) as kafka:
            there = discover(kafka, options.topics, kafka.config.default_api_timeout_ms / 1000).partitions
            listed = kafka.admin.list_offsets(list(there), "latest", isolation=source.isolation)
        ends |= {partition: each.offset for partition, each in listed.items() if each.offset is not None}
    return ends


def _delivery(pipeline: Pipeline, name: str) -> SinkState | None:
    if pipeline.delivery != "exactly-once":
        return None
    from ottla.spark.sink.exactly_once.recovery import UnknownSinkError
    from ottla.spark.sink.recover import recover

    try:
        return recover(sink_options(pipeline, name), sink_id(pipeline, name))
    except UnknownSinkError:
        return None
