"""`python -m tests.soak --seconds 600`: prints what the process holds every few seconds, and fails with what grew."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Final

from tests.soak.growth import GrowthError, Sample
from tests.soak.run import for_seconds, soak

_PRINT_EVERY: Final = 5.0
_WARM_UP: Final = 40
_WINDOW: Final = 10


def main() -> int:
    parser = argparse.ArgumentParser(description="Nothing grows while clients come and go.")
    parser.add_argument("--seconds", type=float, default=600.0)
    options = parser.parse_args()
    began = last = time.monotonic()

    def progress(number: int, sample: Sample, cluster: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _PRINT_EVERY or number == 0:
            last = now
            print(
                f"{now - began:7.1f} s, cycle {number:>5,}: {sample}; the cluster {cluster / 1e6:.1f} MB",
                flush=True,
            )

    try:
        cycles = soak(
            for_seconds(options.seconds),
            warm_up=_WARM_UP,
            window=_WINDOW,
            progress=progress,
        )
    except GrowthError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{cycles:,} cycles in {time.monotonic() - began:.0f} s: nothing grows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
