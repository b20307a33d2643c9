"""The demo as a whole, with few orders; and what it does when it cannot run or is stopped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from bench.spark.worker_memory import descendants
from tests.interop.waiting import eventually

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "demo"]


def test_the_demo_breaks_things_and_its_proof_holds(java: None) -> None:
    done = subprocess.run(
        [*COMMAND, "--orders", "3000", "--rate", "300"],
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
    assert "in 3,000 = out 2,994 + dead letters 6, lost 0, duplicates 0" in said
    assert re.search(r"demo: passed, after \d+ s\n\Z", said)
    assert done.stderr == ""


def test_when_it_is_interrupted_nothing_is_left(java: None) -> None:
    with subprocess.Popen(
        COMMAND, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        while "Java process runs" not in (line := demo.stdout.readline()):
            assert line
        folder = started_in(demo.pid)
        assert commands_with(folder)
        demo.send_signal(signal.SIGINT)
        _, said = demo.communicate(timeout=300)
    assert demo.returncode == 130
    assert said == "demo: interrupted\n"
    eventually(lambda: not commands_with(folder), "the end of all that it has started")
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


def started_in(pid: int) -> str:
    """The folder of a demo, as its children are told it."""
    commands = [(each / "cmdline").read_text().replace("\0", " ") for each in descendants(pid)]
    (folder,) = {match[1] for each in commands if (match := re.search(r"--data-dir=(\S+)/brokers", each))}
    return folder


def commands_with(text: str) -> list[str]:
    """The command lines of all processes that have it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has just ended
            continue
        if text in command:
            found.append(command)
    return found
