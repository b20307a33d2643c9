"""`python -m tests.spark.soak --seconds 3600`: prints faults and figures as it goes, and fails with what is wrong."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.spark.soak.run import soak
from tests.spark.soak.watch import SoakError


def main() -> int:
    parser = argparse.ArgumentParser(description="Two exactly-once queries in a row, while everything fails.")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--broker", choices=["ottla", "apache"], default="ottla")
    parser.add_argument("--seed", type=int, default=0, help="of the order of faults, and of their victims")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ottla-soak-spark-"))
    print(f"logs and checkpoints: {folder}", flush=True)
    began = time.monotonic()
    try:
        done = soak(
            options.seconds,
            folder,
            kind=options.broker,
            seed=options.seed,
            report=lambda line: print(line, flush=True),
        )
    except (SoakError, TimeoutError) as error:
        print(f"FAILED: {error}\nlogs and checkpoints are kept in {folder}", file=sys.stderr)
        return 1
    print(
        f"{done.fed:,} numbers in {time.monotonic() - began:.0f} s, lost 0, doubled 0; faults: {done.faults}; "
        f"{done.starts} starts of stages, {done.failures} of them after an end by itself; at most: {done.most}"
    )
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
