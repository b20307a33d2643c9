"""Makes the known answers of the wire tests from the protocol facts.

    python -m tools.make_vectors FACTS      FACTS: the folder with wire_vectors.json and vectors.json

Only answers that Apache Kafka itself gave are taken; those of other projects stay where they are. The values
behind the bytes follow a rule (tests/wire/filling.py), so the bytes are enough: here it is checked that the rule
gives exactly the values that Kafka was asked to write.
"""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

from ottla.wire.message import message_class
from tests.wire import vectors
from tests.wire.filling import full, minimal

HEADER = """\
# What Apache Kafka 4.3.0's own classes write: message, versions, case, bytes. Made by tools/make_vectors.py.
# The values follow the rules of filling.py; `full` sets every field, `min` none.
"""


def message_answers(facts: Path) -> str:
    raw: list[dict[str, Any]] = json.loads((facts / "wire_vectors.json").read_text())["vectors"]
    for vector in raw:
        cls = message_class(vector["name"])
        value = vectors.from_json(cls, vector["value"])
        made = (full if vector["case"] == "full" else minimal)(cls, vector["version"])
        if made.encode(vector["version"]) != value.encode(vector["version"]):
            raise ValueError(f"the rule does not give {vector['name']} v{vector['version']} {vector['case']}")
    raw.sort(key=lambda v: (v["name"], v["case"], v["version"]))
    lines = []
    for (name, case, hex_), group in groupby(raw, key=lambda v: (v["name"], v["case"], v["hex"])):
        versions = [v["version"] for v in group]
        if versions != list(range(versions[0], versions[-1] + 1)):
            raise ValueError(f"{name}: the versions {versions} have a gap")
        lines.append(f"{name} {versions[0]}-{versions[-1]} {case} {hex_ or '-'}")
    return HEADER + "\n".join(lines) + "\n"


def framed_answers(facts: Path) -> str:
    raw: list[dict[str, Any]] = json.loads((facts / "vectors.json").read_text())["vectors"]
    kept = [
        {"area": v["area"], "id": v["id"], "input": v["input"], "expected": v["expected"]}
        for v in raw
        if v["area"] in ("framed-request", "framed-response") and "executed" in v["source"]
    ]
    return "".join(json.dumps(v, separators=(",", ":")) + "\n" for v in kept)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    facts = Path(arguments[0])
    vectors.MESSAGES.write_text(message_answers(facts))
    vectors.FRAMES.write_text(framed_answers(facts))
    print(f"{vectors.MESSAGES.name}: {len(vectors.message_vectors())} answers")
    print(f"{vectors.FRAMES.name}: {len(vectors.framed_vectors())} answers")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
