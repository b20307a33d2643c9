"""The recipe of docs/spark.md for executors that have nothing: its own lines, with a wheel of this checkout.

Here because it builds that wheel and fetches pyarrow, which takes minutes. That such an archive serves executors is
shown in every test run, with one that is put together from what is installed (tests/spark/deployment).
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from ottla.broker import Cluster
from tests.docs.test_examples import ROOT
from tests.spark.deployment.processes import environment, run_jobs, standalone
from tools.make_wheel import build_sdist, build_wheel

pytestmark = pytest.mark.kafka_full

_MINUTES = 60.0


def recipe() -> list[str]:
    """The lines that make the archive; the third, spark-submit, is the job's."""
    lines = [line.strip() for line in (ROOT / "docs/spark.md").read_text().splitlines()]
    start = next(at for at, line in enumerate(lines) if line.startswith("pip install --target"))
    assert lines[start + 2].startswith("spark-submit --archives ottla_env.zip#ottla_env ")
    return lines[start : start + 2]


def first_on_the_path(folder: Path) -> dict[str, str]:
    return environment(PYSPARK_PYTHON="python3", PATH=f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_an_archive_made_as_the_guide_says_brings_everything_to_an_empty_python(
    kafka: Cluster, tmp_path: Path
) -> None:
    kafka.create_topic("orders")
    kafka.seed("orders", [b"2 apples", b"3 plums"])
    sdist = build_sdist(ROOT, tmp_path / "sdist")
    wheel = build_wheel(Path(sys.executable), sdist, tmp_path / "wheel")
    ours = first_on_the_path(Path(sys.executable).parent)
    for line in recipe():
        command = line.replace(" ottla pyarrow", f" {wheel} pyarrow")
        subprocess.run(["sh", "-c", command], cwd=tmp_path, env=ours, check=True, timeout=10 * _MINUTES)

    venv.create(tmp_path / "empty", symlinks=True)
    sent = {
        "spark.archives": f"{tmp_path / 'ottla_env.zip'}#ottla_env",
        "spark.executorEnv.PYTHONPATH": "./ottla_env",
    }
    with standalone(tmp_path, workers=1, env=first_on_the_path(tmp_path / "empty" / "bin")) as master:
        outcomes = run_jobs(
            ["read"], master=master, bootstrap=kafka.bootstrap, folder=tmp_path, settings=sent, env=ours
        )
    assert outcomes["read"] == {"rows": 2}
