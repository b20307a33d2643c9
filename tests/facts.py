"""Known answers that are not ours to ship: where they are looked up, and what happens without them.

Answers taken from running Apache Kafka's own client are facts and live in the test tree. Those gathered from
the test suites of other projects stay outside: a test that wants them asks here. The folder is the one that
the environment variable OTTLA_KAFKA_FACTS names, or else `shared/kafka` next to the repository. Without it
those tests skip and say what was missing; the suite passes either way.

    def test_murmur2_agrees_with_other_clients() -> None:
        for vector in third_party_vectors("murmur2"):
            assert murmur2(input_bytes(vector)) == vector["expected"], vector["id"]
"""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any, TypeAlias

import pytest

VARIABLE = "OTTLA_KAFKA_FACTS"

# A known answer: area, id, source, input, expected. The shapes of the last two differ from area to area.
Vector: TypeAlias = dict[str, Any]


def facts_dir() -> Path | None:
    """The folder with the facts, if there is one here."""
    folder = _candidate()
    return folder if folder.is_dir() else None


def third_party_vectors(area: str) -> list[Vector]:
    """The known answers of one area that come from other projects; skips the calling test without them."""
    folder = facts_dir()
    if folder is None:
        pytest.skip(
            f"no known answers from other projects: {_candidate()} is missing ({VARIABLE} names another)"
        )
    found = [
        vector
        for vector in _vectors(folder / "vectors.json")
        if vector["area"] == area and not vector["source"].startswith("kafka-clients-")
    ]
    assert found, f"no known answers for {area!r}: is the name right?"
    return found


def input_bytes(vector: Vector) -> bytes:
    """The input of a vector that has one string of bytes, written in hex or as text."""
    given = vector["input"]
    return bytes.fromhex(given["hex"]) if "hex" in given else str(given["utf8"]).encode()


def _candidate() -> Path:
    named = os.environ.get(VARIABLE)
    return Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "kafka"


@functools.cache
def _vectors(path: Path) -> list[Vector]:
    vectors: list[Vector] = json.loads(path.read_text())["vectors"]
    return vectors
