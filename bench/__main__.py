"""`python -m bench NAME [--json]`: measures one subject next to its peers; `all` measures every one.

With --json, standard output has one JSON object per benchmark and nothing else; progress goes to standard error.
"""

from __future__ import annotations

import argparse
import importlib
import sys

BENCHES = ["wire", "records", "broker", "client"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.partition("\n")[0])
    parser.add_argument("name", choices=[*BENCHES, "all"], help="what to measure")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument(
        "--repeats", type=int, default=9, help="interleaved repeats, the median counts (default: 9)"
    )
    options = parser.parse_args()
    if options.repeats < 1:
        parser.error("--repeats must be at least 1")
    for name in BENCHES if options.name == "all" else [options.name]:
        result = importlib.import_module(f"bench.{name}").run(options.repeats)
        print(result.as_json() if options.json else result.as_table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
