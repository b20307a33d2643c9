"""A stage that is kept running: its program is started again whenever it has ended, from its checkpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.spark.worker_memory import descendants, pss
from tests.interop import supervise
from tests.spark.crashes.sink_on_broker import sink_id_in
from tests.spark.deployment.processes import environment
from tests.spark.soak import stage as program

TIMEOUT_MS: Final = 15_000
"""Of the sink's transactions: less than a stage may be paused."""
_EXECUTOR: Final = "CoarseGrainedExecutorBackend"


@dataclass(frozen=True)
class Copy:
    """What a stage is to do, and on which Spark."""

    name: str
    master: str
    source: str
    target: str


class Stage:
    """One of the queries."""

    def __init__(self, copy: Copy, bootstrap: str, folder: Path) -> None:
        self.name = copy.name
        self.starts = 0
        self.failures = 0
        """How often it has ended by itself: it may, when a fault has struck it."""
        self._checkpoint = folder / copy.name
        self._log = folder / f"{copy.name}.log"
        self._command = [sys.executable, "-m", program.__name__, copy.master, bootstrap, copy.source]
        self._command += [copy.target, str(self._checkpoint), str(TIMEOUT_MS)]
        self._process: supervise.Supervised | None = None

    def keep_running(self) -> None:
        """Starts the program if it does not run."""
        if self._process is not None:
            if self._process.poll() is None:
                return
            self.failures += 1
            self.kill()
        self.starts += 1
        with self._log.open("ab") as log:
            log.write(f"\n=== start {self.starts} of {self.name}\n".encode())
            log.flush()
            self._process = supervise.Supervised(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment()
            )

    def kill(self) -> None:
        """The driver, and all that it has started. Its Python goes first: it would outlive its JVM for a while."""
        if self._process is None:
            return
        self.signal([each.pid for each in reversed(self.processes())], signal.SIGKILL)
        self._process.close()
        self._process = None

    def signal(self, pids: list[int], number: signal.Signals) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    @property
    def sink_id(self) -> str | None:
        """None until the query has begun."""
        return sink_id_in(self._checkpoint) if (self._checkpoint / "metadata").exists() else None

    def processes(self) -> list[Process]:
        """The program and all that it has started, the outermost first."""
        if self._process is None or self._process.poll() is not None:
            return []
        found = [Process.of(Path(f"/proc/{self._process.pid}"))]
        found += [Process.of(each) for each in descendants(self._process.pid)]
        return [each for each in found if each is not None]

    def workers(self) -> list[int]:
        """Python processes that do something for Spark: in tasks, or for the query on the driver."""
        found = self.processes()[1:]
        parents = {each.parent for each in found}
        # A daemon is what workers are forked from; others plan and commit, and have no children.
        return [each.pid for each in found if each.is_python and each.pid not in parents]

    def executors(self) -> list[int]:
        return [each.pid for each in self.processes() if _EXECUTOR in each.command]


@dataclass(frozen=True)
class Process:
    """What /proc says of one."""

    pid: int
    parent: int
    command: str

    @classmethod
    def of(cls, folder: Path) -> Process | None:
        """None of one that has ended."""
        with suppress(OSError):
            parent = int((folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            return cls(int(folder.name), parent, command)
        return None

    @property
    def is_python(self) -> bool:
        return "python" in os.path.basename(self.command.partition(" ")[0])

    @property
    def megabytes(self) -> float:
        """Pages that processes share count for each in proportion."""
        return pss(Path(f"/proc/{self.pid}"))
