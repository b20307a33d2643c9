"""The crash matrix: which job, on which Spark, is killed where; and what its topic has to hold in the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.spark.crashes.steps import IN_TASK, ON_DRIVER, STEPS, Kill

# Two files a micro-batch.
INPUT: Mapping[str, tuple[str, ...]] = {"1": ("a", "a"), "2": ("b",), "3": ("a",), "4": ("c",)}
_ROWS = ("a", "a", "a", "b", "c")
_TOTALS_IN_FULL = ("a=2", "b=1", "a=3", "b=1", "c=1")
_TOTALS_THAT_CHANGED = ("a=2", "b=1", "a=3", "c=1")
_OUTPUT: Mapping[str, tuple[str, ...]] = {
    "append": _ROWS,
    "for_each_batch": _ROWS,
    "retried": _ROWS,
    "complete": _TOTALS_IN_FULL,
    "update": _TOTALS_THAT_CHANGED,
}
_LOCAL = "local[2]"
_RETRYING = "local[2,3]"
"""Tries a task three times; a local Spark does not try again unless it is told so here."""
_CLUSTER = "local-cluster[2,1,1024]"


@dataclass(frozen=True)
class Scenario:
    """Each kill is of one run of the program; the run after the last one is left alone."""

    name: str
    job: str = "append"
    master: str = _LOCAL
    kills: tuple[Kill, ...] = ()
    tasks: tuple[int, ...] = ()
    """How many tasks each run has; where it is not said, two files make two."""
    options: tuple[str, ...] = ()
    expires: bool = False
    """Whether brokers abort what the killed run has left open before the next begins."""

    @property
    def output(self) -> list[bytes]:
        return sorted(row.encode() for row in _OUTPUT[self.job])


def _scenarios() -> Iterator[Scenario]:
    for step in (*ON_DRIVER, *IN_TASK):
        yield Scenario(f"driver-{step}", kills=(STEPS[step].of("driver"),))
    for step in IN_TASK:
        yield Scenario(f"worker-{step}", master=_RETRYING, kills=(STEPS[step],))
    for step in ("1-after", "4-checked", "4-decided", "5-one-ended", "6-after"):
        yield Scenario(f"for-each-batch-{step}", job="for_each_batch", kills=(STEPS[step].of("driver"),))
    for step in ("3-prepared", "4-decided", "6-after"):
        yield Scenario(f"complete-{step}", job="complete", kills=(STEPS[step].of("driver"),))
        yield Scenario(f"update-{step}", job="update", kills=(STEPS[step].of("driver"),))
    for step in ("2-fenced", "3-marker-sent", "3-prepared"):
        yield Scenario(f"executor-{step}", master=_CLUSTER, kills=(STEPS[step].of("executor"),))
    for step in ("1-after", "4-decided", "5-one-ended"):
        yield Scenario(f"cluster-{step}", master=_CLUSTER, kills=(STEPS[step].of("driver"),))
    yield Scenario("retried", job="retried", master=_RETRYING)
    yield Scenario(
        "twice-in-recovery",
        kills=(STEPS["4-decided"].of("driver"), Kill("driver", "finish_decision", "before", victim="driver")),
    )
    yield Scenario(
        "twice-behind-recovery",
        kills=(STEPS["5-one-ended"].of("driver"), Kill("endings", "_ended", "after", victim="driver")),
    )
    yield Scenario("second-batch", kills=(Kill("driver", "_decide", "after", call=2, victim="driver"),))
    yield Scenario("wider", kills=(STEPS["4-checked"].of("driver"),), tasks=(2, 5))
    yield Scenario("narrower", kills=(STEPS["3-prepared"].of("driver"),), tasks=(5, 2))
    yield Scenario("wider-when-complete", kills=(STEPS["6-after"].of("driver"),), tasks=(2, 5))
    yield Scenario(
        "expired-undecided",
        kills=(STEPS["4-checked"].of("driver"),),
        options=("kafka.transaction.timeout.ms=20000",),
        expires=True,
    )
    yield Scenario(
        "expired-decided",
        kills=(STEPS["4-decided"].of("driver"),),
        options=("kafka.transaction.timeout.ms=20000",),
        expires=True,
    )
    yield Scenario("zombie", kills=(Kill("task", "produce_control", "before", victim="zombie"),))


SCENARIOS = tuple(_scenarios())
