"""`.ci/run` with targets that fail by order: what it runs again, and what it calls broken."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CACHE = ".pytest_cache/v/cache/lastfailed"
_MAKEFILE = """
setup lint test-spark test-sim test-kafka:
\t@echo $@ passed
test:
\t@if [ "$(WORKERS)" = 0 ]; then echo again with $$PYTEST_ADDOPTS; exit {second}; fi; \\
\t{first}
.PHONY: setup lint test test-spark test-sim test-kafka
"""


def run(folder: Path, failing: list[str] | None, second: int) -> subprocess.CompletedProcess[str]:
    """`failing`: what the first run of the tests leaves behind; None: it passes."""
    for name in (".ci/run", "tools/last_failed.py", "tools/slowest.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    first = "exit 0"
    if failing is not None:
        (folder / "failing").write_text(json.dumps(dict.fromkeys(failing, True)))
        keep = f"mkdir -p {Path(CACHE).parent} && cp failing {CACHE};" if failing else ""
        first = f"{keep} exit 1"
    (folder / "Makefile").write_text(_MAKEFILE.format(first=first, second=second))
    # `make test WORKERS=0`, by which failures are tried again, tells this to every make below it.
    of_make = ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "WORKERS", "PYTEST_ADDOPTS")
    env = {name: value for name, value in os.environ.items() if name not in of_make}
    return subprocess.run(
        ["bash", ".ci/run"], cwd=folder, env=env, capture_output=True, text=True, timeout=120
    )


def test_a_run_in_which_all_pass_says_nothing_of_failures(tmp_path: Path) -> None:
    ended = run(tmp_path, None, second=1)
    assert ended.returncode == 0, ended.stderr
    assert "once more" not in ended.stdout
    assert "failed" not in ended.stdout + ended.stderr


def test_a_test_that_passes_alone_is_named_and_no_failure(tmp_path: Path) -> None:
    ended = run(tmp_path, ["tests/test_a.py::test_slow"], second=0)
    assert ended.returncode == 0, ended.stderr
    assert "again with --last-failed --last-failed-no-failures none" in ended.stdout
    assert ended.stdout.endswith("== failed at first, and passed alone:\ntests/test_a.py::test_slow\n")


def test_a_test_that_fails_twice_is_broken(tmp_path: Path) -> None:
    ended = run(tmp_path, ["tests/test_a.py::test_slow"], second=1)
    assert ended.returncode == 1
    assert ended.stderr.endswith("failed: test\n")


@pytest.mark.parametrize(
    "failing", [[], [f"tests/test_a.py::test_{n}" for n in range(6)]], ids=["none", "many"]
)
def test_many_failures_and_a_run_that_ends_without_any_are_not_tried_again(
    tmp_path: Path, failing: list[str]
) -> None:
    ended = run(tmp_path, failing, second=0)
    assert ended.returncode == 1
    assert "once more" not in ended.stdout


def test_failures_of_an_earlier_run_are_not_counted(tmp_path: Path) -> None:
    old = tmp_path / CACHE
    old.parent.mkdir(parents=True)
    old.write_text('{"tests/test_old.py::test_old": true}')
    ended = run(tmp_path, ["tests/test_a.py::test_slow"], second=0)
    assert ended.returncode == 0
    assert "test_old" not in ended.stdout
