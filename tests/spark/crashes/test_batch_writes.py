"""`df.write`, of which a process is killed: all of its rows are written, or none of them."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.spark.crashes.conftest import Copying
from tests.spark.crashes.steps import STEPS

_OF_SPARK = (PySparkException, Py4JJavaError)


def test_a_batch_write_that_was_not_decided_has_written_nothing(
    copying: Copying, spark: SparkSession
) -> None:
    copying.orders.give(STEPS["3-prepared"])
    with pytest.raises(_OF_SPARK):
        write(copying, spark)
    assert copying.orders.are_carried_out
    write(copying, spark)
    assert copying.written == [b"a", b"b", b"c"]


def test_a_batch_write_that_was_decided_is_finished_by_the_next(
    copying: Copying, spark: SparkSession
) -> None:
    copying.orders.give(STEPS["4-decided"])
    with pytest.raises(_OF_SPARK):
        write(copying, spark)
    assert copying.orders.are_carried_out
    assert copying.written == []
    write(copying, spark)
    assert copying.written == [b"a", b"a", b"b", b"b", b"c", b"c"]


def write(copying: Copying, spark: SparkSession) -> None:
    rows = spark.read.text(str(copying.folder / "in")).repartition(2, "value")
    rows.write.format("ottla").options(**copying.options).mode("append").save()
