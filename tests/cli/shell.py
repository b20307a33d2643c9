"""The `ottla` command as a process of its own: pipes, signals, terminals."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

COMMAND = [sys.executable, "-W", "error", "-m", "ottla"]
WITHIN = 60.0
"""Seconds that a process may take; only a failure takes that long."""


def ottla(
    bootstrap: str, *arguments: str, input: bytes = b"", code: int = 0
) -> subprocess.CompletedProcess[bytes]:
    """Runs the command to its end, which has to come with this exit code."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        input=input,
        capture_output=True,
        timeout=WITHIN,
        check=False,
        env={**os.environ, "OTTLA_BOOTSTRAP": bootstrap},
    )
    assert done.returncode == code, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    return done


@contextmanager
def running(
    bootstrap: str, *arguments: str, stdin: int = subprocess.PIPE, stderr: int = subprocess.PIPE
) -> Iterator[subprocess.Popen[bytes]]:
    """The command, to be spoken to while it runs."""
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={**os.environ, "OTTLA_BOOTSTRAP": bootstrap},
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


@contextmanager
def terminal() -> Iterator[tuple[BinaryIO, int]]:
    """What a person sees and types, and the file that a process takes for a terminal."""
    person, process = pty.openpty()
    try:
        with open(person, "r+b", buffering=0) as file:
            yield file, process
    finally:
        os.close(process)


def interrupt(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    """Ctrl-C; the exit code, and what was written to both outputs since."""
    process.send_signal(signal.SIGINT)
    # Before communicate, which would end its input as well.
    process.wait(timeout=WITHIN)
    output, errors = process.communicate(timeout=WITHIN)
    assert b"Traceback" not in errors, errors.decode()
    return process.returncode, output, errors
