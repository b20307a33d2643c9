"""Reads the known answers, and builds messages from the JSON that describes them."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ottla.wire.message import Message, WireStruct, message_class
from ottla.wire.primitives import Uuid
from ottla.wire.schema import FieldSchema, StructSchema, Versions
from tests.wire.filling import full, minimal

MESSAGES = Path(__file__).with_name("kafka_messages.txt")
FRAMES = Path(__file__).with_name("kafka_frames.jsonl")


@dataclass(frozen=True)
class MessageVector:
    cls: type[Message]
    version: int
    case: str
    data: bytes

    @property
    def message(self) -> Message:
        return (full if self.case == "full" else minimal)(self.cls, self.version)

    def __str__(self) -> str:
        return f"{self.cls.__name__}-v{self.version}-{self.case}"


@cache
def message_vectors() -> tuple[MessageVector, ...]:
    found = []
    for line in MESSAGES.read_text().splitlines():
        if line.startswith("#"):
            continue
        name, versions, case, hex_ = line.split()
        data = b"" if hex_ == "-" else bytes.fromhex(hex_)
        found += [MessageVector(message_class(name), v, case, data) for v in Versions.parse(versions)]
    return tuple(found)


@cache
def framed_vectors() -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(line) for line in FRAMES.read_text().splitlines())


def from_json(cls: type[Message], value: dict[str, Any]) -> Message:
    """The message that the facts describe: fields in lower camel case, bytes in base64, ids as Kafka prints them."""
    made = _struct(cls, cls, cls.SCHEMA.body, value)
    assert isinstance(made, Message)
    return made


def _struct(
    message: type[Message], cls: type[WireStruct], schema: StructSchema, value: dict[str, Any]
) -> WireStruct:
    fields = {field.name[0].lower() + field.name[1:]: field for field in schema.fields}
    return cls(
        **{fields[name].attribute: _field(message, fields[name], item) for name, item in value.items()}
    )


def _field(message: type[Message], field: FieldSchema, value: Any) -> Any:
    if value is None:
        return None
    return [_item(message, field, item) for item in value] if field.array else _item(message, field, value)


def _item(message: type[Message], field: FieldSchema, value: Any) -> Any:
    if isinstance(field.type, StructSchema):
        return _struct(message, getattr(message, field.type.name), field.type, value)
    match field.type:
        case "bytes" | "records":
            return base64.b64decode(value)
        case "uuid":
            return Uuid.parse(value)
        case _:
            return value
