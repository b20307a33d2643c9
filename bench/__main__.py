"""`python -m bench NAME [--json]`: measures one subject next to its peers; `all` measures every one.

With --json, standard output has one JSON object per benchmark and nothing else; progress goes to standard error.
"""

from __future__ import annotations

import argparse
import importlib
import sys

BENCHES = [
    "wire",
    "records",
    "broker",
    "replication",
    "disk",
    "groups",
    "transactions",
    "client",
    "spark",
    "exactly_once",
]
REPEATS = 9
MORE_REPEATS = {"broker": 15}
"""Its ratios are near 1, while its repeats spread by a tenth."""
MATRIX = "spark"
"""The benchmark whose matrix is too long for every day."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.partition("\n")[0])
    parser.add_argument("name", choices=[*BENCHES, "all"], help="what to measure")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument(
        "--repeats",
        type=int,
        help=f"interleaved repeats, the median counts (default: {REPEATS}, broker: {MORE_REPEATS['broker']})",
    )
    parser.add_argument("--full", action="store_true", help=f"of {MATRIX}, also the cases without a bar")
    options = parser.parse_args()
    if options.repeats is not None and options.repeats < 1:
        parser.error("--repeats must be at least 1")
    if options.full and options.name not in (MATRIX, "all"):
        parser.error(f"--full is for {MATRIX}")
    for name in BENCHES if options.name == "all" else [options.name]:
        extra = {"full": True} if options.full and name == MATRIX else {}
        repeats = options.repeats or MORE_REPEATS.get(name, REPEATS)
        result = importlib.import_module(f"bench.{name}").run(repeats, **extra)
        print(result.as_json() if options.json else result.as_table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
