"""ottla.spark imports without pyspark, and says what is missing when something is used."""

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
