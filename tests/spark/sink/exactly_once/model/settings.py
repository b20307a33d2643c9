"""Which protocol is tried, and under which faults."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from tests.spark.sink.exactly_once.model.state import LAST, OLD, Faults


class Mistake(Enum):
    """A careless reading of the protocol; as shipped it has none of them."""

    SHARED_PARTITION = (
        "decisions and markers share a partition, in which an open transaction hides what follows"
    )
    NO_FENCE = "a driver begins without initializing its id"
    NO_RECOVERY = "a driver does not finish the last decision"
    RECOVERY_RAISES = "a driver that finishes the last decision takes a refusal for an error"
    COMMIT_INITIALIZES = "the process that commits initializes the driver's id"
    EPOCH_KEPT = "a task goes on in the epoch of the batch before"
    SKIP_IS_LISTED = "a task that skips returns its epoch, which the decision lists"
    ANY_WIDTH = "a decided batch that is not complete may run again with another number of tasks"
    OWN_MARKERS_ONLY = "tasks of a complete batch write if they have no marker of their own"
    ANY_MARKER_SKIPS = "a task skips by a marker that the last decision does not explain"
    SWEEP_FIRST = "what is open is swept before the last decision is finished"
    SWEEP_UNCHECKED = "a driver sweeps without a look whether it is the current one"
    SWEEP_CHECKED_EARLY = "a driver looks whether it is the current one, and then what is open"
    SWEEP_UNSURE = "nothing makes sure that what a sweep aborts is not decided"
    SWEEP_ANY_EPOCH = "a sweep aborts what is open by then, not what it has seen"
    SWEEP_LAST_BATCH = "only the slots of the last batch are swept"
    ABORT_LOOKS = "abort looks whether there is a decision, and does not make sure that none can follow"
    DECISION_UNCHECKED = "nothing makes sure that the decision a batch began with was the last one"
    MARKER_UNCHECKED = "nothing makes sure that the marker a task began with was the last one"


class Form(Enum):
    DATA_SOURCE = "the data source, whose commit is another process"
    FOREACH_BATCH = "foreachBatch, which is one process"


@dataclass(frozen=True)
class Settings:
    faults: Faults
    version: int = 2
    """transaction.version"""
    form: Form = Form.DATA_SOURCE
    widths: tuple[int, ...] = (1, 2)
    """How many tasks a run of a batch may have."""
    mistakes: frozenset[Mistake] = field(default_factory=frozenset)

    @property
    def oldest(self) -> int:
        """The age from which on epochs are all the same to a coordinator."""
        return OLD if self.version == 2 else LAST

    @property
    def decisions_kept(self) -> int:
        needs_two = self.faults.stale or Mistake.SHARED_PARTITION in self.mistakes
        return 2 if needs_two else 1
