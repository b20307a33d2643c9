"""A Spark session for the tests of the connector: one for each process of the test run, made when it is first used.

Small, quiet, and without a port that two processes could fight for. Where there is no Java that Spark can run on, the
tests that need it are skipped, and say so.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.crashes.kill_hook import ORDERS
from tests.spark.crashes.steps import KillOrders, hooked
from tools.preflight import check_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stopTimeout": "20s",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two threads; whatever a test sets in its configuration, it has to unset."""
    problem = check_java()
    if problem is not None:
        pytest.skip(problem)
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("spark")
    os.environ.update(hooked(folder, os.environ.get("PYTHONPATH")))
    builder = SparkSession.builder.master("local[2]").appName("ottla tests")
    conf = {**_CONF, "spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.local.dir": str(folder)}
    for name, value in conf.items():
        builder = builder.config(name, value)
    session = _quietly(builder, folder)
    yield session
    session.stop()
    _end_gateway()


@pytest.fixture
def kill_orders(spark: SparkSession) -> Iterator[KillOrders]:
    """For the Python processes of this session: its planners, workers and committers."""
    orders = KillOrders(Path(os.environ[ORDERS]).parent)
    yield orders
    orders.withdraw()


@pytest.fixture(autouse=True)
def no_clients_are_kept() -> Iterator[None]:
    """The cluster of a test ends with it: a client that is kept for the next one would look for it in vain."""
    yield
    from ottla.spark.process import clients

    for config, partitioner in list(clients._clients._kept):
        clients.discard(config, partitioner)


def _quietly(builder: SparkSession.Builder, folder: Path) -> SparkSession:
    """Log4j writes into a file: what Spark logs about failures that a test wants would drown the test's own words."""
    properties = folder / "log4j2.properties"
    properties.write_text(
        "rootLogger.level = warn\n"
        "rootLogger.appenderRef.file.ref = file\n"
        "appender.file.type = File\n"
        "appender.file.name = file\n"
        f"appender.file.fileName = {folder / 'spark.log'}\n"
        "appender.file.layout.type = PatternLayout\n"
        "appender.file.layout.pattern = %d %p %c: %m%n%ex\n"
    )
    option = f"-Dlog4j2.configurationFile={properties.as_uri()}"
    return builder.config("spark.driver.extraJavaOptions", option).getOrCreate()


def _end_gateway() -> None:
    """The JVM ends with its standard input; without this its pipe is left to the collector, which warns."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()
        process.wait(timeout=30)
    SparkContext._gateway = None
    SparkContext._jvm = None
