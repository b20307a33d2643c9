"""Processes that a benchmark measures from outside: started, measured, stopped."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

OTTLA = [sys.executable, "-m", "ottla.broker", "--port", "0", "--log", "none"]
"""The embedded cluster; how many nodes and which configs follow."""
_SCHEDULED = 2


@dataclass
class Process:
    """A broker in a process of its own."""

    id: int
    bootstrap: str

    def cpu(self) -> float:
        """Seconds of CPU that it has spent, user and system.

        By its own clock, numbered as clock_getcpuclockid(3) does it: /proc counts in hundredths of a second.
        """
        return time.clock_gettime((~self.id << 3) | _SCHEDULED)

    def memory(self) -> int:
        """Bytes that it keeps resident."""
        pages = int(Path(f"/proc/{self.id}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def running(command: list[str]) -> Iterator[Process]:
    """Starts a broker, which prints its address; stops it again."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            bootstrap = process.stdout.readline().strip()
            if not bootstrap:
                raise RuntimeError(f"{' '.join(command)} did not start")
            yield Process(process.pid, bootstrap)
        finally:
            process.terminate()
