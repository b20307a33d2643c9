"""`python -m tests.sim --seeds 1000`: many trials under the nemesis, on all processors; `--seed 17`: one, in detail.

Prints how often each kind of fault has struck, and fails where one never has, or where a rule does not hold: a seed
that fails is printed with how to repeat it.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import logging
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.sim.disk_faults import EVERY_KIND
from ottla.sim.disk_trial import DISK_EVENTS, try_disks
from ottla.sim.fault_kinds import KINDS
from ottla.sim.group_trial import MEMBER_FAULTS, try_groups
from ottla.sim.transaction_faults import TRANSACTION_KINDS
from ottla.sim.transaction_trial import CLIENT_FAULTS, try_transactions
from ottla.sim.trial import TrialReport, try_seed
from tests.sim.sink.trial import SINK_FAULTS, try_sink

_PRINT_EVERY: Final = 5.0
_MOST_PRINTED: Final = 5
"""Failing seeds that are printed with everything; of the others the first violation is."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description="A cluster under the nemesis.")
    parser.add_argument("--seeds", type=int, default=100, help="how many (default: 100)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default: 0)")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="processes (default: all processors)"
    )
    parser.add_argument(
        "--trial", choices=list(TRIALS), default="replication", help="of what (default: replication)"
    )
    parser.add_argument("--seed", type=int, help="one seed, with everything that the nemesis did")
    parser.add_argument("--trace", type=Path, help="with --seed: a file for every log message and arrival")
    options = parser.parse_args()
    trial = TRIALS[options.trial]
    if options.seed is not None:
        return _try_one(trial, options.seed, options.trace)
    return _try_many(trial, range(options.first, options.first + options.seeds), options.workers)


@dataclass(frozen=True)
class Trial:
    """What is tried with each seed."""

    name: str
    try_seed: Callable[..., TrialReport]
    faults: tuple[str, ...]
    """Those that have to strike at least once."""


TRIALS: Final = {
    trial.name: trial
    for trial in (
        Trial("replication", try_seed, tuple(KINDS)),
        Trial("groups", try_groups, (*KINDS, *MEMBER_FAULTS)),
        Trial("transactions", try_transactions, (*TRANSACTION_KINDS, *CLIENT_FAULTS)),
        Trial("disks", try_disks, (*EVERY_KIND, *DISK_EVENTS)),
        Trial("sink", try_sink, (*TRANSACTION_KINDS, *SINK_FAULTS)),
    )
}


def _try_one(trial: Trial, seed: int, path: Path | None) -> int:
    messages = _Messages()
    _log_to(messages)
    report = trial.try_seed(seed, traced=path is not None)
    if path is not None:
        lines = heapq.merge(
            messages.lines,
            ((arrival.time, str(arrival)) for arrival in report.arrivals),
            ((event.time, f"nemesis: {event.what}") for event in report.events),
            key=lambda line: line[0],
        )
        path.write_text("".join(f"{moment:12.6f} {line}\n" for moment, line in lines), encoding="utf-8")
    print(report)
    print(f"  digest {report.digest}")
    return 1 if report.violations else 0


def _try_many(trial: Trial, seeds: range, workers: int) -> int:
    began = last = time.monotonic()
    struck: Counter[str] = Counter()
    failed: list[TrialReport] = []
    acknowledged = 0
    for number, report in enumerate(_reports(trial, seeds, workers), 1):
        struck += report.struck
        acknowledged += report.acknowledged
        if report.violations:
            failed.append(report)
            print(report if len(failed) <= _MOST_PRINTED else f"seed {report.seed}: {report.violations[0]}")
            print(
                f"  to repeat it: python -m tests.sim --trial {trial.name} --seed {report.seed} "
                f"--trace seed-{report.seed}.txt",
                flush=True,
            )
        now = time.monotonic()
        if now - last >= _PRINT_EVERY:
            last = now
            print(
                f"{now - began:7.1f} s: {number:,} of {len(seeds):,} seeds, {len(failed)} failed", flush=True
            )
    print(
        f"{len(seeds):,} seeds in {time.monotonic() - began:.0f} s: {acknowledged:,} records acknowledged, "
        f"{sum(struck.values()):,} faults"
    )
    for kind in trial.faults:
        print(f"  {struck[kind]:7,} {kind}")
    never = [kind for kind in trial.faults if not struck[kind]]
    if never:
        print(f"never struck: {', '.join(never)}; more seeds are needed, or another plan", file=sys.stderr)
    if failed:
        print(f"failed: seeds {', '.join(str(report.seed) for report in failed)}", file=sys.stderr)
    return 1 if never or failed else 0


def _reports(trial: Trial, seeds: range, workers: int) -> Iterator[TrialReport]:
    if workers <= 1:
        _be_quiet()
        yield from map(trial.try_seed, seeds)
        return
    with multiprocessing.Pool(workers, _be_quiet) as pool:
        yield from pool.imap_unordered(trial.try_seed, seeds)


class _Messages(logging.Handler):
    """Keeps what is logged, with the virtual time of its simulation."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[tuple[float, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        try:
            now = asyncio.get_running_loop().time()
        except RuntimeError:
            return  # before the simulation, or after it
        self.lines.append((now, f"{record.name}: {record.getMessage()}"))


def _be_quiet() -> None:
    """What brokers and clients say of faults is not for the terminal."""
    _log_to(logging.NullHandler())


def _log_to(handler: logging.Handler) -> None:
    logger = logging.getLogger("ottla")
    logger.addHandler(handler)
    logger.propagate = False
    if not isinstance(handler, logging.NullHandler):
        logger.setLevel(logging.DEBUG)


if __name__ == "__main__":
    sys.exit(main())
