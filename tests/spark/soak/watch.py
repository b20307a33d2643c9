"""What a soak looks at: memory of Python processes, open transactions, transactional ids; and their bounds.

Drivers and workers come and go with the faults, so none lives long enough for a slow growth to show: a bound is what
a process has never needed, and what is left behind on brokers may not become more with every crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import ottla
from ottla.errors import KafkaError
from tests.spark.soak.stages import Stage

PARTITIONS: Final = 4
"""Of each topic, and so tasks of each batch."""
LARGEST_MB: Final = 400.0
"""Of any Python process: importing Spark, Arrow and Ottla takes some 100."""
IDS_A_STAGE: Final = 1 + PARTITIONS
"""The driver's, and one for each task: as many as there are, however often a stage is started."""


class SoakError(AssertionError):
    """What a soak is there to find; the message says what was found."""


@dataclass
class Sample:
    """One look."""

    driver_mb: float = 0.0
    """The largest of the programs."""
    worker_mb: float = 0.0
    """The largest of their Python processes."""
    together_mb: float = 0.0
    open: int | None = None
    """Transactions of the sinks; None where brokers could not be asked."""
    ids: int | None = None

    def __str__(self) -> str:
        return (
            f"Python: driver {self.driver_mb:.0f} MB, largest worker {self.worker_mb:.0f} MB, together "
            f"{self.together_mb:.0f} MB; {_shown(self.open)} open transactions, {_shown(self.ids)} ids"
        )


def _shown(count: int | None) -> str:
    return "?" if count is None else str(count)


@dataclass
class Watch:
    """Takes samples and compares each with the bounds."""

    bootstrap: str
    stages: Sequence[Stage]
    most: Sample = field(default_factory=Sample)

    def look(self) -> Sample:
        sample = Sample()
        for stage in self.stages:
            for number, process in enumerate(each for each in stage.processes() if each.is_python):
                megabytes = process.megabytes
                sample.together_mb += megabytes
                if number == 0:
                    sample.driver_mb = max(sample.driver_mb, megabytes)
                else:
                    sample.worker_mb = max(sample.worker_mb, megabytes)
        self._ask_brokers(sample)
        self._keep(sample)
        check(sample, len(self.stages))
        return sample

    def _ask_brokers(self, sample: Sample) -> None:
        prefixes = tuple(f"{each.sink_id}-" for each in self.stages if each.sink_id is not None)
        try:
            with ottla.Client(self.bootstrap) as client:
                listed = client.admin.list_transactions()
        except (KafkaError, TimeoutError):
            return  # a fault may be under way
        of_sinks = {name: each for name, each in listed.items() if name.startswith(prefixes or ("-",))}
        sample.ids = len(of_sinks)
        sample.open = sum(each.state == "Ongoing" for each in of_sinks.values())

    def _keep(self, sample: Sample) -> None:
        most = self.most
        most.driver_mb = max(most.driver_mb, sample.driver_mb)
        most.worker_mb = max(most.worker_mb, sample.worker_mb)
        most.together_mb = max(most.together_mb, sample.together_mb)
        most.open = max(most.open or 0, sample.open or 0)
        most.ids = max(most.ids or 0, sample.ids or 0)


def check(sample: Sample, stages: int) -> None:
    """SoakError if something is more than it may be."""
    largest = max(sample.driver_mb, sample.worker_mb)
    if largest > LARGEST_MB:
        raise SoakError(
            f"a Python process has {largest:.0f} MB, and {LARGEST_MB:.0f} are the most it may have"
        )
    most_ids = stages * IDS_A_STAGE
    if (sample.ids or 0) > most_ids:
        raise SoakError(f"the sinks have {sample.ids} transactional ids, and need {most_ids}")
    if (sample.open or 0) > most_ids:
        raise SoakError(f"the sinks have {sample.open} open transactions, with {most_ids} ids")


def compare(topic: str, fed: int, found: Sequence[int]) -> None:
    """SoakError unless every number is there once."""
    unique = set(found)
    lost, doubled = set(range(fed)) - unique, len(found) - len(unique)
    strange = unique - set(range(fed))
    if lost or doubled or strange:
        raise SoakError(
            f"topic {topic}: {len(lost)} of {fed} numbers are lost (such as {sorted(lost)[:5]}), {doubled} are there "
            f"more than once, {len(strange)} were never written"
        )
