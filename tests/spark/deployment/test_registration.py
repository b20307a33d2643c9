"""A notebook's driver: its PYSPARK_DRIVER_PYTHON is no Python that Spark could look for data sources in."""

from __future__ import annotations

import shutil
from pathlib import Path

from ottla.broker import Cluster
from tests.spark.deployment.conftest import ORDERS
from tests.spark.deployment.processes import environment, run_jobs


def test_a_source_that_discovery_cannot_find_is_there_once_it_is_registered(
    orders: Cluster, tmp_path: Path
) -> None:
    no_python = shutil.which("false")
    assert no_python is not None
    outcomes = run_jobs(
        ["read", "copy_as_kafka", "register_and_read"],
        master="local[1]",
        bootstrap=orders.bootstrap,
        folder=tmp_path,
        env=environment(PYSPARK_DRIVER_PYTHON=no_python),
    )
    assert "DATA_SOURCE_NOT_FOUND" in outcomes["read"]["error"]
    # replace_kafka registers it as well.
    assert outcomes["copy_as_kafka"] == {"rows": len(ORDERS)}
    assert outcomes["register_and_read"] == {"rows": len(ORDERS)}
