"""`python -m tests.spark.sink.exactly_once.model`: searches the large trials, and says how many states each has.

`--only TEXT` takes those whose names have it; `--mistakes` shows what each planted mistake leads to, step by step.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace

from tests.spark.sink.exactly_once.model.search import Found, search
from tests.spark.sink.exactly_once.model.trials import LARGE, PLANTED, QUICK


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.spark.sink.exactly_once.model",
        description="The sink's protocol, in every order.",
    )
    parser.add_argument("--only", default="", help="a part of the names of trials")
    parser.add_argument(
        "--most", type=int, default=4_000_000, help="states of a trial (default: 4,000,000; 1 KB each)"
    )
    parser.add_argument("--mistakes", action="store_true", help="the planted mistakes instead")
    options = parser.parse_args()
    return _show_mistakes() if options.mistakes else _search_all(options.only, options.most)


def _search_all(only: str, most: int) -> int:
    failed = 0
    for name, settings in [*QUICK, *LARGE]:
        if only not in name:
            continue
        began = time.monotonic()
        found = search(settings, most)
        print(f"{name}: {found} ({time.monotonic() - began:.0f} s)", flush=True)
        failed += not _holds(found)
    return 1 if failed else 0


def _holds(found: Found) -> bool:
    return found.is_whole and not found.problem and found.ends > 0


def _show_mistakes() -> int:
    missed = 0
    for mistake, settings in PLANTED.items():
        found = search(replace(settings, mistakes=frozenset({mistake})))
        print(f"{mistake.name}: {mistake.value}\n{found}\n", flush=True)
        missed += not found.problem
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
