"""A Spark of several processes: a driver, and two executors beside it."""

from __future__ import annotations

from pathlib import Path

from ottla.broker import Cluster
from tests.spark.deployment.conftest import ORDERS
from tests.spark.deployment.processes import run_jobs


def test_executors_read_and_write_and_one_that_is_killed_loses_nothing(
    orders: Cluster, tmp_path: Path
) -> None:
    """One session for both claims: executors take longer to start than to do all of this."""
    outcomes = run_jobs(
        ["copy", "lose_an_executor"],
        master="local-cluster[2,1,1024]",
        bootstrap=orders.bootstrap,
        folder=tmp_path,
    )

    assert outcomes["copy"] == {"rows": len(ORDERS)}
    for topic in ("copied", "streamed"):
        assert sorted(record.value or b"" for record in orders.dump(topic)) == ORDERS

    assert outcomes["lose_an_executor"]["values"] == [value.decode() for value in ORDERS]
    assert max(outcomes["lose_an_executor"]["attempts"]) > 0
