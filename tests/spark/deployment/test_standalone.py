"""A standalone cluster whose machines have a Python without Ottla: what it says, and how an archive mends it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from ottla.broker import Cluster
from tests.spark.deployment.conftest import ORDERS
from tests.spark.deployment.processes import ROOT, environment, run_jobs, standalone


def with_python(python: Path) -> dict[str, str]:
    """Where `python3`, which is what Spark starts on the driver and on executors alike, is this one."""
    return environment(PYSPARK_PYTHON="python3", PATH=f"{python.parent}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def master(tmp_path: Path, bare_python: Path) -> Iterator[str]:
    with standalone(tmp_path, workers=2, env=with_python(bare_python)) as url:
        yield url


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """What `pip install --target` puts into a folder, packed; here from what is installed."""
    folder = tmp_path / "packages"
    for package in ("ottla", "pyspark_ottla"):
        shutil.copytree(
            ROOT / "src" / package, folder / package, ignore=shutil.ignore_patterns("*.pyx", "*.c")
        )
    for name in ("lz4", "cramjam", "backports.zstd"):
        for file in metadata.files(name) or []:
            if ".." not in file.parts:
                target = folder / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(file.locate()), target)
    return Path(shutil.make_archive(str(tmp_path / "ottla_env"), "zip", folder))


def test_an_archive_brings_the_package_to_executors_that_lack_it(
    orders: Cluster, master: str, archive: Path, tmp_path: Path
) -> None:
    """One cluster for both halves, since starting it takes longer than they do."""
    env = with_python(Path(sys.executable))
    without = run_jobs(["read"], master=master, bootstrap=orders.bootstrap, folder=tmp_path, env=env)
    error = without["read"]["error"]
    assert "cannot import ottla: No module named 'ottla'" in error
    assert "PYSPARK_PYTHON" in error

    sent = {"spark.archives": f"{archive}#ottla_env", "spark.executorEnv.PYTHONPATH": "./ottla_env"}
    outcomes = run_jobs(
        ["copy"], master=master, bootstrap=orders.bootstrap, folder=tmp_path, settings=sent, env=env
    )
    assert outcomes["copy"] == {"rows": len(ORDERS)}
    for topic in ("copied", "streamed"):
        assert sorted(record.value or b"" for record in orders.dump(topic)) == ORDERS
