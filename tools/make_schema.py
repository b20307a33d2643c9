"""Makes src/ottla/wire/kafka.schema from the protocol facts of Apache Kafka 4.3 and 3.9.

    python -m tools.make_schema FACTS          write it (FACTS: the folder with messages_4.3.json and _3.9.json)
    python -m tools.make_schema FACTS --check  fail when the one in the tree differs

Kafka 4.0 dropped old versions that a client still meets at older brokers, and a cluster at older clients.
So each message is the union of two descriptions: 4.3 for every version that 4.3 has, 3.9 for those below.
The union is proven before it is written: for every version its layout equals that of the release it came from.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "src" / "ottla" / "wire" / "kafka.schema"

Json = dict[str, Any]
Range = tuple[int, int]

NONE: Range = (0, -1)
LATEST = 32767

HEADER = """\
# The messages of the Kafka protocol: every version of Apache Kafka 4.3, and those that 4.0 dropped, from 3.9.
# Derived from Apache Kafka's message definitions (Apache License 2.0, see NOTICE). Made by
# tools/make_schema.py; read by ottla.wire.schema.
#
#   kind [api key] Name versions flexible=versions [unstable]     unstable: the latest version may still change
#     Name type [versions] [tag=N] [default=X] [ignorable] [inflexible]
#
# No versions: those of whatever it stands in. `?` after a type: nullable, `?3+` in these versions only.
# `tag=N` is a tagged field, `tag=N@3+` in these versions only. Indented below a field or a `struct`: its fields.
# `ignorable`: dropped without an error where the version lacks it. `inflexible`: never in compact form.
"""


def parse_range(text: str | None) -> Range:
    """ "3+", "0-4", "2" and "none" as inclusive bounds; "3+" is open to the top."""
    if text is None or text == "none":
        return NONE
    if text.endswith("+"):
        return int(text[:-1]), LATEST
    low, _, high = text.partition("-")
    return int(low), int(high or low)


def clamp(range_: Range, bounds: Range) -> Range:
    low, high = max(range_[0], bounds[0]), min(range_[1], bounds[1])
    return (low, high) if low <= high else NONE


def union(first: Range, second: Range, where: str) -> Range:
    if first == NONE:
        return second
    if second == NONE:
        return first
    if first[1] + 1 < second[0]:
        raise ValueError(f"{where}: versions {first} and {second} leave a gap")
    return min(first[0], second[0]), max(first[1], second[1])


def default_of(field: Json) -> str | None:
    """The default in one spelling, or None where it is what the type has anyway."""
    if "default" not in field:
        return None
    default = field["default"]
    if isinstance(default, bool):
        text = "true" if default else "false"
    else:
        text = str(default)
    if re.fullmatch(r"0x[0-9a-f]+", text):
        text = str(int(text, 16))
    return None if text in ("", "0", "false") else text


class Source:
    """One message of one release, as the facts describe it."""

    def __init__(self, raw: Json) -> None:
        self.raw = raw
        self.valid = parse_range(raw["validVersions"])
        self.flexible = parse_range(raw["flexibleVersions"])
        self.structs: dict[str, list[Json]] = {s["name"]: s["fields"] for s in raw.get("commonStructs", [])}

    def layout(self, version: int, fields: list[Json] | None = None) -> list[Any]:
        """What is on the wire at this version, in order: the thing that a union must not change."""
        found: list[Any] = []
        for field in self.raw["fields"] if fields is None else fields:
            low, high = parse_range(field["versions"])
            if not low <= version <= high:
                continue
            nullable = parse_range(field.get("nullableVersions"))
            tagged = parse_range(field.get("taggedVersions"))
            element = field["type"].removeprefix("[]")
            inner = field.get("fields") or self.structs.get(element)
            found.append(
                (
                    field["name"],
                    field["type"] if inner is None else "[]" * field["type"].startswith("[]"),
                    nullable[0] <= version <= nullable[1],
                    field["tag"] if tagged[0] <= version <= tagged[1] else None,
                    default_of(field),
                    None if inner is None else self.layout(version, inner),
                )
            )
        return found


def merge_fields(
    old: list[Json], new: list[Json], old_bounds: Range, new_bounds: Range, where: str
) -> list[Json]:
    """The fields of both releases in one list, each release's own order kept."""
    olds = {field["name"]: field for field in old}
    news = {field["name"]: field for field in new}
    order = [field["name"] for field in new]
    after: str | None = None
    for name in olds:
        if name not in news:
            order.insert(0 if after is None else order.index(after) + 1, name)
        after = name
    merged = []
    for name in order:
        before, now = olds.get(name), news.get(name)
        base = dict(now or before or {})
        path = f"{where}.{name}"
        for key in ("versions", "nullableVersions", "taggedVersions"):
            low = clamp(parse_range(before.get(key)), old_bounds) if before else NONE
            high = clamp(parse_range(now.get(key)), new_bounds) if now else NONE
            base[key] = union(low, high, path)
        if base["versions"] == NONE:
            continue
        if before and now and (before["type"] != now["type"] or default_of(before) != default_of(now)):
            raise ValueError(f"{path}: the releases disagree on its type or default")
        if base.get("fields"):
            base["fields"] = merge_fields(
                before.get("fields", []) if before else [],
                now.get("fields", []) if now else [],
                old_bounds,
                new_bounds,
                path,
            )
        merged.append(base)
    return merged


