"""One Spark with both connectors, and the topics that the cases share, for the whole run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.interop.apache import ApacheKafka
from tests.interop.spark import connector
from tests.interop.spark.topics import Topics, fill_shared

_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


@pytest.fixture(scope="session")
def both_connectors(
    kafka_installed: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """A session in which "kafka" is the JVM's connector and "ottla" ours."""
    # Jars reach the JVM only when it starts: a session of other tests would lack them.
    assert SparkContext._active_spark_context is None, "another Spark runs in this process"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(map(str, connector.ensure())))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.streaming.checkpointFileManagerClass", _CHECKPOINTS)
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def topics(apache: ApacheKafka) -> Iterator[Topics]:
    """The cluster's topics, with the shared ones filled."""
    topics = Topics(apache.bootstrap)
    fill_shared(topics)
    yield topics
    topics.close()
