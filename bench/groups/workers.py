"""The processes of members and feed, as the harness sees them, and groups of them.

Processes are started once, and their members join one group after another: what is measured is a client that joins,
not an interpreter that starts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Self

from bench.groups.deliveries import Timeline, is_spread

_DEADLINE = 60.0
_LOOKS = 0.1
"""Seconds between two looks at the members: seldom enough not to be what is measured."""


class Worker:
    """One process, which does one command after another."""

    def __init__(self, kind: str, bootstrap: str) -> None:
        command = [sys.executable, "-m", "bench.groups", kind, "--bootstrap", bootstrap]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._kind = kind

    def ask(self, do: str, **options: Any) -> Any:
        self.begin(do, **options)
        return self.end()

    def begin(self, do: str, **options: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **options}) + "\n")
        self._process.stdin.flush()

    def end(self) -> Any:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"a process of {self._kind} has ended")
        return json.loads(answer)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_DEADLINE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


@contextmanager
def start_workers(kind: str, bootstrap: str, count: int) -> Iterator[list[Worker]]:
    with ExitStack() as stack:
        started = []
        for _ in range(count):
            worker = Worker(kind, bootstrap)
            stack.callback(worker.close)
            started.append(worker)
        yield started


class Group:
    """Members that join and leave, and what they are given; members are numbers."""

    def __init__(self, members: Sequence[Worker], topic: str, partitions: int, mode: str) -> None:
        self._members = members
        self._partitions = partitions
        self._options = {"topic": topic, "group": f"group-{uuid.uuid4().hex[:8]}", "mode": mode}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A process that has failed has said so already.
        if kind is None:
            self._ask("end")

    def join(self, *numbers: int) -> float:
        """Begins to; when that was."""
        began = time.monotonic()
        for number in numbers:
            self._members[number].begin("join", **self._options)
        for number in numbers:
            self._members[number].end()
        return began

    def leave(self, number: int) -> float:
        """Begins to; when that was."""
        began = time.monotonic()
        self._members[number].ask("leave")
        return began

    def until_all_read(self) -> float:
        """When the last of the members got its first record."""
        found: list[float | None] = []

        def all_read() -> bool:
            found[:] = self._ask("first")
            return None not in found

        _until(all_read, f"{len(self._members)} members that read")
        return max(each for each in found if each is not None)

    def until_spread(self, readers: int) -> None:
        """Until so many members have read all partitions for a while, and each of these something."""

        def spread() -> bool:
            runs = {number: dict(own) for number, own in enumerate(self._ask("runs"))}
            return is_spread(runs, self._partitions, readers, time.monotonic())

        _until(spread, f"{readers} members that read {self._partitions} partitions")

    def timeline(self, since: float) -> Timeline:
        timeline = Timeline()
        for number, deliveries in enumerate(self._ask("since", time=since)):
            timeline.add(number, deliveries)
        return timeline

    def _ask(self, do: str, **options: Any) -> list[Any]:
        for member in self._members:
            member.begin(do, **options)
        return [member.end() for member in self._members]


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {_DEADLINE:g} s in vain for {what}")
        time.sleep(_LOOKS)