def merge_message(new: Source, old: Source | None) -> Json:
    """`old` is None where the versions that only 3.9 has are not wanted."""
    low = new.valid[0]
    takes_old = old is not None and old.valid[0] < low
    old_bounds = (old.valid[0], low - 1) if old is not None and takes_old else NONE
    old_raw: Json = old.raw if old is not None and takes_old else {"fields": []}
    name = new.raw["name"]
    structs_old = {s["name"]: s["fields"] for s in old_raw.get("commonStructs", [])}
    structs_new = {s["name"]: s["fields"] for s in new.raw.get("commonStructs", [])}
    if takes_old and structs_old.keys() - structs_new.keys():
        raise ValueError(f"{name}: 3.9 has shared structs that 4.3 lacks")
    valid = (old_bounds[0] if takes_old else low, new.valid[1])
    flexible = clamp(new.flexible, valid)
    if takes_old and old is not None and clamp(old.flexible, old_bounds) != clamp(new.flexible, old_bounds):
        raise ValueError(f"{name}: the releases disagree on flexible versions")
    merged = {
        **new.raw,
        "valid": valid,
        "flexible": flexible,
        "fields": merge_fields(old_raw["fields"], new.raw["fields"], old_bounds, new.valid, name),
        "commonStructs": [
            {
                "name": s,
                "fields": merge_fields(structs_old.get(s, []), f, old_bounds, new.valid, f"{name}.{s}"),
            }
            for s, f in structs_new.items()
        ],
    }
    prove(merged, new, old if takes_old else None)
    return merged


def a_client_meets(raw: Json, old: dict[str, Json]) -> bool:
    """Whether the old versions of this message matter: the broker APIs that were stable in 3.9.

    Not the controllers' own, nor the previews of share groups, nor the oldest request header, which only
    ControlledShutdown v0 ever had. The request decides for its response too.
    """
    if raw["type"] == "header":
        return False
    request = old.get(raw["name"].replace("Response", "Request"), raw)
    return "broker" in request.get("listeners", ["broker"]) and not request.get(
        "latestVersionUnstable", False
    )


