"""The crash matrix: which job, on which Spark, meets what where; and what its topic has to hold in the end.

Each group below has a test: `KILLED` in test_crash_matrix, `STRUCK` in test_brokers_mid_commit, `REPLACED`,
`MISMATCHED` and `SHARED` in test_replaced_drivers, `BATCH_WRITES` in test_batch_writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

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
    "batch_write": _ROWS,
    "complete": _TOTALS_IN_FULL,
    "update": _TOTALS_THAT_CHANGED,
}
_LOCAL = "local[2]"
_RETRYING = "local[2,3]"
"""Tries a task three times; a local Spark does not try again unless it is told so here."""
_CLUSTER = "local-cluster[2,1,1024]"
_SOON = ("kafka.transaction.timeout.ms=20000",)


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
    strike: Literal["restart", "kill", "move"] | None = None
    """What happens to the coordinator's node while the run is stopped where it would be killed."""

    @property
    def output(self) -> list[bytes]:
        return sorted(row.encode() for row in _OUTPUT[self.job])


def _killed() -> Iterator[Scenario]:
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
    for name, step in {"expired-undecided": "4-checked", "expired-decided": "4-decided"}.items():
        yield Scenario(name, kills=(STEPS[step].of("driver"),), options=_SOON, expires=True)


def _struck() -> Iterator[Scenario]:
    for step in ("3-marker-sent", "4-checked", "4-decision-sent", "4-decided", "5-one-ended"):
        held = (STEPS[step].of("held"),)
        yield Scenario(f"restart-{step}", master=_RETRYING, kills=held, strike="restart")
        yield Scenario(f"move-{step}", master=_RETRYING, kills=held, strike="move")
    for step in ("4-decision-sent", "4-decided", "5-one-ended"):
        held = (STEPS[step].of("held"),)
        yield Scenario(f"kill-{step}", master=_RETRYING, kills=held, strike="kill")
    yield Scenario(
        "for-each-batch-move",
        job="for_each_batch",
        kills=(STEPS["4-decided"].of("held"),),
        strike="move",
    )


KILLED = tuple(_killed())
ZOMBIE = Scenario("zombie", kills=(Kill("task", "produce_control", "before", victim="zombie"),))
STRUCK = tuple(_struck())
REPLACED = tuple(
    Scenario(f"replaced-{step}", kills=(STEPS[step].of("held"),))
    for step in ("1-after", "4-checked", "4-decision-sent")
)
MISMATCHED = (
    Scenario("mismatch-wider", kills=(STEPS["4-decided"].of("driver"),), tasks=(2, 5)),
    # Not behind the first end: all are on their way by then, and one has to be left that can be lost.
    Scenario("mismatch-narrower", kills=(STEPS["4-decided"].of("driver"),), tasks=(5, 1)),
)
SHARED = (
    Scenario("shared-undecided", kills=(STEPS["4-checked"].of("held"),)),
    Scenario("shared-decided", kills=(Kill("driver", "_check_all_open", "after", call=2, victim="held"),)),
)
BATCH_WRITES = tuple(
    Scenario(
        f"batch-write-{step}",
        job="batch_write",
        kills=(STEPS[step].of("driver"),),
        tasks=(2,),
        # A write that was decided has to be finished before its transactions time out.
        options=_SOON if step in ("3-prepared", "4-checked") else (),
    )
    for step in ("3-prepared", "4-checked", "4-decided", "5-one-ended", "6-after")
)

SCENARIOS = (*KILLED, ZOMBIE, *STRUCK, *REPLACED, *MISMATCHED, *SHARED, *BATCH_WRITES)
