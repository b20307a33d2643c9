"""The benchmark's end of a session: starts its process, hands it jobs, stops it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO

from bench.clients.job import DEADLINE
from bench.spark_jobs.job import Job, Measured

_STOP_S = 30.0
_LOG_LINES = 40


class Session:
    """Spark in a process of its own, which does one job after the other."""

    def __init__(self, process: subprocess.Popen[str], log: IO[str]) -> None:
        self._process = process
        self._log = log

    def measure(self, job: Job) -> Measured:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with suppress(BrokenPipeError):  # the missing result is reported below, with the log
            stdin.write(json.dumps(asdict(job)) + "\n")
            stdin.flush()
        result = stdout.readline()
        if not result:
            raise RuntimeError(f"the Spark session ended in {job}. The end of its log:\n{self._last_words()}")
        return Measured(**json.loads(result))

    def die_of(self, job: Job) -> None:
        """Has it do a job in which it is killed."""
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(json.dumps(asdict(job)) + "\n")
        stdin.flush()
        if self._process.wait(DEADLINE) != -signal.SIGKILL:
            raise RuntimeError(f"the Spark session was not killed in {job}:\n{self._last_words()}")

    def _last_words(self) -> str:
        self._process.wait()
        self._log.seek(0)
        return "".join(self._log.readlines()[-_LOG_LINES:])

    def close(self) -> None:
        """Lets it end by itself, its JVM and Python workers first."""
        try:
            self._process.communicate(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()


@contextmanager
def session(
    master: str,
    jars: Iterable[Path] = (),
    python: Path | None = None,
    settings: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[Session]:
    """Spark on `master`, with jars beside its own, and settings. It is still starting when this returns.

    `env` is added to the environment.
    Its workers are run by this Python, or by `python` (see `python_without_ottla`).
    """
    command = [sys.executable, "-m", "bench.spark_jobs", "--master", master]
    if paths := ",".join(map(str, jars)):
        command += ["--jars", paths]
    if python is not None:
        command += ["--python", str(python)]
    command += [f"--conf={name}={value}" for name, value in (settings or {}).items()]
    # Else Spark's workers are whatever python3 is on the PATH.
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, **(env or {})}
    # As where it is installed: without bytecode each new worker would compile what it imports.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        )
        started = Session(process, log)
        try:
            yield started
        finally:
            started.close()


@contextmanager
def python_without_ottla() -> Iterator[Path]:
    """This Python with all that is installed, but for Ottla.

    Every session imports the data sources that it finds installed, so that of a peer would pay for this one.
    """
    installed = Path(sysconfig.get_paths()["purelib"])
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder:
        venv.create(folder, symlinks=True)
        packages = Path(sysconfig.get_path("purelib", "venv", {"base": folder, "platbase": folder}))
        for entry in installed.iterdir():
            if "ottla" not in entry.name and not (packages / entry.name).exists():
                (packages / entry.name).symlink_to(entry)
        yield Path(folder) / "bin" / "python"
