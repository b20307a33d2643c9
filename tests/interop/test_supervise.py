"""A supervised process ends with its parent or its handle, and how it ended is told. Needs no Java."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.supervise import Supervised, is_running, run
from tests.interop.waiting import eventually

REPOSITORY = Path(__file__).parents[2]
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def start(command: list[str]) -> Supervised:
    quiet = subprocess.DEVNULL
    return Supervised(command, stdin=quiet, stdout=quiet, stderr=quiet)


def test_the_child_ends_when_its_parent_is_killed() -> None:
    program = (
        "import time\n"
        "from tests.interop.test_supervise import SLEEP, start\n"
        "child = start(SLEEP)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=REPOSITORY, stdout=subprocess.PIPE)
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.kill()
    eventually(lambda: not is_running(pid), f"process {pid} to vanish", within=60)


def test_closing_ends_the_child_and_its_own_children() -> None:
    reader, writer = os.pipe()
    with open(reader, "rb") as output:
        with open(writer, "wb") as end:
            command = ["sh", "-c", "sleep 600 & echo up; wait"]
            child = Supervised(command, stdin=subprocess.DEVNULL, stdout=end, stderr=subprocess.DEVNULL)
        assert output.readline() == b"up\n"
        child.close()
        # The end of file comes when the last process that could write is gone.
        assert select.select([output], [], [], 60)[0]
        assert output.read() == b""


def test_the_exit_code_is_the_child_s_own() -> None:
    child = start(["sh", "-c", "exit 7"])
    assert child.wait(within=60) == 7
    child.close()


def test_a_signal_shows_in_the_exit_code_as_in_a_shell() -> None:
    child = start(SLEEP)
    child.terminate()
    assert child.wait(within=60) == 128 + signal.SIGTERM
    child.close()


def test_orders_to_a_child_that_has_ended_do_nothing() -> None:
    child = start(["true"])
    child.wait(within=60)
    child.terminate()
    child.kill()
    child.close()


def test_a_command_that_does_not_exist_is_an_error_that_names_it() -> None:
    with pytest.raises(OSError, match="/no/such/command could not be started"):
        start(["/no/such/command"])


def test_run_feeds_the_child_and_returns_its_output() -> None:
    done = run(["sh", "-c", "cat; echo oops >&2; exit 3"], text="in\n", within=60, env={})
    assert (done.returncode, done.stdout, done.stderr) == (3, "in\n", "oops\n")


def test_run_kills_a_child_that_takes_too_long() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run(SLEEP, text="", within=0.2, env={})
