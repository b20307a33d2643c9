"""The demo as a whole, with few orders; and what it does when it cannot run or is stopped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from bench.spark.worker_memory import descendants
from tests.interop.waiting import eventually

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "demo"]


def test_the_demo_breaks_things_and_its_proof_holds(java: None) -> None:
    # For twenty seconds: on a busy machine too there has to be a task to be met while they flow.
    done = subprocess.run(
        [*COMMAND, "--orders", "4000", "--rate", "200"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout
    assert re.search(r"killed Python worker \d+: task \d+ of stage \d+ \(\w+\) failed", said)
    assert re.search(r"task \d+ of stage \d+ \(\w+\) ran again: attempt \d succeeded", said)
    assert re.search(r"killed broker \d: connections cut", said)
    assert re.search(r"broker \d is back and has caught up: in sync with all 12 partitions again", said)
    assert "in 4,000 = out 3,992 + dead letters 8, lost 0, duplicates 0" in said
    assert re.search(r"demo: passed, after \d+ s\n\Z", said)
    assert done.stderr == ""


def test_when_it_is_interrupted_nothing_is_left(java: None) -> None:
    with subprocess.Popen(
        COMMAND, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        while "Java process runs" not in (line := demo.stdout.readline()):
            assert line
        folder, sessions = started_by(demo.pid)
        assert any("java" in command for command in running_in(sessions))
        demo.send_signal(signal.SIGINT)
        _, said = demo.communicate(timeout=300)
    assert demo.returncode == 130
    assert said == "demo: interrupted\n"
    eventually(lambda: not running_in(sessions), "the end of all that it has started", 60)
    assert not Path(folder).exists()


def test_without_java_it_says_so_in_one_line() -> None:
    done = subprocess.run(
        COMMAND,
        cwd=ROOT,
        env={**os.environ, "JAVA_HOME": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("demo: Java 17 or newer is needed")


def test_numbers_that_make_no_sense_are_refused() -> None:
    done = subprocess.run(
        [*COMMAND, "--orders", "0"], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 2
    assert "--orders and --rate must be at least 1" in done.stderr


def started_by(pid: int) -> tuple[str, set[int]]:
    """The folder of a demo, as its children are told it, and the sessions that they lead."""
    started = [found for each in descendants(pid) if (found := looked_at(each)) is not None]
    folders = {
        match[1] for each in started if (match := re.search(r"--data-dir=(\S+)/brokers", each.command))
    }
    (folder,) = folders
    return folder, {each.session for each in started if each.parent == pid}


def running_in(sessions: set[int]) -> list[str]:
    """The command lines of all processes in them: what a child starts stays there, whatever its group and parent."""
    found = [looked_at(each) for each in Path("/proc").glob("[0-9]*")]
    return [each.command for each in found if each is not None and each.session in sessions]


class Process(NamedTuple):
    parent: int
    session: int
    command: str


def looked_at(folder: Path) -> Process | None:
    """None of one that has ended, also if it still has to be collected by init."""
    try:
        state, parent, _, session, *_ = (
            (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        )
        command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return None
    return None if state in "ZX" else Process(int(parent), int(session), command)
