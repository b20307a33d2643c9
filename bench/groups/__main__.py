"""`python -m bench.groups KIND`: the process of one member, or of the feed.

A command is a line of JSON on standard input, its answer one on standard output. The end of the input ends it.
"""

from __future__ import annotations

import argparse
import json
import sys

from bench.groups.feeding import Feed
from bench.groups.members import Confluent, Ottla

KINDS: dict[str, type[Feed] | type[Confluent] | type[Ottla]] = {
    "ottla": Ottla,
    "confluent": Confluent,
    "feed": Feed,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.groups", description=__doc__.partition("\n")[0])
    parser.add_argument("kind", choices=list(KINDS))
    parser.add_argument("--bootstrap", required=True)
    options = parser.parse_args()
    worker = KINDS[options.kind](options.bootstrap)
    try:
        for line in sys.stdin:
            print(json.dumps(worker.handle(**json.loads(line))), flush=True)
    finally:
        worker.close()


if __name__ == "__main__":
    main()
