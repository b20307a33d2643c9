"""tools/preflight.py says in one line what a machine lacks, before anything is built.

Each machine here is made of a PATH, a CC and a JAVA_HOME of the test's own: the real tools play no part.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PREFLIGHT = Path(__file__).resolve().parents[2] / "tools" / "preflight.py"

# Runs preflight as a program, on a Python whose headers are said to be in the first argument.
WITH_HEADERS_IN = """
import runpy, sys, sysconfig
program, include = sys.argv.pop(1), sys.argv.pop(1)
sysconfig.get_paths = lambda: {"include": include}
runpy.run_path(program, run_name="__main__")
"""


def preflight(*checks: str, headers: Path | None = None, **environment: str) -> tuple[int, str]:
    """The exit code and everything said, on a machine whose tools are the ones named here."""
    untouched = {name: value for name, value in os.environ.items() if name not in ("CC", "JAVA_HOME")}
    program = [str(PREFLIGHT)]
    if headers is not None:
        program = ["-c", WITH_HEADERS_IN, str(PREFLIGHT), str(headers)]
    done = subprocess.run(
        [sys.executable, *program, *checks],
        env={**untouched, "PATH": "", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


def assert_missing(outcome: tuple[int, str], *words: str) -> None:
    code, said = outcome
    assert code == 1, said
    assert said.startswith("missing: ")
    assert said.count("\n") == 1, "one line, so that nobody has to look for it"
    assert said.endswith("\n")
    for word in words:
        assert word in said


def script(path: Path, *lines: str) -> Path:
    """An executable that stands in for a compiler or a Java."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


def java(home: Path, version: str) -> Path:
    return script(home / "bin" / "java", f"echo 'openjdk version \"{version}\" 2024-01-01' >&2")


def test_a_good_machine_gets_no_output(tmp_path: Path) -> None:
    compiler = script(tmp_path / "cc", "exit 0")
    java(tmp_path / "jdk", "17.0.9")
    assert preflight("python", "compiler", "java", CC=str(compiler), JAVA_HOME=str(tmp_path / "jdk")) == (
        0,
        "",
    )


def test_a_compiler_that_does_not_exist_is_named() -> None:
    assert_missing(preflight("compiler", CC="no-such-compiler"), "'no-such-compiler'", "build-essential")


def test_a_path_without_a_compiler_is_reported(tmp_path: Path) -> None:
    assert_missing(preflight("compiler", PATH=str(tmp_path), CC="cc"), "C compiler is needed", "'cc'")


def test_missing_headers_are_told_from_a_broken_compiler(tmp_path: Path) -> None:
    compiler = script(tmp_path / "cc", "echo 'Python.h: No such file' >&2", "exit 1")
    headers = tmp_path / "include"
    headers.mkdir()
    assert_missing(preflight("compiler", headers=headers, CC=str(compiler)), "C headers", "python3-dev")


def test_a_broken_compiler_is_quoted(tmp_path: Path) -> None:
    compiler = script(tmp_path / "cc", "echo 'no space left' >&2", "echo 'a second line' >&2", "exit 1")
    (tmp_path / "Python.h").touch()
    assert_missing(
        preflight("compiler", headers=tmp_path, CC=str(compiler)), "cannot compile", "no space left"
    )


def test_no_java_at_all_is_reported(tmp_path: Path) -> None:
    assert_missing(preflight("java", PATH=str(tmp_path)), "Java 17", "no java was found", "openjdk-17")


def test_an_empty_java_home_is_no_java_home(tmp_path: Path) -> None:
    assert_missing(preflight("java", PATH=str(tmp_path), JAVA_HOME=""), "no java was found")


def test_a_wrong_java_home_is_named(tmp_path: Path) -> None:
    assert_missing(preflight("java", JAVA_HOME=str(tmp_path)), f"JAVA_HOME is {tmp_path}", "no bin/java")


@pytest.mark.parametrize(("version", "found"), [("11.0.2", "11"), ("16.0.1", "16"), ("1.8.0_392", "8")])
def test_an_old_java_is_reported(tmp_path: Path, version: str, found: str) -> None:
    java(tmp_path, version)
    assert_missing(preflight("java", PATH=str(tmp_path / "bin")), "Java 17 or newer", f"is {found}:")


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    java(tmp_path / "old", "11.0.2")
    java(tmp_path / "new", "21.0.1")
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    assert preflight("java", PATH=f"{old}/bin", JAVA_HOME=new) == (0, "")
    assert_missing(preflight("java", PATH=f"{new}/bin", JAVA_HOME=old), "is 11:")


@pytest.mark.parametrize("version", ["17", "17.0.9", "25-ea", "25.0.1"])
def test_a_new_java_is_accepted(tmp_path: Path, version: str) -> None:
    java(tmp_path, version)
    assert preflight("java", PATH=str(tmp_path / "bin")) == (0, "")


def test_a_java_that_tells_no_version_is_quoted(tmp_path: Path) -> None:
    script(tmp_path / "java", "echo 'cannot open shared object'", "exit 127")
    assert_missing(preflight("java", PATH=str(tmp_path)), "did not tell its version", "shared object")


def test_the_first_thing_missing_ends_the_checks() -> None:
    assert_missing(preflight("compiler", "java", CC="no-such-compiler"), "no-such-compiler")


def test_an_unknown_check_is_a_mistake_of_the_caller() -> None:
    code, said = preflight("rust")
    assert code == 2
    assert said == "preflight: unknown check 'rust': one of compiler, java, python\n"
