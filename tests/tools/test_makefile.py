"""The Makefile: what `make` alone says, and when setup has nothing to do.

Nothing here builds or installs: targets run with the environment taken as up to date, or with `make -n` on a
copy whose file times are the test's own.
"""

import os
import re
import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(*arguments: str, cwd: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    # The suite itself may run under make, whose flags a make below it would obey.
    inherited = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MAKEFILES")
    environment = {name: value for name, value in os.environ.items() if name not in inherited}
    return subprocess.run(
        ["make", *arguments],
        cwd=cwd,
        env={**environment, "LC_ALL": "C", **variables},
        capture_output=True,
        text=True,
    )


def test_make_alone_lists_the_targets() -> None:
    done = make()
    assert done.returncode == 0, done.stderr
    listed = re.findall(r"^  make ([a-z-]+) +\S", done.stdout, re.MULTILINE)
    tests = {"test", "test-spark", "test-sim", "test-kafka", "test-kafka-full"}
    assert tests | {"help", "setup", "lint", "format", "bench", "wheel", "clean"} <= set(listed)
    assert len(listed) == len(done.stdout.splitlines()), "one line per target, each with its explanation"


def test_every_listed_target_is_phony() -> None:
    """Else a file of that name would quietly turn the target off."""
    text = (ROOT / "Makefile").read_text()
    declared = re.findall(r"^\.PHONY: (.*)", text, re.MULTILINE)
    listed = re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE)
    assert set(listed) <= set(" ".join(declared).split())


MARKERS = ["spark", "sim", "kafka", "kafka_full", "crash_matrix"]


def selected(target: str) -> str:
    """The expression over markers with which a target chooses its tests: Python, with the markers as names."""
    done = make("-n", "-o", ".venv/.installed", target)
    ((quoted, single),) = re.findall(r'-m pytest .*?-m (?:"([^"]+)"|(\w+))', done.stdout)
    return str(quoted or single)


@pytest.mark.parametrize("has", list(product([False, True], repeat=len(MARKERS))))
def test_every_test_belongs_to_one_target_of_the_four(has: tuple[bool, ...]) -> None:
    """Or to the long matrices, which nothing runs but their own target; that of crashes is of tests of Spark."""
    markers = dict(zip(MARKERS, has, strict=True))
    targets = [
        target
        for target in ("test", "test-spark", "test-sim", "test-kafka")
        if eval(selected(target), dict(markers))
    ]
    if markers["kafka_full"] and not markers["kafka"]:
        assert targets == []
        assert eval(selected("test-kafka-full"), dict(markers))
    elif markers["crash_matrix"] and markers["spark"] and not markers["kafka"]:
        assert targets == []
        assert eval(selected("crash-matrix"), dict(markers))
    else:
        assert len(targets) == 1, targets


def test_a_fresh_clone_is_tried_with_all_four() -> None:
    steps = re.findall(r"^(?:step|tests) (\S+)", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    assert steps == ["lint", "test", "test-spark", "test-sim", "test-kafka"]


def test_demo_says_in_one_line_that_java_is_missing() -> None:
    done = make("-o", ".venv/.installed", "demo", JAVA_HOME="/nowhere")
    assert done.returncode != 0
    first = done.stderr.splitlines()[0]
    assert first.startswith("demo: Java 17 or newer is needed ")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what setup depends on, all of it older than the mark that setup leaves behind."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "tools/preflight.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    native = tmp_path / "src" / "ottla" / "_native"
    native.mkdir(parents=True)
    for name in ("checksums.pyx", "crc32c.c", "crc32c.h", "checksums.c"):
        (native / name).touch()
    for path in tmp_path.rglob("*"):
        os.utime(path, (1_000, 1_000))
    installed = tmp_path / ".venv" / ".installed"
    installed.parent.mkdir()
    installed.touch()
    os.utime(installed, (2_000, 2_000))
    return tmp_path


def test_setup_does_nothing_when_nothing_changed(checkout: Path) -> None:
    done = make("-n", "setup", cwd=checkout)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "make: Nothing to be done for 'setup'.\n"


@pytest.mark.parametrize(
    "changed",
    [
        "pyproject.toml",
        "constraints.txt",
        "tools/preflight.py",
        "src/ottla/_native/checksums.pyx",
        "src/ottla/_native/crc32c.c",
        "src/ottla/_native/crc32c.h",
    ],
)
def test_setup_runs_again_after_a_change(checkout: Path, changed: str) -> None:
    os.utime(checkout / changed, (3_000, 3_000))
    assert "pip install" in make("-n", "setup", cwd=checkout).stdout


def test_setup_ignores_the_c_file_that_cython_writes(checkout: Path) -> None:
    os.utime(checkout / "src/ottla/_native/checksums.c", (3_000, 3_000))
    assert "Nothing to be done" in make("-n", "setup", cwd=checkout).stdout
