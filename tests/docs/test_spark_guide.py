"""The guide to Spark: its examples are one program, and its table of options is that of the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from ottla.broker import Cluster
from ottla.spark.options.connector import SourceOptions
from ottla.spark.options.parsing import SPELLED
from tests.docs.test_examples import ROOT, blocks

# Spark's own options, which the connector only knows of.
_OF_SPARK = {"checkpointLocation", "path", "paths", "queryName", "outputMode", "sourceName"}


def options_of_the_guide() -> dict[str, str]:
    """Each option with what its table has for the default."""
    section = (ROOT / "docs/spark.md").read_text().split("\n## Options\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \|([^|]*)\|", section, re.MULTILINE)
    return {name: default.strip() for name, default in rows}


def test_the_examples_of_the_readme_and_the_guide_run_in_their_order(java: None) -> None:
    (of_readme,) = [block for block in blocks("README.md") if "SparkSession" in block]
    (sale,) = re.findall(r"`ottla produce sales '([^']+)'`", (ROOT / "README.md").read_text())
    with Cluster(topics={"sales": 1, "orders": 2, "loud-orders": 2, "prices": 1}) as cluster:
        cluster.seed("sales", [sale.encode()])
        program = "\n".join([of_readme, *blocks("docs/spark.md")])
        assert "localhost:9092" in program
        quiet = '.config("spark.ui.enabled", "false").getOrCreate()'
        program = program.replace("localhost:9092", cluster.bootstrap).replace(".getOrCreate()", quiet)
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert re.search(r"\|customer-1\| +4\.5\|", done.stdout), "the sale of the README is on the console"


def test_the_guide_has_every_option_and_no_other() -> None:
    documented = set(options_of_the_guide()) - {"kafka.bootstrap.servers"}
    assert documented == set(SPELLED.values()) - _OF_SPARK


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "batch"])
def test_the_defaults_of_the_guide_are_those_of_the_code(streaming: bool) -> None:
    required = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}
    simple = {
        name: default.strip("`")
        for name, default in options_of_the_guide().items()
        if re.fullmatch("`[^`]+`", default) and not name.startswith(("value.", "ending"))
    }
    assert "failOnDataLoss" in simple
    spelled_out = SourceOptions.parse({**simple, **required}, streaming=streaming)
    assert spelled_out == SourceOptions.parse(required, streaming=streaming)


def test_the_guide_has_the_starting_offsets_of_streams_and_batches() -> None:
    required = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}
    of_streams, of_batches = re.findall("`([^`]+)` in", options_of_the_guide()["startingOffsets"])
    for streaming, default in ((True, of_streams), (False, of_batches)):
        spelled_out = SourceOptions.parse({**required, "startingOffsets": default}, streaming=streaming)
        assert spelled_out == SourceOptions.parse(required, streaming=streaming)
