"""The tests that failed in the last run of pytest, a line each; nothing where pytest has not come so far.

python3 tools/last_failed.py
"""

from __future__ import annotations

import json
from pathlib import Path

CACHE = Path(".pytest_cache/v/cache/lastfailed")


def last_failed(cache: Path) -> list[str]:
    return sorted(json.loads(cache.read_text(encoding="utf-8"))) if cache.exists() else []


if __name__ == "__main__":
    for name in last_failed(CACHE):
        print(name)
