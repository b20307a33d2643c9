"""Processes of the demo end when they should, and say why when they should not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from demo.children import Child, ChildError, child
from tests.interop.waiting import eventually


def module(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> str:
    """Makes a module that a child can run."""
    (folder / "some_child.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{Path(__file__).parents[2]}")
    return "some_child"


def ended(started: Child) -> None:
    eventually(lambda: not started.running(), "the child to end")


def runs(pid: int) -> bool:
    """Whether there is such a process; one that has ended may still have to be collected by init."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the latter when it ends while it is read
        return False
    return state not in "ZX"


def test_what_a_child_says_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = module(
        tmp_path,
        monkeypatch,
        "import sys\nfrom demo.children import say\nsay('ready', words=sys.argv[1:])\nprint('hm')\nsay('done')\n",
    )
    with child(tmp_path, name, "a", "b") as started:
        ended(started)
        assert started.news() == [{"event": "ready", "words": ["a", "b"]}, {"event": "done"}]
        assert started.news() == []


def test_a_child_that_waits_for_its_input_ends_when_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = module(
        tmp_path,
        monkeypatch,
        "from demo.children import commands, say\n"
        "for words in commands():\n"
        "    say('told', words=words)\n"
        "say('ended')\n",
    )
    with child(tmp_path, name) as started:
        started.tell("kill 2")
        assert eventually(started.news, "an answer") == [{"event": "told", "words": ["kill", "2"]}]
        assert started.running()
        started.finish()
        ended(started)
        assert started.news() == [{"event": "ended"}]


def test_a_failure_is_told_with_the_end_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = module(tmp_path, monkeypatch, "raise ValueError('no apples left')\n")
    with child(tmp_path, name) as started, pytest.raises(ChildError, match="ended with code 1") as failed:
        ended(started)
    assert "no apples left" in str(failed.value)


def test_a_child_that_says_why_it_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when it has ended before it was listened to."""
    name = module(
        tmp_path,
        monkeypatch,
        "import sys\nfrom demo.children import say\nsay('failed', why='no apples left')\nsys.exit(1)\n",
    )
    with child(tmp_path, name) as started, pytest.raises(ChildError, match=r"^no apples left$"):
        ended(started)


def test_a_child_is_ended_also_by_one_who_does_not_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ignores SIGTERM, and a second Ctrl-C comes before its time is up."""
    name = module(
        tmp_path,
        monkeypatch,
        "import os, signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "from demo.children import say\n"
        "say('deaf', pid=os.getpid())\n"
        "while True:\n"
        "    signal.pause()\n",
    )

    def interrupted(timeout: float | None = None) -> int:
        raise KeyboardInterrupt

    started = Child(tmp_path, name)
    (said,) = eventually(started.news, "the child to ignore SIGTERM")
    with monkeypatch.context() as impatient:
        impatient.setattr(started._process, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            started.stop()
    eventually(lambda: not runs(said["pid"]), "the child to end")
    started.stop()


def test_what_a_child_has_started_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the demo fails."""
    name = module(
        tmp_path,
        monkeypatch,
        "import signal, subprocess, sys\n"
        "inner = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        "from demo.children import say\n"
        "say('inner', pid=inner.pid)\n"
        "signal.pause()\n",
    )
    inner = 0

    def failing() -> None:
        nonlocal inner
        with child(tmp_path, name) as started:
            (said,) = eventually(started.news, "the inner process")
            inner = said["pid"]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        failing()
    eventually(lambda: not runs(inner), f"process {inner} to end")
