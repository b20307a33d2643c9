"""What a run of all targets says of its slowest files: sums over the runs, the longest first."""

import os
import subprocess
import sys
from pathlib import Path

from tools.slowest import MOST, slowest

ROOT = Path(__file__).resolve().parents[2]


def test_runs_add_up_and_the_longest_comes_first() -> None:
    lines = ["1.5 tests/test_a.py\n", "2.0 tests/test_b.py\n", "1.000 tests/test_a.py\n"]
    assert slowest(lines) == [("tests/test_a.py", 2.5), ("tests/test_b.py", 2.0)]


def test_ten_are_enough() -> None:
    lines = [f"{number} tests/test_{number}.py" for number in range(30)]
    assert [seconds for _, seconds in slowest(lines)] == [*range(29, 29 - MOST, -1)]


def test_a_run_of_pytest_writes_what_each_file_took(tmp_path: Path) -> None:
    kept = tmp_path / "seconds.txt"
    kept.write_text("0.5 tests/test_version.py\n")
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "tests/test_version.py"]
    done = subprocess.run(
        command, cwd=ROOT, env=_environment(kept), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    ((name, seconds),) = slowest(kept.read_text().splitlines())
    assert name == "tests/test_version.py"
    assert seconds > 0.5
    printed = subprocess.run(
        [sys.executable, "tools/slowest.py", kept], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert printed == f"{seconds:7.1f} s  tests/test_version.py\n"


def _environment(kept: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {**inherited, "OTTLA_TEST_SECONDS": str(kept)}
