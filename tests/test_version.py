"""One version, wherever one looks for it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import ottla
from ottla import _version


def test_the_package_and_the_project_have_the_same_version() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert _version.__version__ == project["version"]


def test_the_root_hands_the_version_out() -> None:
    assert ottla.__version__ == _version.__version__
