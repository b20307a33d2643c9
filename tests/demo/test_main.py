"""The demo as a whole, with few orders; and what it does when it cannot run or is stopped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.interop.waiting import eventually

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "demo"]


def test_the_demo_runs_and_its_check_passes(java: None) -> None:
    done = subprocess.run(
        [*COMMAND, "--orders", "2000", "--rate", "1000"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "check: confluent-kafka read 2,000 orders" in done.stdout
    assert re.search(r"demo: passed, after \d+ s\n\Z", done.stdout)
    assert done.stderr == ""


def test_when_it_is_interrupted_nothing_is_left(java: None) -> None:
    with subprocess.Popen(
        COMMAND, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        bootstrap = re.search(r"127\.0\.0\.1:\d+", demo.stdout.readline())
        assert bootstrap is not None
        demo.stdout.readline()  # the first look at the pipeline: all of it has been started
        assert commands_with(bootstrap[0])
        demo.send_signal(signal.SIGINT)
        _, said = demo.communicate(timeout=300)
    assert demo.returncode == 130
    assert said == "demo: interrupted\n"
    eventually(lambda: not commands_with(bootstrap[0]), "the end of all that it has started")


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
