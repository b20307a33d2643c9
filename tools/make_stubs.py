"""Writes src/ottla/wire/messages.pyi: what editors and mypy know of the messages.

    python -m tools.make_stubs          write it
    python -m tools.make_stubs --check  fail when the one in the tree is stale

The classes themselves are made from the schema when they are asked for. `dataclass_transform` gives each an
`__init__` with its fields as keywords, so that a field is one line.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ottla.wire.schema import FieldSchema, MessageSchema, StructSchema, message_names, message_schema

TARGET = Path(__file__).parent.parent / "src" / "ottla" / "wire" / "messages.pyi"

HEADER = """\
# Made by tools/make_stubs.py from kafka.schema: do not edit, run `make stubs`.
from typing import dataclass_transform

from ottla.wire.message import Message as _Message
from ottla.wire.message import WireStruct as _WireStruct
from ottla.wire.primitives import Buffer as _Buffer
from ottla.wire.primitives import Uuid as _Uuid

@dataclass_transform(kw_only_default=True, eq_default=False)
class _Fields: ...

class Message(_Fields, _Message):
    unknown_tagged_fields: dict[int, bytes] | None = ...

class WireStruct(_Fields, _WireStruct):
    unknown_tagged_fields: dict[int, bytes] | None = ...
"""

SCALAR_TYPES = {
    "bool": "bool",
    "int8": "int",
    "int16": "int",
    "uint16": "int",
    "int32": "int",
    "int64": "int",
    "float64": "float",
    "uuid": "_Uuid",
    "string": "str",
    "bytes": "bytes",
    "records": "_Buffer",
}


def type_of(field: FieldSchema, message: str) -> str:
    if isinstance(field.type, StructSchema):
        text = f"{message}.{field.type.name}"
    else:
        text = SCALAR_TYPES[field.type]
    if field.array:
        text = f"list[{text}]"
    if len(field.nullable) > 0 or field.absent_struct:
        text += " | None"
    return text


def class_lines(struct: StructSchema, base: str, message: str, indent: str) -> list[str]:
    lines = [f"{indent}class {struct.name}({base}):"]
    inner = indent + "    "
    lines += [f"{inner}{field.attribute}: {type_of(field, message)} = ..." for field in struct.fields]
    if not struct.fields:
        lines.append(f"{inner}...")
    return lines


def message_lines(schema: MessageSchema) -> list[str]:
    lines = class_lines(schema.body, "Message", schema.name, "")
    for struct in schema.structs.values():
        lines += class_lines(struct, "WireStruct", schema.name, "    ")
    return lines


def make() -> str:
    classes = ("\n".join(message_lines(message_schema(name))) + "\n" for name in message_names())
    return "\n".join([HEADER, *classes])


def main(arguments: list[str]) -> int:
    text = make()
    if "--check" in arguments:
        if TARGET.exists() and TARGET.read_text() == text:
            return 0
        print(f"{TARGET.name} is stale: run `make stubs`", file=sys.stderr)
        return 1
    TARGET.write_text(text)
    print(f"{TARGET.name}: {len(text.splitlines())} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
