"""The guide to pipelines: its file is one, its program runs, its tables have all keys, and its mistakes are made."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from ottla.broker import Cluster
from ottla.spark.pipeline.file import parse
from ottla.spark.pipeline.mistakes import PipelineError
from ottla.spark.pipeline.model import Pipeline, TopicSink, TopicSource
from tests.docs.test_examples import ROOT, blocks

GUIDE = (ROOT / "docs/pipelines.md").read_text()
(EXAMPLE,) = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
_IN_PYTHON = {"schema-file": "schema", "topic": "topics", "dead-letter": "dead_letter"}


def keys_of(heading: str) -> set[str]:
    """Those of the table below a heading, by their names in a program."""
    section = GUIDE.split(f"\n{heading}\n")[1].split("\n#")[0]
    return set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))


def test_the_file_of_the_guide_is_a_pipeline() -> None:
    pipeline = parse(EXAMPLE, Path("/jobs"), file="revenue.toml", environment={})
    assert pipeline.name == "revenue"
    assert pipeline.kafka == {"bootstrap.servers": "localhost:9092"}
    assert pipeline.sources["customers"].table


def test_the_tables_have_every_key_and_no_other() -> None:
    sources = {_IN_PYTHON.get(key, key) for key in keys_of("### [sources.NAME]")}
    assert sources == {field.name for field in fields(TopicSource)}
    sinks = {"schema" if key == "schema-file" else key for key in keys_of("### [sinks.NAME]")}
    assert sinks == {field.name for field in fields(TopicSink)}
    tables = {"kafka", "spark", "sources", "transform", "sinks"}
    assert keys_of("## The file") | tables == {field.name for field in fields(Pipeline)}
    assert keys_of("### [transform]") == {"sql", "sql-file", "python"}


def test_the_mistakes_of_the_guide_are_said_so() -> None:
    bad = EXAMPLE
    for good, wrong in (
        ('"5 seconds"', '"5s"'),
        ("cents bigint", "cents bigit"),
        ("dead-letter", "dead-leter"),
        ('topic = "totals"', 'topic = "orders"'),
    ):
        assert good in bad
        bad = bad.replace(good, wrong)
    shown = re.findall(r"^    (revenue\.toml:.*)$", GUIDE, re.MULTILINE)
    with pytest.raises(PipelineError) as caught:
        parse(bad, Path("/jobs"), file="revenue.toml", environment={})
    said = str(caught.value).splitlines()
    assert len(shown) == 4
    # The second is named once the first of its table is mended.
    with pytest.raises(PipelineError) as caught:
        parse(bad.replace("dead-leter", "dead-letter"), Path("/jobs"), file="revenue.toml", environment={})
    said += str(caught.value).splitlines()
    missing = [line for line in shown if not any(each.startswith(line.removesuffix("...")) for each in said)]
    assert missing == []


def test_the_program_of_the_guide_runs(java: None) -> None:
    with Cluster(topics={"orders": 2, "customers": 1, "totals": 1, "orders-dead": 1}) as cluster:
        program = "\n".join(blocks("docs/pipelines.md"))
        assert "localhost:9092" in program
        done = subprocess.run(
            [sys.executable, "-c", program.replace("localhost:9092", cluster.bootstrap)],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done.stderr