def as_facts(merged: Json) -> Source:
    """The union in the form of the facts again, so that it can be laid out like them."""

    def fields(of: list[Json]) -> list[Json]:
        return [
            {
                **field,
                **{
                    k: f"{field[k][0]}-{field[k][1]}"
                    for k in ("versions", "nullableVersions", "taggedVersions")
                },
                **({"fields": fields(field["fields"])} if "fields" in field else {}),
            }
            for field in of
        ]

    low, high = merged["valid"]
    return Source(
        {
            "validVersions": f"{low}-{high}",
            "flexibleVersions": "none",
            "fields": fields(merged["fields"]),
            "commonStructs": [
                {"name": s["name"], "fields": fields(s["fields"])} for s in merged["commonStructs"]
            ],
        }
    )


def prove(merged: Json, new: Source, old: Source | None) -> None:
    result = as_facts(merged)
    for version in range(merged["valid"][0], merged["valid"][1] + 1):
        source = new if version >= new.valid[0] or old is None else old
        if result.layout(version) != source.layout(version):
            raise ValueError(f"{merged['name']} v{version}: the union changed the layout")


def show_range(range_: Range, valid: Range) -> str:
    low, high = range_
    if range_ == NONE:
        return "none"
    if high >= valid[1]:
        return f"{low}+"
    return str(low) if low == high else f"{low}-{high}"


def show_field(field: Json, valid: Range, parent: Range, depth: int) -> list[str]:
    indent = "  " * depth
    versions = clamp(field["versions"], parent)
    nullable, tagged = clamp(field["nullableVersions"], versions), clamp(field["taggedVersions"], versions)
    type_ = field["type"]
    if nullable != NONE:
        type_ += "?" if nullable == versions else "?" + show_range(nullable, valid)
    words = [field["name"], type_]
    if versions != parent:
        words.append(show_range(versions, valid))
    if tagged != NONE:
        words.append(f"tag={field['tag']}" + ("" if tagged == versions else "@" + show_range(tagged, valid)))
    default = default_of(field)
    if default is not None:
        words.append(f"default={default}")
    if field.get("ignorable"):
        words.append("ignorable")
    if field.get("flexibleVersions") == "none":
        words.append("inflexible")
    lines = [indent + " ".join(words)]
    for inner in field.get("fields", []):
        lines += show_field(inner, valid, versions, depth + 1)
    return lines


def show_message(merged: Json) -> str:
    valid: Range = merged["valid"]
    words = [merged["type"]]
    if "apiKey" in merged:
        words.append(str(merged["apiKey"]))
    low, high = valid
    words += [merged["name"], str(low) if low == high else f"{low}-{high}"]
    words.append(f"flexible={show_range(merged['flexible'], valid)}")
    if merged.get("latestVersionUnstable"):
        words.append("unstable")
    lines = [" ".join(words)]
    for field in merged["fields"]:
        lines += show_field(field, valid, valid, 1)
    for struct in merged["commonStructs"]:
        lines.append(f"  struct {struct['name']}")
        for field in struct["fields"]:
            lines += show_field(field, valid, valid, 2)
    return "\n".join(lines)


def make(facts: Path) -> str:
    new: dict[str, Json] = json.loads((facts / "messages_4.3.json").read_text())["messages"]
    old: dict[str, Json] = json.loads((facts / "messages_3.9.json").read_text())["messages"]
    blocks = []
    for name, raw in new.items():
        if raw["validVersions"] == "none":
            continue  # of the ZooKeeper days: only the number is still taken
        before = Source(old[name]) if name in old and a_client_meets(old[name], old) else None
        blocks.append(show_message(merge_message(Source(raw), before)))
    return HEADER + "\n" + "\n\n".join(blocks) + "\n"


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    folders = [a for a in arguments if not a.startswith("-")]
    if len(folders) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    text = make(Path(folders[0]))
    if check:
        if TARGET.read_text() == text:
            return 0
        print(
            f"{TARGET} differs from the facts: run python -m tools.make_schema {folders[0]}", file=sys.stderr
        )
        return 1
    TARGET.write_text(text)
    print(f"{TARGET}: {len(text)} bytes, {text.count(chr(10) * 2)} messages")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
