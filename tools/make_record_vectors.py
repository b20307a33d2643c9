"""Makes the known answers of the record tests from the protocol facts.

    python -m tools.make_record_vectors FACTS      FACTS: the folder with vectors.json

Only what Apache Kafka itself wrote is taken: those are facts. Answers from the tests of other projects stay where
they are, and tests/facts.py finds them there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.records.vectors import KAFKA, kafka_vectors

AREAS = ("record-batch", "control-record")
BY_KAFKA = "kafka-clients-4.3.0.jar executed"
# The same in every record of an input that does not say otherwise.
DEFAULTS = {
    "logAppendTime": -1,
    "producerId": -1,
    "producerEpoch": -1,
    "baseSequence": -1,
    "transactional": False,
    "partitionLeaderEpoch": -1,
}


def batch_answers(facts: Path) -> str:
    raw: list[dict[str, Any]] = json.loads((facts / "vectors.json").read_text())["vectors"]
    kept = [
        {"id": vector["id"], "input": _without_defaults(vector["input"]), "expected": vector["expected"]}
        for vector in raw
        if vector["area"] in AREAS and vector["source"].startswith(BY_KAFKA)
    ]
    return "".join(json.dumps(vector, separators=(",", ":")) + "\n" for vector in kept)


def _without_defaults(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if DEFAULTS.get(name, ...) != value}


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    KAFKA.write_text(batch_answers(Path(arguments[0])))
    print(f"{KAFKA.name}: {len(kafka_vectors())} answers")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
