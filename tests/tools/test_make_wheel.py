"""What people install: the sdist has what was written by hand, a wheel what was compiled for its Python, and no more.

One sdist is built here, without the package index. `make wheel` builds the rest, and tries it.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.architecture.repository import tracked_files
from tools import make_wheel, pythons
from tools.make_wheel import build_sdist, misplaced_in_sdist, names_in, wrong_in_wheel
from tools.pythons import Found

ROOT = Path(__file__).resolve().parents[2]


def tracked() -> list[Path]:
    files = tracked_files(ROOT)
    if isinstance(files, str):
        pytest.skip(f"which files belong to the repository is not known: {files}")
    return files


def sources() -> set[str]:
    names = {path.relative_to(ROOT).as_posix() for path in tracked()}
    return {name for name in names if name.startswith("src/")}


@pytest.fixture
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which a Python was at work: with what compilers and tests leave behind."""
    tree = tmp_path_factory.mktemp("tree")
    for path in tracked():
        copy = tree / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    for left_behind in (
        "src/ottla/_native/decode.c",
        "src/ottla/_native/decode.cpython-311-x86_64-linux-gnu.so",
        "src/ottla/__pycache__/errors.cpython-311.pyc",
        "src/ottla/core.12345",
        "build/lib.linux-x86_64-cpython-311/ottla/removed_long_ago.py",
        "tests/.hypothesis/examples",
        "dist/ottla-0.0.1.tar.gz",
    ):
        (tree / left_behind).parent.mkdir(parents=True, exist_ok=True)
        (tree / left_behind).write_bytes(b"left behind")
    return tree


def test_the_sdist_has_every_source_and_what_a_build_needs_and_nothing_else(
    tree: Path, tmp_path: Path
) -> None:
    names = set(names_in(build_sdist(tree, tmp_path, isolated=False)))
    metadata = {name for name in names if ".egg-info/" in name}
    needed = {"LICENSE", "MANIFEST.in", "NOTICE", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"}
    assert names - metadata == needed | sources()


def test_what_was_built_or_is_only_for_the_repository_is_noticed_in_an_sdist() -> None:
    good = ["src/ottla/_native/decode.pyx", "src/ottla/_native/scan.c", "src/ottla/_native/scan.h"]
    bad = [
        "src/ottla/_native/decode.c",
        "src/ottla/_native/decode.cpython-311-x86_64-linux-gnu.so",
        "tests/test_errors.py",
    ]
    assert misplaced_in_sdist([*good, *bad]) == bad


def test_a_wheel_with_what_another_python_compiled_is_noticed() -> None:
    own, other = "ottla/_native/a.cpython-312-x86_64-linux-gnu.so", "ottla/_native/b.cpython-311-darwin.so"
    assert wrong_in_wheel(["ottla/client.py", own], "3.12", ["ottla._native.a"]) == []
    assert wrong_in_wheel([own, other], "3.12", ["ottla._native.a"]) == [f"{other} is for another Python"]


def test_a_wheel_that_lacks_an_extension_or_has_sources_is_noticed() -> None:
    names = ["ottla/_native/scan.h", "ottla/_native/a.cpython-312-darwin.so"]
    assert wrong_in_wheel(names, "3.12", ["ottla._native.a", "ottla._native.b"]) == [
        "ottla/_native/scan.h is a source",
        "ottla._native.b is missing",
    ]


def test_make_wheel_is_tried_with_a_program_that_works_here() -> None:
    """The program runs in environments without this tree; here it has to pass on what is being developed."""
    done = subprocess.run(
        [sys.executable, "-I", str(ROOT / "tools" / "smoke.py")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5000 records" in done.stdout


def test_what_fails_is_told_with_all_that_it_said_and_dist_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tree has a pyproject.toml that nothing can be built from."""
    (tmp_path / "pyproject.toml").write_text('[build-system]\nrequires = []\nbuild-backend = "nowhere"\n')
    old = tmp_path / "dist" / "ottla-0.0.1.tar.gz"
    old.parent.mkdir()
    old.touch()
    found = Found({"3.11": Path(sys.executable)}, {"3.14": "not on the PATH"})
    monkeypatch.setattr(make_wheel, "ROOT", tmp_path)
    monkeypatch.setattr(pythons, "find", lambda: found)
    monkeypatch.setattr(make_wheel, "build_sdist", partial(build_sdist, isolated=False))
    assert make_wheel.main() == 1
    said = capsys.readouterr()
    assert "Python 3.14: no wheel (not on the PATH)" in said.out
    assert "ended with 1" in said.err
    assert "nowhere" in said.err
    assert old.exists()
