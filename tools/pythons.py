"""Finds the Pythons of this machine that wheels can be built for.

The Python that runs this comes first, then the PATH, then the versions of pyenv, which stand outside the PATH unless
they are chosen: its shim of such a version is on the PATH and fails. So a Python counts if it answers, and its answer
says whether it has what a build needs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

VERSIONS: Final = ("3.11", "3.12", "3.13", "3.14")
"""The versions that wheels are made for; pyproject.toml has the same in its classifiers."""

_PROBE: Final = """
import os, sys, sysconfig
problem = ""
try:
    import ensurepip, venv
except ImportError:
    problem = "it cannot make virtual environments: install python3-venv (Debian, Ubuntu)"
if not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
    problem = "it has no C headers: install python3-dev (Debian, Ubuntu) or python3-devel (Fedora)"
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    problem = "it is the free-threaded build"
if sys.implementation.name != "cpython":
    problem = "it is " + sys.implementation.name
print("%d.%d" % sys.version_info[:2], problem, sep="\\n")
"""


@dataclass(frozen=True, slots=True)
class Found:
    """The Pythons to build for, by version, and what to say of every version that is not among them."""

    pythons: Mapping[str, Path]
    missing: Mapping[str, str]


def find(environment: Mapping[str, str] = os.environ, own_prefix: Path = Path(sys.base_prefix)) -> Found:
    pythons: dict[str, Path] = {}
    missing: dict[str, str] = {}
    for version in VERSIONS:
        problems = []
        for python in _candidates(version, environment, own_prefix):
            problem = _problem_of(python, version)
            if problem is None:
                pythons[version] = python
                break
            problems.append(f"{python}: {problem}")
        else:
            missing[version] = "; ".join(problems) or "not on the PATH, and not among the versions of pyenv"
    return Found(pythons, missing)


def _candidates(version: str, environment: Mapping[str, str], own_prefix: Path) -> Iterator[Path]:
    name = f"python{version}"
    folders = [own_prefix / "bin", *map(Path, filter(None, environment.get("PATH", "").split(os.pathsep)))]
    folders += [folder / "bin" for folder in _pyenv_versions(version, environment)]
    seen = set()
    for folder in folders:
        python = folder / name
        # /bin is /usr/bin on many machines; one Python under two names is asked once.
        if os.access(python, os.X_OK) and (real := folder.resolve() / name) not in seen:
            seen.add(real)
            yield python


def _pyenv_versions(version: str, environment: Mapping[str, str]) -> list[Path]:
    """Newest first."""
    root = environment.get("PYENV_ROOT") or Path(environment.get("HOME", "/")) / ".pyenv"
    return sorted(Path(root, "versions").glob(f"{version}.*"), key=_release, reverse=True)


def _release(folder: Path) -> tuple[int, str]:
    patch = folder.name.split(".", 2)[2]
    digits = patch[: len(patch) - len(patch.lstrip("0123456789"))]
    return int(digits or -1), folder.name


def _problem_of(python: Path, version: str) -> str | None:
    try:
        answer = subprocess.run(
            [python, "-I", "-c", _PROBE], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it does not run: {error}"
    if answer.returncode != 0:
        lines = answer.stderr.strip().splitlines() or [f"exit code {answer.returncode}"]
        return f"it does not run: {lines[0]}"
    found, problem = [*answer.stdout.splitlines(), "", ""][:2]
    if found != version:
        return f"it is Python {found or 'nothing that tells its version'}"
    return problem or None
