"""Makes src/ottla/broker/dump/kafka.records from the record definitions in the jars of Apache Kafka 4.3.

    python -m tools.make_record_schema JARS          write it (JARS: the folder with Kafka's jars)
    python -m tools.make_record_schema JARS --check  fail when the one in the tree differs

These are the records that Kafka writes into topics of its own, by the jar that defines them. The messages of the
protocol, control records among them, are in ottla/wire/kafka.schema (tools/make_schema.py).
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path

from tools.make_schema import Json, Source, merge_message, show_message

TARGET = Path(__file__).parent.parent / "src" / "ottla" / "broker" / "dump" / "kafka.records"
SECTIONS = {
    "groups": "kafka-group-coordinator",
    "transactions": "kafka-transaction-coordinator",
    "share state": "kafka-share-coordinator",
    "metadata": "kafka-metadata",
}
HEADER = """\
# The records that Apache Kafka 4.3 writes into topics of its own, by what they are about. Derived from Apache Kafka's
# message definitions (Apache License 2.0, see NOTICE). Made by tools/make_record_schema.py; read by
# ottla.broker.dump.schemas. The form is that of ottla/wire/kafka.schema. The number is the type of the record; a key
# and its value have the same.
"""
_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)


def definitions(jars: Path, module: str) -> list[Json]:
    """The records that one jar defines, by type; a key before its value."""
    (jar,) = [path for path in jars.glob("*.jar") if re.search(rf"\b{module}-\d", path.name)]
    with zipfile.ZipFile(jar) as archive:
        texts = [archive.read(name).decode() for name in archive.namelist() if name.endswith(".json")]
    found: list[Json] = [json.loads(_COMMENT.sub("", text)) for text in texts]
    for raw in found:
        for struct in (raw, *raw.get("commonStructs", [])):
            struct["fields"] = [_with_versions(field, raw["validVersions"]) for field in struct["fields"]]
    return sorted(found, key=lambda raw: (raw["apiKey"], raw["name"]))


def _with_versions(field: Json, parent: str) -> Json:
    """A field that says no versions has those of what it stands in."""
    versions = field.get("versions", parent)
    inner = [_with_versions(each, versions) for each in field.get("fields", [])]
    # To Kafka's generator the default null is none at all; the one that is meant is written as text.
    said = {name: value for name, value in field.items() if value is not None}
    return {**said, "versions": versions, **({"fields": inner} if inner else {})}


def make(jars: Path) -> str:
    sections = []
    for name, module in SECTIONS.items():
        blocks = [
            show_message(merge_message(Source({**raw, "type": "data"}), None))
            for raw in definitions(jars, module)
        ]
        sections.append("\n\n".join([f"## {name}", *blocks]))
    return HEADER + "\n" + "\n\n".join(sections) + "\n"


def main(arguments: list[str]) -> int:
    folders = [each for each in arguments if not each.startswith("-")]
    if len(folders) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    text = make(Path(folders[0]))
    if "--check" not in arguments:
        TARGET.write_text(text)
        print(f"{TARGET}: {len(text)} bytes")
    elif TARGET.read_text() != text:
        print(f"{TARGET} differs: run python -m tools.make_record_schema {folders[0]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
