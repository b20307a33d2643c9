"""What Apache Kafka answered, written down: one line of JSON for each step.

With it the embedded cluster can be compared where there is no Java; whether the recording still says what Apache
Kafka says is for the tests marked `kafka` to find out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.interop.comparison.normal import Plain

FILE = Path(__file__).with_name("kafka_answers.jsonl")


def save(answers: Mapping[str, Plain], file: Path = FILE) -> None:
    lines = (
        json.dumps([step, outcome], sort_keys=True, separators=(",", ":"))
        for step, outcome in answers.items()
    )
    file.write_text("".join(f"{line}\n" for line in lines))


def load(file: Path = FILE) -> dict[str, Plain]:
    return dict(json.loads(line) for line in file.read_text().splitlines())
