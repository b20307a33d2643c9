"""ottla.spark imports without pyspark and says what is missing; a worker imports only what it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ottla.spark


def python_without(module: str, code: str) -> str:
    """What the code prints in a Python where the module is not installed."""
    hidden = f"import sys; sys.modules[{module!r}] = None\n"
    done = subprocess.run([sys.executable, "-c", hidden + code], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", ["replace_kafka", "restore_kafka", "OttlaDataSource"])
def test_what_needs_spark_says_what_to_install(name: str) -> None:
    said = python_without("pyspark", f"import ottla.spark; ottla.spark.{name}")
    assert f"MissingExtraError: ottla.spark.{name} needs pyspark: pip install 'ottla[spark]'" in said


def test_options_are_known_without_spark() -> None:
    code = "from ottla.spark import OptionError; import ottla.spark.options.connector; print(OptionError.__name__)"
    assert python_without("pyspark", code) == "OptionError\n"


def test_every_name_that_is_offered_is_there_and_no_other() -> None:
    for name in ottla.spark.__all__:
        assert getattr(ottla.spark, name).__name__ == name
    assert dir(ottla.spark) == sorted(ottla.spark.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nonesuch'"):
        _ = ottla.spark.nonesuch


def loaded_by(module: str) -> set[str]:
    """What a Python that has Spark's own modules loads on top of them with this one."""
    code = (
        "import sys, pyspark.sql.datasource; before = set(sys.modules); "
        f"import {module}; print(*(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def rooms(loaded: set[str]) -> set[str]:
    """The folders of the connector that are among the modules."""
    return {name.split(".")[2] for name in loaded if name.startswith("ottla.spark.")}


def test_finding_the_source_loads_neither_options_nor_client_nor_arrow() -> None:
    loaded = loaded_by("ottla.spark.datasource")
    assert loaded.isdisjoint({"pyarrow", "asyncio", "ottla.config", "ottla.client"})
    assert rooms(loaded) == {"process", "datasource"}


def test_the_columns_of_a_source_are_known_without_a_configuration() -> None:
    loaded = loaded_by("ottla.spark.options.connector")
    assert loaded.isdisjoint({"pyarrow", "asyncio", "ottla.config", "ottla.spark.options.client"})


def test_planning_and_committing_a_write_loads_no_client_and_no_arrow() -> None:
    loaded = loaded_by("ottla.spark.sink.writers")
    assert loaded.isdisjoint({"pyarrow", "asyncio", "ottla.client.client", "ottla.client.blocking"})


@pytest.mark.parametrize("reader", ["batch_reader", "stream_reader"])
def test_a_reader_is_made_and_copied_without_client_configuration_and_arrow(reader: str) -> None:
    loaded = loaded_by(f"ottla.spark.source.{reader}")
    assert loaded.isdisjoint(
        {"pyarrow", "asyncio", "ottla.config", "ottla.client.client", "ottla.client.blocking"}
    )


def test_a_worker_that_writes_loads_no_admin_no_consumer_and_of_arrow_only_what_all_rows_need() -> None:
    loaded = loaded_by("ottla.spark.sink.row_sender, ottla.client.blocking.client")
    assert loaded.isdisjoint({"ottla.client.admin", "ottla.client.blocking.admin", "pyarrow.compute"})
    assert loaded.isdisjoint({"ottla.client.consume", "ottla.client.blocking.consumer"})


def test_a_worker_that_reads_loads_nothing_of_writing_and_the_other_way_round() -> None:
    assert rooms(loaded_by("ottla.spark.source.batch_reader")) == {"options", "process", "source"}
    assert rooms(loaded_by("ottla.spark.source.stream_reader")) == {"options", "process", "source"}
    assert rooms(loaded_by("ottla.spark.sink.writers")) == {"options", "process", "sink"}
    assert rooms(loaded_by("ottla.spark.sink.row_sender")) == {"options", "process", "sink"}
