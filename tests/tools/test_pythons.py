"""Which Pythons wheels are built for: those that answer and have what a build needs. The others are named, with why.

Each machine here is made of a PATH and a PYENV_ROOT of the test's own, and its Pythons are scripts.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tools.pythons import VERSIONS, Found, find

ROOT = Path(__file__).resolve().parents[2]


def python(folder: Path, version: str, *, says: str | None = None, problem: str = "") -> Path:
    """An executable that answers as a Python of this version does, or as one that `says` another."""
    return script(folder / f"python{version}", f"printf '%s\\n%s\\n' '{says or version}' '{problem}'")


def script(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


def find_on(machine: Path, *path: str, **environment: str) -> Found:
    folders = ":".join(str(machine / folder) for folder in path)
    return find({"PATH": folders, "HOME": str(machine / "home"), **environment}, machine / "own")


def test_every_version_of_the_classifiers_is_looked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [line.rpartition(" ")[2] for line in project["classifiers"] if ":: Python :: 3" in line]
    assert list(VERSIONS) == named


def test_pythons_are_found_on_the_path(tmp_path: Path) -> None:
    first, second = python(tmp_path / "a", "3.11"), python(tmp_path / "b", "3.13")
    assert find_on(tmp_path, "a", "b").pythons == {"3.11": first, "3.13": second}


def test_a_version_that_is_nowhere_is_said_to_be_missing(tmp_path: Path) -> None:
    python(tmp_path / "a", "3.12")
    missing = find_on(tmp_path, "a").missing
    assert list(missing) == ["3.11", "3.13", "3.14"]
    assert missing["3.14"] == "not on the PATH, and not among the versions of pyenv"


def test_the_python_that_builds_comes_before_the_path(tmp_path: Path) -> None:
    own = python(tmp_path / "own" / "bin", "3.12")
    python(tmp_path / "a", "3.12")
    assert find_on(tmp_path, "a").pythons == {"3.12": own}


def test_a_shim_of_pyenv_that_fails_gives_way_to_the_version_behind_it(tmp_path: Path) -> None:
    script(tmp_path / "shims" / "python3.12", "echo 'pyenv: python3.12: command not found' >&2", "exit 127")
    real = python(tmp_path / "pyenv" / "versions" / "3.12.1" / "bin", "3.12")
    found = find_on(tmp_path, "shims", PYENV_ROOT=str(tmp_path / "pyenv"))
    assert found.pythons == {"3.12": real}


def test_pyenv_is_in_the_home_folder_unless_its_root_is_set(tmp_path: Path) -> None:
    real = python(tmp_path / "home" / ".pyenv" / "versions" / "3.13.0" / "bin", "3.13")
    assert find_on(tmp_path).pythons == {"3.13": real}
    assert find_on(tmp_path, PYENV_ROOT=str(tmp_path / "elsewhere")).pythons == {}


def test_the_newest_of_pyenv_is_taken(tmp_path: Path) -> None:
    versions = tmp_path / "pyenv" / "versions"
    for release in ("3.12.9", "3.12.10", "3.12-dev"):
        python(versions / release / "bin", "3.12")
    found = find_on(tmp_path, PYENV_ROOT=str(tmp_path / "pyenv"))
    assert found.pythons == {"3.12": versions / "3.12.10" / "bin" / "python3.12"}


@pytest.mark.parametrize(
    ("problem", "says"),
    [
        ("it has no C headers: install python3-dev", None),
        ("", "3.10"),
        ("it is the free-threaded build", None),
    ],
)
def test_a_python_that_cannot_build_is_named_with_the_reason(
    tmp_path: Path, problem: str, says: str | None
) -> None:
    unfit = python(tmp_path / "a", "3.12", problem=problem, says=says)
    found = find_on(tmp_path, "a")
    assert found.pythons == {}
    assert found.missing["3.12"] == f"{unfit}: {problem or 'it is Python 3.10'}"


def test_a_python_that_cannot_build_gives_way_to_one_that_can(tmp_path: Path) -> None:
    python(tmp_path / "a", "3.12", problem="it has no C headers: install python3-dev")
    good = python(tmp_path / "b", "3.12")
    assert find_on(tmp_path, "a", "b").pythons == {"3.12": good}


def test_what_a_python_that_fails_says_is_quoted(tmp_path: Path) -> None:
    unfit = script(tmp_path / "a" / "python3.12", "echo 'cannot open shared object' >&2", "exit 127")
    reason = find_on(tmp_path, "a").missing["3.12"]
    assert reason == f"{unfit}: it does not run: cannot open shared object"
