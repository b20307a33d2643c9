"""What Spark is measured against is what it is said to be: nothing of Ottla, and each peer at its best."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.harness import Result
from bench.spark import jvm, worker_memory
from bench.spark.at_size import Size
from bench.spark.sessions import add_speeds, limits, registered, shortest, sides
from bench.spark_jobs.job import Job
from bench.spark_jobs.session import python_without_ottla

pytest.importorskip("pyspark")

ROOT = Path(__file__).parents[2]
READ = Job("read", "ottla", "localhost:9092", "orders", rows=100)


@pytest.fixture(scope="module")
def peers_python() -> Iterator[Path]:
    with python_without_ottla() as python:
        yield python


def test_the_source_and_the_sink_in_memory_import_nothing_of_ottla(peers_python: Path) -> None:
    """In the Python of the peers' workers, which could not if they wanted to, and finds no data source either."""
    program = (
        "import importlib.util, sys, pyspark.sql.datasource, bench.spark_jobs.memory;"
        "print(importlib.util.find_spec('ottla'), importlib.util.find_spec('pyspark_ottla'));"
        "print([name for name in sys.modules if 'ottla' in name])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [peers_python, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["None None", "[]"]


def test_a_peer_that_is_measured_in_several_ways_counts_with_its_fastest() -> None:
    result = Result("spark")
    samples = {
        "read_ottla": (90.0, 100.0, 500.0),
        "read_jvm": (10.0, 25.0, 30.0),
        "read_tuned": (40.0, 41.0, 400.0),
        "read_tuned_more": (45.0, 50.0, 55.0),
        "read_limit_1_tasks": (300.0, 300.0, 300.0),
        "read_limit_2_tasks": (100.0, 200.0, 900.0),
        "write_ottla": (1.0,),
    }
    add_speeds(result, samples, "read")
    assert result.ratios == {"read_vs_jvm": 4.0, "read_vs_tuned": 2.0, "read_vs_limit": pytest.approx(1 / 3)}
    assert set(result.figures) == set(samples) - {"write_ottla"}
    assert shortest({"first_tuned": (9.0, 5.0, 6.0), "first_tuned_more": (7.0,)}, "first_tuned") == 6.0


def test_a_case_without_a_bar_has_its_ratios_in_the_notes() -> None:
    result = Result("spark")
    add_speeds(result, {"read_ottla": (3.0,), "read_jvm": (2.0,)}, "read", "_1000b_lz4_local2")
    assert result.ratios == {}
    assert result.notes == ["read_vs_jvm_1000b_lz4_local2: 1.50 x"]
    assert "read_ottla_1000b_lz4_local2" in result.figures


def test_ottla_runs_as_it_comes_and_the_jvm_connector_both_ways() -> None:
    jobs = sides(READ, jvm.READS)
    assert jobs["ottla"] == READ
    assert jobs["jvm"].connector == "kafka"
    assert jobs["jvm"].options == {}
    assert {name: job.options for name, job in jobs.items() if name.startswith("tuned")} == jvm.READS
    assert {job.rows for job in jobs.values()} == {100}


def test_what_register_fills_in_is_measured_beside_it() -> None:
    (job,) = registered(READ, 2).values()
    assert (job.connector, job.options) == ("ottla", {"targetPartitions": "2"})
    result = Result("spark")
    samples = {"read_ottla": (2.0,), "read_registered": (3.0,), "read_tuned": (1.0,)}
    add_speeds(result, samples, "read")
    assert result.ratios == {"read_vs_tuned": 2.0, "read_registered_vs_tuned": 3.0}


def test_the_limit_is_tried_with_several_numbers_of_tasks() -> None:
    assert [job.partitions for job in limits(READ, {}).values()] == [1, 2, 4]
    assert {job.connector for job in limits(READ, {}).values()} == {"in_memory"}


def test_no_setting_of_the_jvm_connector_gives_up_a_guarantee() -> None:
    given_up = {
        "kafka.acks",
        "kafka.enable.idempotence",
        "kafka.retries",
        "kafka.check.crcs",
        "failOnDataLoss",
    }
    for settings in (*jvm.READS.values(), *jvm.WRITES.values(), *jvm.STREAMS.values()):
        assert not given_up & set(settings)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_the_memory_of_workers_is_seen_from_outside() -> None:
    megabytes = 64
    program = f"held = b'x' * ({megabytes} << 20); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program, "pyspark.daemon"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        peak = worker_memory.Peak()
        peak.sample()
        worker.kill()
    assert megabytes <= peak.largest <= peak.together


def test_topics_that_do_not_fit_are_not_begun() -> None:
    Size(sum=1, read=1).check_space()
    with pytest.raises(RuntimeError, match="MB free, and the topics take"):
        Size(sum=1, read=10**15).check_space()
