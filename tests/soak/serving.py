"""The cluster of a soak, in a process of its own: `python -m tests.soak.serving`.

It prints where it listens, then does what it is told by lines of its standard input, answers each with a line, and
ends with that input.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.broker import Cluster
from ottla.broker.server.faults import drop, error


class Served:
    """The other process, as the soak sees it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.bootstrap = self._line()

    @property
    def pid(self) -> int:
        return self._process.pid

    def disturb(self) -> None:
        """Some of the next requests go wrong."""
        self._tell("disturb")

    def calm(self) -> None:
        """No more of that."""
        self._tell("calm")

    def _tell(self, what: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the cluster of the soak has ended")
        return line.strip()


@contextmanager
def served() -> Iterator[Served]:
    """A cluster of three brokers, as long as this lasts."""
    command = [sys.executable, "-m", __name__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Served(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def serve() -> None:
    with Cluster(3, topics={"steady": 3}) as cluster:
        print(cluster.bootstrap, flush=True)
        for line in sys.stdin:
            cluster.faults.clear()
            if line.strip() == "disturb":
                cluster.faults.add("Produce", when="after_append", action=drop, count=1)
                cluster.faults.add("Produce", action=error("NOT_LEADER_OR_FOLLOWER"), count=1)
                cluster.faults.add("Fetch", action=drop, count=1)
                cluster.faults.add("Metadata", action=drop, count=1)
                cluster.faults.add("ListOffsets", action=error("LEADER_NOT_AVAILABLE"), count=1)
            print("done", flush=True)


if __name__ == "__main__":
    serve()
