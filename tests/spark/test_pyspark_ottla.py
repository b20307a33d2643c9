"""Whatever is missing, Spark can import the module that it finds by its name, and goes on."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.sql.datasource import DataSource

import pyspark_ottla
from ottla.spark.datasource import OttlaDataSource


def test_the_source_is_found_under_its_name() -> None:
    assert pyspark_ottla.DefaultSource is OttlaDataSource
    assert issubclass(pyspark_ottla.DefaultSource, DataSource)
    assert pyspark_ottla.DefaultSource.name() == "ottla"


def test_nothing_is_imported_before_spark_looks() -> None:
    code = "import sys, pyspark_ottla; print([m for m in sys.modules if m.split('.')[0] in ('ottla', 'pyspark')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def without(module: str, code: str) -> str:
    """What a Python prints that lacks a module."""
    program = f"import sys; sys.modules[{module!r}] = None; import pyspark_ottla\n{code}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_without_pyspark_there_is_no_source_and_no_error() -> None:
    assert without("pyspark", "print(hasattr(pyspark_ottla, 'DefaultSource'))").strip() == "False"


@pytest.mark.parametrize("module", ["ottla", "ottla.config", "ottla.spark.options.connector"])
def test_with_half_an_installation_a_job_that_wants_the_source_reads_why(module: str) -> None:
    code = (
        "from pyspark.sql.datasource import DataSource\n"
        "source = pyspark_ottla.DefaultSource\n"
        "print(issubclass(source, DataSource), source.name())\n"
        "try: source({})\n"
        "except ImportError as error: print(error)\n"
    )
    first, second = without(module, code).splitlines()
    assert first == "True ottla"
    assert module in second
    assert "PYSPARK_PYTHON" in second


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        _ = pyspark_ottla.Other
