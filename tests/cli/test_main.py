"""Where the command begins: quickly, and with a word for those who lack the extra."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from ottla.cli.main import main
from ottla.errors import MissingExtraError


def test_without_the_extra_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "typer", None)  # what makes an import fail even where it is installed
    assert main(["--help"]) == 1
    assert capsys.readouterr().err == "ottla: the ottla command needs typer: pip install 'ottla[cli]'\n"
    assert issubclass(MissingExtraError, ImportError)


def test_help_imports_no_client_no_broker_and_no_table() -> None:
    program = (
        "import sys; from ottla.cli.main import main; main(['--help']); "
        "print(*sys.modules, file=sys.stderr, sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert "ottla.cli.topic" in loaded
    heavy = {"asyncio", "rich", "pyarrow", "ottla.wire", "ottla.client", "ottla.broker", "ottla.config"}
    assert loaded.isdisjoint(heavy)


def test_help_is_there_within_a_moment() -> None:
    # CPU, and the best of several, because other tests share the machine.
    assert min(_seconds_for_help() for _ in range(5)) < 0.3


def _seconds_for_help() -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "ottla", "--help"], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_it_runs_as_a_module_under_its_own_name() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ottla", "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Usage: ottla ")
