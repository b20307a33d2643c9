"""Spark's own processes for a test: jobs, a standalone cluster, a Connect server. All on loopback, none outlives it.

What the jobs do is in `jobs`; here is how they and the servers are started, and what is in their environment.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pyspark

from tests.interop import supervise

ROOT: Final = Path(__file__).parents[3]
SPARK_HOME: Final = Path(pyspark.__file__).parent
_LOCAL: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "WARN",
}
_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_SUBMIT: Final = "org.apache.spark.deploy.SparkSubmit"
_CONNECT_SERVER: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_START_TIMEOUT: Final = 300.0
_JOB_TIMEOUT: Final = 600.0


def environment(**extra: str) -> dict[str, str]:
    """That of these tests, without what would point Spark elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    return {**kept, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, **extra}


def run_jobs(
    jobs: Sequence[str],
    *,
    master: str,
    bootstrap: str,
    folder: Path,
    settings: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Runs jobs one after the other in one Spark session, and returns what each gave."""
    conf = [f"--conf={name}={value}" for name, value in {**_LOCAL, **(settings or {})}.items()]
    command = [
        sys.executable,
        "-m",
        "tests.spark.deployment.jobs",
        master,
        bootstrap,
        str(folder),
        *jobs,
        *conf,
    ]
    done = supervise.run(command, text="", within=_JOB_TIMEOUT, env=env or environment())
    assert done.returncode == 0, done.stderr[-5000:]
    outcomes: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return outcomes


@contextmanager
def standalone(
    folder: Path, *, workers: int, cores: int = 1, gigabytes: int = 1, env: Mapping[str, str]
) -> Iterator[str]:
    """A master and its workers, in processes of their own; the address of the master.

    Cores and gigabytes are what each worker gives to executors.
    """
    loopback = ["--host", "127.0.0.1", "--webui-port", "0"]
    with ExitStack() as services:
        master = services.enter_context(_service(_MASTER, [*loopback, "--port", "0"], env))
        url = master.wait_for(r"Starting Spark master at (spark://\S+)")
        capacity = ["--cores", str(cores), "--memory", f"{gigabytes}g"]
        logs = [
            services.enter_context(
                _service(
                    _WORKER, [*loopback, *capacity, "--work-dir", str(folder / f"worker-{number}"), url], env
                )
            )
            for number in range(workers)
        ]
        for log in logs:
            log.wait_for("(Successfully registered with master)")
        yield url


@contextmanager
def connect_server(*, env: Mapping[str, str]) -> Iterator[str]:
    """What sbin/start-connect-server.sh starts, but in the foreground; the address for `builder.remote`."""
    settings = {
        **_LOCAL,
        "spark.log.level": "INFO",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
    }
    conf = [argument for name, value in settings.items() for argument in ("--conf", f"{name}={value}")]
    arguments = ["--master", "local[2]", *conf, "--class", _CONNECT_SERVER, "spark-internal"]
    with _service(_SUBMIT, arguments, env) as log:
        port = log.wait_for(r"Spark Connect server started at: \S*:(\d+)")
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def _service(kind: str, arguments: Sequence[str], env: Mapping[str, str]) -> Iterator[_Log]:
    command = [str(SPARK_HOME / "bin" / "spark-class"), kind, *arguments]
    reading, writing = os.pipe()
    log = _Log(reading)
    try:
        child = supervise.Supervised(
            command,
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=writing,
            env={**env, "SPARK_HOME": str(SPARK_HOME)},
        )
    finally:
        os.close(writing)
    try:
        yield log
    finally:
        child.close()
        log.close()


class _Log:
    """What a service writes, read all the time so that it never has to wait for us."""

    def __init__(self, descriptor: int) -> None:
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, args=(descriptor,), daemon=True)
        self._reader.start()

    def wait_for(self, pattern: str) -> str:
        """The group of the first line that matches; an error with the end of the log if none ever does."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._first(pattern) is not None, _START_TIMEOUT)
            found = self._first(pattern)
            assert found is not None, "\n".join(self._lines[-40:])
        return found

    def close(self) -> None:
        """Ends when the last process that could write has ended."""
        self._reader.join(_START_TIMEOUT)

    def _first(self, pattern: str) -> str | None:
        matches = (re.search(pattern, line) for line in self._lines)
        return next((match[1] for match in matches if match is not None), None)

    def _read(self, descriptor: int) -> None:
        with open(descriptor, errors="replace") as lines:
            for line in lines:
                with self._changed:
                    self._lines.append(line.rstrip())
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()
