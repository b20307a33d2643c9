"""Processes of the demo end when they should, and say why when they should not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from demo.children import Child, ChildError, child
from tests.interop.waiting import eventually


def module(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> str:
    """Makes a module that a child can run."""
    (folder / "some_child.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return "some_child"


def ended(started: Child) -> None:
    eventually(lambda: not started.running(), "the child to end")


def runs(pid: int) -> bool:
    """Whether there is such a process; one that has ended may still have to be collected by init."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def test_what_a_child_says_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = module(tmp_path, monkeypatch, "import sys\nprint('ready', *sys.argv[1:])\nprint('done')\n")
    with child(tmp_path, name, "a", "b") as started:
        assert started.first_line(30) == "ready a b"
        ended(started)
        assert started.lines == ["ready a b", "done"]


def test_a_child_that_waits_for_its_input_ends_when_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = module(
        tmp_path, monkeypatch, "import sys\nprint('up', flush=True)\nsys.stdin.read()\nprint('ended')\n"
    )
    with child(tmp_path, name) as started:
        assert started.first_line(30) == "up"
        assert started.running()
        started.finish()
        ended(started)
        assert started.lines == ["up", "ended"]


def test_a_failure_is_told_with_the_end_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = module(tmp_path, monkeypatch, "raise ValueError('no apples left')\n")
    with child(tmp_path, name) as started, pytest.raises(ChildError, match="ended with code 1") as failed:
        ended(started)
    assert "no apples left" in str(failed.value)


def test_a_child_that_ends_without_a_word_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = module(tmp_path, monkeypatch, "")
    with child(tmp_path, name) as started, pytest.raises(ChildError, match="some_child ended without a word"):
        started.first_line(30)


def test_what_a_child_has_started_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the demo fails, and when the child will not hear of it."""
    name = module(
        tmp_path,
        monkeypatch,
        "import signal, subprocess, sys\n"
        "inner = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        "print(inner.pid, flush=True)\n"
        "signal.pause()\n",
    )
    inner = 0

    def failing() -> None:
        nonlocal inner
        with child(tmp_path, name) as started:
            inner = int(started.first_line(30))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        failing()
    eventually(lambda: not runs(inner), f"process {inner} to end")
