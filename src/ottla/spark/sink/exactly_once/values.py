"""What travels between the driver of a batch and its tasks, pickled: small values, and nothing that acts.

Invariant: everything that `commit_batch` needs comes from the outcomes of the tasks. The process that commits is not
the one that has started the batch, and must not initialize anything by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ottla.client.transactions.prepared import PreparedTransaction
from ottla.spark.sink.exactly_once.names import SinkNames


class SinkDriver(NamedTuple):
    """Who the driver is to the brokers: the producer of the sink's driver id that was initialized for this batch."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class LastDecision:
    """What the last decision said when the batch began."""

    query_id: str
    batch_id: int
    tasks: int
    complete: bool
    """Whether every transaction of its list is known to be committed."""
    released: bool = False
    """Whether another query may go on with the sink."""


@dataclass(frozen=True, slots=True)
class BatchStart:
    """What the tasks of a batch are told."""

    names: SinkNames
    driver: SinkDriver
    last: LastDecision | None
    timeout_ms: int
    """After how long brokers abort a transaction of the sink."""
    slots: int
    """How many slots had a marker partition when the batch began."""


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What the driver is told by a task."""

    slot: int
    start: BatchStart
    query_id: str
    batch_id: int
    prepared: PreparedTransaction | None
    """The open transaction with the rows; None where the task has skipped, or has had none."""
    skipped: bool
    """The rows of this slot are committed already."""
    rows: int
    began_at: float
    """Seconds since 1970."""
