"""The test files that took longest, over all the runs of pytest that wrote to one file.

    OTTLA_TEST_SECONDS=seconds.txt make test test-spark
    python3 tools/slowest.py seconds.txt

A line of the file is what one run says of one file of tests: seconds and its path.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable

MOST = 10


def slowest(lines: Iterable[str]) -> list[tuple[str, float]]:
    """The slowest files with their seconds, which several runs may have added to."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for line in lines:
        took, _, path = line.strip().partition(" ")
        seconds[path] += float(took)
    return sorted(seconds.items(), key=lambda each: each[1], reverse=True)[:MOST]


def main(path: str) -> None:
    with open(path, encoding="utf-8") as file:
        for name, seconds in slowest(file):
            print(f"{seconds:7.1f} s  {name}")


if __name__ == "__main__":
    main(sys.argv[1])
