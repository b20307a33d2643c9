"""The protocol schema: what kafka.schema says, as plain objects.

Reading is lazy. Importing this module splits the file into one block of text per message; a block is parsed
when its message is first used. How bytes are laid out is not known here: see decoder.py and encoder.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

MessageKind = Literal["request", "response", "header", "data"]
Scalar = Literal[
    "bool", "int8", "int16", "uint16", "int32", "int64", "float64", "uuid", "string", "bytes", "records"
]

SCALARS: Final = frozenset(Scalar.__args__)  # type: ignore[attr-defined]

# Kafka counts versions in an int16.
_NO_UPPER_BOUND: Final = 32767


@dataclass(frozen=True, slots=True)
class Versions:
    """An inclusive range of versions; empty when `low > high`."""

    low: int
    high: int

    @staticmethod
    def parse(text: str) -> Versions:
        """`"3+"`, `"0-4"`, `"2"` or `"none"`."""
        if text == "none":
            return NO_VERSIONS
        if text.endswith("+"):
            return Versions(int(text[:-1]), _NO_UPPER_BOUND)
        low, _, high = text.partition("-")
        return Versions(int(low), int(high or low))

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.low, self.high + 1))

    def __len__(self) -> int:
        return max(0, self.high - self.low + 1)

    def __str__(self) -> str:
        if self.low > self.high:
            return "none"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"

    def within(self, other: Versions) -> Versions:
        return Versions(max(self.low, other.low), min(self.high, other.high))


NO_VERSIONS: Final = Versions(0, -1)


@dataclass(frozen=True, slots=True)
class StructSchema:
    """A named group of fields: a message's body, or the element of one of its arrays."""

    name: str
    fields: tuple[FieldSchema, ...]

    def untagged_at(self, version: int) -> list[FieldSchema]:
        """The fields that this version always writes, in wire order."""
        return [f for f in self.fields if version in f.versions and version not in f.tagged]

    def tagged_at(self, version: int) -> list[FieldSchema]:
        """The fields that this version writes behind a tag, in wire order."""
        found = [f for f in self.fields if version in f.versions and version in f.tagged]
        return sorted(found, key=lambda f: f.tag)

    def absent_at(self, version: int) -> list[FieldSchema]:
        return [f for f in self.fields if version not in f.versions]


@dataclass(frozen=True, slots=True)
class FieldSchema:
    """One field of a struct. `type` is a scalar's name, or the Struct it holds; `array` says: a list of those."""

    name: str
    """In Kafka's spelling, CamelCase."""
    attribute: str
    """In Python's, snake_case."""
    type: Scalar | StructSchema
    array: bool
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int
    default: str | None
    """As the schema spells it; None where it is the type's own."""
    ignorable: bool
    inflexible: bool

    @property
    def absent_struct(self) -> bool:
        """A tagged struct that Kafka always fills in. Left out of the bytes, it is None here.

        Kafka's own classes hold a default struct then. Making one per partition of a Fetch response costs
        more than the rest of the partition, and sharing one would let a reader change it for all others.
        """
        return (
            isinstance(self.type, StructSchema)
            and not self.array
            and len(self.tagged) > 0
            and len(self.nullable) == 0
        )


@dataclass(frozen=True, slots=True)
class MessageSchema:
    """One request, response, header or data record, over all its versions."""

    kind: MessageKind
    api_key: int | None
    name: str
    versions: Versions
    flexible: Versions
    latest_unstable: bool
    body: StructSchema
    structs: Mapping[str, StructSchema]
    """Every struct below the body, by name: unique within one message."""


def message_names() -> tuple[str, ...]:
    """The names of all messages, in the order of the schema: by API key, request before response."""
    return tuple(_blocks())


@cache
def api_names() -> Mapping[int, str]:
    """The name of every API by its key: `{0: "Produce", 1: "Fetch", ...}`."""
    headings = (block.partition("\n")[0].split() for block in _blocks().values())
    requests = (words for words in headings if words[0] == "request")
    return MappingProxyType({int(key): name.removesuffix("Request") for _, key, name, *_ in requests})


@cache
def message_schema(name: str) -> MessageSchema:
    """The schema of one message; KeyError for a name that the protocol does not have."""
    return parse_message(_blocks()[name])


