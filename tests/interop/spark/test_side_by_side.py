"""The same job with both connectors: the same rows, tasks, offsets and errors, but for the differences listed."""

from __future__ import annotations

from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.interop.apache import ApacheKafka
from tests.interop.spark.cases import CASES
from tests.interop.spark.cases.case import Case
from tests.interop.spark.comparing import differing, stale, unexplained
from tests.interop.spark.differences import DIFFERENCES
from tests.interop.spark.outcome import Plain, error_of, said, without_names
from tests.interop.spark.run import Run
from tests.interop.spark.topics import Topics

_MARKED = [
    pytest.param(case, id=case.id, marks=pytest.mark.kafka_full if case.full else pytest.mark.kafka)
    for case in CASES
]


def outcome(case: Case, run: Run) -> tuple[Plain, str]:
    """What is compared, and for who reads a failure, what an error said."""
    try:
        return without_names(case.job(run, case.options), run.prefix), ""
    # Spark has no Python class for most of the JVM's exceptions.
    except (PySparkException, Py4JJavaError) as error:
        return error_of(error, case.says), f"\n{run.format}: {said(str(error))}"


@pytest.mark.parametrize("case", _MARKED)
def test_both_connectors_do_the_same(
    case: Case, both_connectors: SparkSession, apache: ApacheKafka, topics: Topics, tmp_path: Path
) -> None:
    (jvm, jvm_error), (ottla, our_error) = (
        outcome(case, Run(both_connectors, name, apache.bootstrap, tmp_path / name, case.id, topics))
        for name in ("kafka", "ottla")
    )
    assert jvm_error == "" if not case.says else jvm == {"error": list(case.says)}, (
        jvm_error or "it has not failed"
    )
    found = list(differing(jvm, ottla))
    known = [entry for entry in DIFFERENCES if case.id in entry.cases]
    assert "\n".join(map(str, unexplained(found, known))) == "", our_error
    assert stale(found, known) == []
