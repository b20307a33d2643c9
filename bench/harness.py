"""How things are measured here, and how the result is shown.

Machines are noisy, so: CPU time instead of the clock where the work is the process's own, repeats that are
interleaved (one of each, then again), medians, and the spread beside them. A ratio against a peer in the same
run is a claim; a bare figure is not.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One quantity, measured several times."""

    unit: str
    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    def as_json(self) -> dict[str, Any]:
        return {
            "unit": self.unit,
            "median": self.median,
            "min": min(self.samples),
            "max": max(self.samples),
            "repeats": len(self.samples),
        }


@dataclass
class Result:
    """What one benchmark has to say."""

    name: str
    ratios: dict[str, float] = field(default_factory=dict)
    figures: dict[str, Figure] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> str:
        return json.dumps(
            {
                "name": self.name,
                "ratios": {name: round(value, 4) for name, value in self.ratios.items()},
                "figures": {name: figure.as_json() for name, figure in self.figures.items()},
                "notes": self.notes,
                "machine": machine(),
            }
        )

    def as_table(self) -> str:
        width = max(map(len, [*self.ratios, *self.figures]), default=0)
        lines = [f"bench {self.name}", ""]
        for name, figure in self.figures.items():
            low, high = min(figure.samples), max(figure.samples)
            spread = f"({low:,.4g} to {high:,.4g}, {len(figure.samples)} repeats)"
            lines.append(f"  {name:<{width}}  {figure.median:>10,.4g} {figure.unit:<4} {spread}")
        lines.append("")
        for name, value in self.ratios.items():
            lines.append(f"  {name:<{width}}  {value:>10.2f} {'ms' if name.endswith('_ms') else 'x'}")
        lines += [f"  {note}" for note in self.notes]
        return "\n".join(lines) + "\n"


def cpu_per_call(work: Callable[[], object], at_least: float = 0.05) -> float:
    """Seconds of CPU, user and system, of this process for one call; called until it adds up to something.

    Once before that, uncounted: memory and caches are warm, as they are in a process that has been running.
    """
    gc.collect()
    work()
    calls = 1
    while True:
        started = time.process_time()
        for _ in range(calls):
            work()
        spent = time.process_time() - started
        if spent >= at_least:
            return spent / calls
        calls = max(calls + 1, int(calls * at_least / max(spent, at_least / 10)))


def interleaved(
    cases: Mapping[str, Callable[[], float]], repeats: int, label: str
) -> dict[str, tuple[float, ...]]:
    """Each case once, then each again: what disturbs the machine for a while disturbs all of them."""
    samples: dict[str, list[float]] = {name: [] for name in cases}
    for repeat in range(repeats):
        progress(f"{label}: {repeat + 1} of {repeats}")
        for name, measure in cases.items():
            samples[name].append(measure())
    return {name: tuple(values) for name, values in samples.items()}


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def machine() -> dict[str, Any]:
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()
