"""Optional dependencies: the base install does without them, and says so when one is asked for."""

from __future__ import annotations

import importlib.metadata
import pickle
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ottla._extras import EXTRAS, require
from ottla.errors import KafkaError, MissingExtraError

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def test_a_module_that_is_there_is_imported() -> None:
    assert require("json", extra="columns", purpose="a test") is sys.modules["json"]


def test_a_missing_module_is_named_with_its_purpose_and_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # what makes an import fail even where it is installed
    with pytest.raises(MissingExtraError) as caught:
        require("pyarrow", extra="columns", purpose="reading into Arrow columns")
    assert str(caught.value) == "reading into Arrow columns needs pyarrow: pip install 'ottla[columns]'"
    assert caught.value.name == "pyarrow"
    assert isinstance(caught.value, KafkaError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_module_in_a_missing_package_is_missing_too() -> None:
    with pytest.raises(MissingExtraError, match=r"^a test needs nonesuch\.inner: "):
        require("nonesuch.inner", extra="registry", purpose="a test")


def test_a_module_missing_from_a_package_that_is_there_is_missing_too() -> None:
    with pytest.raises(MissingExtraError, match=r"^a test needs json\.nonesuch: "):
        require("json.nonesuch", extra="registry", purpose="a test")


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("import nonesuch", ModuleNotFoundError),
        ("import broken_inner.nonesuch", ModuleNotFoundError),
        ("from os import nonesuch", ImportError),
        ("1 / 0", ZeroDivisionError),
    ],
)
def test_a_module_that_is_there_but_broken_speaks_for_itself(
    source: str, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_inner.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(error) as caught:
        require("broken_inner", extra="columns", purpose="a test")
    assert not isinstance(caught.value, MissingExtraError)


def test_an_extra_that_does_not_exist_is_a_mistake_in_the_program() -> None:
    with pytest.raises(ValueError, match="there is no extra 'colums', only columns, spark,"):
        require("json", extra="colums", purpose="a test")


def test_the_extras_are_those_of_the_project_file() -> None:
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    assert list(EXTRAS) == list(project["optional-dependencies"])


def test_the_base_install_needs_the_codecs_and_no_other_package() -> None:
    requirements = importlib.metadata.requires("ottla")
    assert requirements is not None
    base = [each for each in requirements if "extra ==" not in each]
    assert sorted(re.split("[<>=!~; ]", each)[0] for each in base) == ["backports.zstd", "cramjam", "lz4"]


def test_importing_ottla_brings_in_nothing_heavy() -> None:
    program = "import sys; before = set(sys.modules); import ottla; print(*(set(sys.modules) - before))"
    finished = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    imported = set(finished.stdout.split())
    assert "ottla.errors" in imported
    assert imported.isdisjoint(
        {"pyarrow", "pyspark", "numpy", "pandas", "asyncio", "lz4", "cramjam", "backports"}
    )
