"""How much memory Spark's Python workers take, seen from outside: what /proc says of them, several times a second."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_INTERVAL_S: Final = 0.1
_PROC: Final = Path("/proc")
_DAEMON: Final = b"pyspark.daemon"
"""In the command line of the process that starts the workers, and so of the workers, which are its forks."""


@dataclass
class Peak:
    """Megabytes, where pages that processes share count for each in proportion (PSS)."""

    largest: float = 0.0
    together: float = 0.0

    def sample(self) -> None:
        """Looks at the workers of every Spark that this process has started, directly or not."""
        sizes = [pss(process) for process in descendants(os.getpid()) if _is_worker(process)]
        self.largest = max([self.largest, *sizes])
        self.together = max(self.together, sum(sizes))


@contextmanager
def watched() -> Iterator[Peak]:
    """What the workers took at most while the block ran."""
    peak, ended = Peak(), threading.Event()

    def watch() -> None:
        while not ended.wait(_INTERVAL_S):
            peak.sample()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        ended.set()
        watcher.join()


def descendants(ancestor: int) -> list[Path]:
    """The folders of all processes below it, those nearest to it first."""
    children: dict[int, list[int]] = {}
    for folder in _PROC.glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            parent = int((folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    found, generation = list[int](), [ancestor]
    while generation:
        generation = [child for each in generation for child in children.get(each, [])]
        found += generation
    return [_PROC / str(process) for process in found]


def _is_worker(process: Path) -> bool:
    try:
        return _DAEMON in (process / "cmdline").read_bytes()
    except OSError:
        return False


def pss(process: Path) -> float:
    """Megabytes; 0 of one that has ended."""
    with suppress(OSError):
        for line in (process / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0
