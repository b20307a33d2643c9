"""Messages filled by rule, so that a known answer needs no more than its bytes.

`full` sets every field that a version has, each to a value that tells which one it is: fields are numbered in the
order of the schema, arrays have two elements. `minimal` holds what is shortest: null, empty, or the default.
The known answers of Apache Kafka were made from the same values.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from ottla.wire.message import Message, WireStruct
from ottla.wire.primitives import Uuid
from ottla.wire.schema import FieldSchema, StructSchema

RECORDS = bytes(range(16))


def full(cls: type[Message], version: int) -> Message:
    filled = _fill(cls, cls, cls.SCHEMA.body, version, count(1))
    assert isinstance(filled, Message)
    return filled


def minimal(cls: type[Message], version: int) -> Message:
    filled = _minimal(cls, cls, cls.SCHEMA.body, version)
    assert isinstance(filled, Message)
    return filled


def _fill(
    message: type[Message], cls: type[WireStruct], struct: StructSchema, version: int, numbers: count[int]
) -> WireStruct:
    values: dict[str, Any] = {}
    for field in struct.fields:
        if version not in field.versions:
            continue
        if field.array:
            values[field.attribute] = [_value(message, field, version, numbers) for _ in range(2)]
        else:
            values[field.attribute] = _value(message, field, version, numbers)
    return cls(**values)


def _value(message: type[Message], field: FieldSchema, version: int, numbers: count[int]) -> Any:
    if isinstance(field.type, StructSchema):
        return _fill(message, getattr(message, field.type.name), field.type, version, numbers)
    number = next(numbers)
    match field.type:
        case "bool":
            return True
        case "int8":
            return number % 100 + 1
        case "int16":
            return 300 + number
        case "uint16":
            return 40000 + number
        case "int32":
            return 70000 + number
        case "int64":
            return 5_000_000_000 + number
        case "float64":
            return number + 0.5
        case "uuid":
            return Uuid(number.to_bytes(1) * 8 + b"\7" * 8)
        case "string":
            return f"{field.name[0].lower()}{field.name[1:6]}{number}"
        case "bytes":
            return bytes([number, 0, 255])
        case _:
            return RECORDS


def _minimal(message: type[Message], cls: type[WireStruct], struct: StructSchema, version: int) -> WireStruct:
    values: dict[str, Any] = {}
    for field in struct.fields:
        if version in field.nullable:
            values[field.attribute] = None
        elif isinstance(field.type, StructSchema) and not field.array and not field.absent_struct:
            inner = getattr(message, field.type.name)
            values[field.attribute] = _minimal(message, inner, field.type, version)
    return cls(**values)
