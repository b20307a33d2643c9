"""What the README says of installing is what pyproject.toml and the Makefile have."""

from __future__ import annotations

import re
import tomllib

from tests.docs.test_examples import ROOT

_NAME = re.compile(r"[A-Za-z0-9.-]+")


def section() -> str:
    return (ROOT / "README.md").read_text().split("\n## Install\n")[1].split("\n## ")[0]


def names(requirements: list[str]) -> list[str]:
    return [found[0] for line in requirements if (found := _NAME.match(line))]


def test_the_readme_has_every_extra_and_what_it_brings() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    rows = re.findall(r"^\| (?:\(none\)|`(\w+)`) \| ([^|]*) \|", section(), re.MULTILINE)
    documented = {extra: brings.split(", ") for extra, brings in rows}
    declared = {
        "": names(project["dependencies"]),
        **{extra: names(brought) for extra, brought in project["optional-dependencies"].items()},
    }
    assert documented == declared


def test_the_targets_and_extras_of_the_readme_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"^    make ([a-z-]+)", section(), re.MULTILINE)) <= targets
    used = {extra for extras in re.findall(r"\[([a-z,]+)\]['\"]", section()) for extra in extras.split(",")}
    assert used
    assert used <= project["optional-dependencies"].keys()


def test_the_readme_has_the_oldest_python_that_is_supported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"Python {project['requires-python'].removeprefix('>=')} or newer" in section()
