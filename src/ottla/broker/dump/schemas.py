"""The records of Kafka's own topics, from their bytes to the JSON that Kafka's tools show of them.

Which fields a record has is in kafka.records: those of groups, transactions, share state and the metadata log. The
broker has classes of its own for those that it serves; what is dumped may come from a Kafka that serves more, share
groups and streams groups among them.

Invariant: any bytes become JSON or a DecodeError.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.errors import DecodeError
from ottla.wire.decoder import Decoder, compile_decoder
from ottla.wire.primitives import ZERO_UUID, Uuid
from ottla.wire.schema import FieldSchema, MessageSchema, StructSchema, message_schema, parse_message

_FILE: Final = "kafka.records"


class RecordType(NamedTuple):
    """What the records of one type consist of; in the metadata log they have no key."""

    key: MessageSchema | None
    value: MessageSchema


@cache
def record_types(about: str) -> Mapping[int, RecordType]:
    """The types of `groups`, `transactions`, `share state` or `metadata`, by their number."""
    text = Path(__file__).with_name(_FILE).read_text("utf-8")
    sections = dict(section.split("\n", 1) for section in text.split("\n## ")[1:])
    schemas = [parse_message(block) for block in sections[about].strip("\n").split("\n\n")]
    keys = {schema.api_key: schema for schema in schemas if schema.name.endswith("Key")}
    return {
        schema.api_key: RecordType(keys.get(schema.api_key), schema)
        for schema in schemas
        if schema.api_key is not None and not schema.name.endswith("Key")
    }


def decode_json(schema: MessageSchema, version: int, data: bytes, start: int = 0) -> dict[str, Any]:
    """The fields in `data` from `start` on."""
    if version not in schema.versions:
        raise DecodeError(f"a {schema.name} of the unknown version {version}, {schema.versions} are known")
    decoded, _ = _decoder(schema, version)(data, start, len(data))
    return _as_json(schema.body, version, decoded)


def decode_message_json(name: str, version: int, data: bytes, start: int = 0) -> dict[str, Any]:
    """As `decode_json`, for a message of the protocol or a control record (ottla/wire/kafka.schema)."""
    return decode_json(message_schema(name), version, data, start)


_decoders: Final[dict[tuple[str, int], Decoder]] = {}
"""By name, which is unique over both files of schemas, and version."""


def _decoder(schema: MessageSchema, version: int) -> Decoder:
    found = _decoders.get((schema.name, version))
    if found is None:
        classes = {each.name: _struct_class(each) for each in (schema.body, *schema.structs.values())}
        found = _decoders[schema.name, version] = compile_decoder(schema, version, classes)
    return found


def _struct_class(struct: StructSchema) -> type:
    """A class for the decoder to fill. One that it makes as a default has no fields set."""
    names = (*(field.attribute for field in struct.fields), "unknown_tagged_fields")
    return type(struct.name, (), {"__slots__": names})


def _as_json(struct: StructSchema, version: int, decoded: object) -> dict[str, Any]:
    """The fields under Kafka's names; those behind a tag only where they are not the default, as Kafka has it."""
    found = {}
    for field in struct.fields:
        if version not in field.versions:
            continue
        value = getattr(decoded, field.attribute)
        if version in field.tagged and _is_default(field, value):
            continue
        found[field.name[0].lower() + field.name[1:]] = _value_json(field, version, value)
    return found


def _value_json(field: FieldSchema, version: int, value: Any) -> Any:
    if value is None:
        return None
    if field.array:
        return [_element_json(field, version, element) for element in value]
    return _element_json(field, version, value)


def _element_json(field: FieldSchema, version: int, value: Any) -> Any:
    if isinstance(field.type, StructSchema):
        return _as_json(field.type, version, value)
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return value


def _is_default(field: FieldSchema, value: object) -> bool:
    if field.default == "null" or field.absent_struct:
        return value is None
    if field.array:
        return value is not None and not value
    if isinstance(field.type, StructSchema):
        return value is not None and not hasattr(value, "unknown_tagged_fields")
    match field.type:
        case "bool":
            return value is (field.default == "true")
        case "string":
            return value == (field.default or "")
        case "bytes":
            return value == b""
        case "uuid":
            return value == ZERO_UUID
        case "float64":
            return value == float(field.default or 0)
        case _:
            return value == int(field.default or 0)