def parse_message(text: str) -> MessageSchema:
    """The schema that one block of text describes; kafka.schema says how it is written."""
    lines = text.split("\n")
    kind, *rest = lines[0].split()
    assert kind in ("request", "response", "header", "data"), kind
    api_key = int(rest.pop(0)) if rest[0].isdigit() else None
    name, versions_text, flexible_text, *flags = rest
    versions = Versions.parse(versions_text)
    parser = _BodyParser(lines[1:])
    body = parser.parse(name, versions)
    return MessageSchema(
        kind=kind,  # type: ignore[arg-type]
        api_key=api_key,
        name=name,
        versions=versions,
        flexible=Versions.parse(flexible_text.removeprefix("flexible=")).within(versions),
        latest_unstable="unstable" in flags,
        body=body,
        structs=MappingProxyType(parser.structs),
    )


@cache
def _blocks() -> Mapping[str, str]:
    text = Path(__file__).with_name("kafka.schema").read_text("utf-8")
    blocks = [b for b in text.strip("\n").split("\n\n") if not b.startswith("#")]
    return {_NAME_IN_HEADING(b).group(1): b for b in blocks}  # type: ignore[union-attr]


_NAME_IN_HEADING: Final = re.compile(r"[a-z]+ (?:\d+ )?([A-Za-z]+)").match


class _BodyParser:
    """Parses the indented lines below a heading. Shared structs stand last, so they are parsed first."""

    def __init__(self, lines: list[str]) -> None:
        self.structs: dict[str, StructSchema] = {}
        first_shared = next((i for i, line in enumerate(lines) if line.startswith("  struct ")), len(lines))
        self._own, self._shared = lines[:first_shared], lines[first_shared:]

    def parse(self, name: str, versions: Versions) -> StructSchema:
        self._parse_shared(versions)
        fields, _ = self._fields(self._own, 0, 1, versions)
        return StructSchema(name, fields)

    def _parse_shared(self, versions: Versions) -> None:
        pending: dict[str, list[str]] = {}
        lines: list[str] = []
        for line in self._shared:
            if line.startswith("  struct "):
                lines = pending.setdefault(line.removeprefix("  struct "), [])
            else:
                lines.append(line)
        # A shared struct may hold another that stands below it: parse each once all that it holds are known.
        while pending:
            ready = [
                n for n, body in pending.items() if not any(_names_one_of(line, pending) for line in body)
            ]
            assert ready, f"structs hold each other: {list(pending)}"
            for struct_name in ready:
                fields, _ = self._fields(pending.pop(struct_name), 0, 2, versions)
                self.structs[struct_name] = StructSchema(struct_name, fields)

    def _fields(
        self, lines: list[str], at: int, depth: int, versions: Versions
    ) -> tuple[tuple[FieldSchema, ...], int]:
        """The fields at this depth from line `at` on, and the line where a shallower one begins."""
        found = []
        while at < len(lines) and _depth(lines[at]) == depth:
            words = lines[at].split()
            own = versions
            if len(words) > 2 and words[2][0].isdigit():
                own = Versions.parse(words.pop(2)).within(versions)
            at += 1
            inner: tuple[FieldSchema, ...] = ()
            if at < len(lines) and _depth(lines[at]) == depth + 1:
                inner, at = self._fields(lines, at, depth + 1, own)
            found.append(self._field(words, own, inner))
        return tuple(found), at

    def _field(self, words: list[str], versions: Versions, inner: tuple[FieldSchema, ...]) -> FieldSchema:
        name, type_text, *options = words
        type_text, is_nullable, nullable_text = type_text.partition("?")
        array = type_text.startswith("[]")
        type_name = type_text.removeprefix("[]")
        if inner:
            self.structs[type_name] = StructSchema(type_name, inner)
        values = dict(option.split("=", 1) for option in options if "=" in option)
        tag, _, tagged_text = values.get("tag", "-1").partition("@")
        nullable = NO_VERSIONS
        if is_nullable:
            nullable = Versions.parse(nullable_text).within(versions) if nullable_text else versions
        tagged = NO_VERSIONS
        if "tag" in values:
            tagged = Versions.parse(tagged_text).within(versions) if tagged_text else versions
        return FieldSchema(
            name=name,
            attribute=snake_case(name),
            type=type_name if type_name in SCALARS else self.structs[type_name],  # type: ignore[arg-type]
            array=array,
            versions=versions,
            nullable=nullable,
            tagged=tagged,
            tag=int(tag),
            default=values.get("default"),
            ignorable="ignorable" in options,
            inflexible="inflexible" in options,
        )


def snake_case(name: str) -> str:
    """`MaxWaitMs` as `max_wait_ms`. Two of Kafka's words do not split at their capitals."""
    name = name.replace("KRaft", "Kraft").replace("2Pc", "_2pc")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _depth(line: str) -> int:
    return (len(line) - len(line.lstrip(" "))) // 2


def _names_one_of(line: str, names: Mapping[str, object]) -> bool:
    return line.split()[1].removeprefix("[]").partition("?")[0] in names
