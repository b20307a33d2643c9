"""The pipelines of examples/, ended in the middle and started again: what they write is exact.

A driver is killed with its JVM in the midst of a micro-batch, before or behind the record that decides it, or the
command gets a SIGTERM. What comes in meanwhile is read by the next run. The ordinary suites have the driver killed on
both brokers in local mode, and one of them on a standalone Spark of two workers; the rest is for
`make test-kafka-full`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Literal, NamedTuple

import pytest

from tests.interop.pipelines import changes, revenue
from tests.interop.pipelines.example import Example
from tests.interop.pipelines.runs import Ending, ExampleRuns
from tests.spark.crashes.steps import STEPS

_EXAMPLES: dict[str, tuple[Callable[[], Example], str]] = {
    "revenue": (revenue.example, "5-one-ended"),
    "changes": (changes.example, "4-checked"),
}
"""Each with the step at which its first run is ended: a micro-batch that is decided, and one that is not."""
_LOCAL = "local[2]"


class Case(NamedTuple):
    example: str
    broker: Literal["ottla", "apache"]
    spark: Literal["local", "standalone"]
    ending: Ending


_ORDINARY_STANDALONE = Case("revenue", "ottla", "standalone", "killed")


def _marked(case: Case) -> object:
    marks = []
    if not (case.ending == "killed" and (case.spark == "local" or case == _ORDINARY_STANDALONE)):
        marks.append(pytest.mark.kafka_full)
    elif case.broker == "apache":
        marks.append(pytest.mark.kafka)
    return pytest.param(case, id="-".join(case), marks=marks)


# Those on a standalone Spark after another: it is started once.
CASES = [
    _marked(Case(example, broker, spark, ending))  # type: ignore[arg-type]
    for spark, broker, example, ending in product(
        ("local", "standalone"), ("ottla", "apache"), _EXAMPLES, ("killed", "terminated")
    )
]


@pytest.mark.parametrize("case", CASES)
def test_an_example_that_is_ended_in_the_middle_writes_everything_once(
    case: Case, java: None, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    make, step = _EXAMPLES[case.example]
    # By name, so that only what the case wants is started.
    cluster = request.getfixturevalue("embedded" if case.broker == "ottla" else "apache")
    master = _LOCAL if case.spark == "local" else request.getfixturevalue("two_workers")
    runs = ExampleRuns(make(), cluster.bootstrap, tmp_path, master)
    runs.restarted(case.ending, STEPS[step])
    runs.check()
