"""Says which field of a message could not be written, and why.

Encoders check nothing in the common case. When one of them fails, the message is walked once more here, field
by field and slowly, to find the culprit: `FetchRequest v4: topics[0].partitions[2].fetch_offset is 'x', an
int64 is expected`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from ottla.errors import EncodeError
from ottla.wire.codegen import FIXED_CODES
from ottla.wire.primitives import MAX_STRING
from ottla.wire.schema import FieldSchema, MessageSchema, StructSchema


class NotInVersionError(ValueError):
    """A field that this version lacks is not at its default."""


def explain(schema: MessageSchema, version: int, message: object, error: Exception) -> EncodeError:
    """The error to raise for `message`, whose encoder failed with `error`."""
    problem = next(_problems(schema.body, version, message, error), None)
    if problem is None:
        problem = f"cannot be encoded: {error}"
    return EncodeError(f"{schema.name} v{version}: {problem}")


def _problems(
    struct_: StructSchema, version: int, value: Any, error: Exception, path: str = ""
) -> Iterator[str]:
    for field in struct_.fields:
        name = f"{path}.{field.attribute}" if path else field.attribute
        if not hasattr(value, field.attribute):
            yield f"{path or 'the message'} is {_shown(value)}, a {struct_.name} is expected"
            return
        content = getattr(value, field.attribute)
        if version in field.versions:
            yield from _field_problems(field, version, content, error, name)
        elif _is_culprit(field, error) and content != getattr(type(value)(), field.attribute):
            yield (
                f"{name} is {_shown(content)}, and this version has no such field "
                f"(it is in {field.versions}): leave it out or use another version"
            )


def _is_culprit(field: FieldSchema, error: Exception) -> bool:
    """Whether the encoder stopped at a field of this name; elements where it is at its default are passed over."""
    return isinstance(error, NotInVersionError) and error.args == (field.attribute,) and not field.ignorable


def _field_problems(
    field: FieldSchema, version: int, value: Any, error: Exception, name: str
) -> Iterator[str]:
    if value is None:
        absent = field.absent_struct and version in field.tagged
        if version not in field.nullable and not absent:
            since = f"; it may be in {field.nullable}" if len(field.nullable) else ""
            yield f"{name} is None, which this version does not allow{since}"
        return
    if not field.array:
        yield from _value_problems(field, version, value, error, name)
        return
    if isinstance(value, str | bytes) or not hasattr(value, "__len__") or not hasattr(value, "__iter__"):
        yield f"{name} is {_shown(value)}, a list is expected"
        return
    for index, item in enumerate(value):
        yield from _value_problems(field, version, item, error, f"{name}[{index}]")


def _value_problems(
    field: FieldSchema, version: int, value: Any, error: Exception, name: str
) -> Iterator[str]:
    if isinstance(field.type, StructSchema):
        yield from _problems(field.type, version, value, error, name)
        return
    expected = _expected(field.type, value)
    if expected is not None:
        yield f"{name} is {_shown(value)}, {expected} is expected"


def _expected(type_: str, value: Any) -> str | None:
    """What should have stood here, or None when the value is fine."""
    match type_:
        case "string":
            if not isinstance(value, str):
                return "a str"
            try:
                size = len(value.encode())
            except UnicodeEncodeError:
                return "text that UTF-8 can express"
            return f"a str of at most {MAX_STRING} bytes" if size > MAX_STRING else None
        case "bytes" | "records":
            try:
                memoryview(value).cast("B")
            except TypeError:
                return "bytes or a contiguous buffer"
            return None
        case "uuid":
            return None if isinstance(value, bytes) and len(value) == 16 else "a Uuid or 16 bytes"
        case _:
            try:
                struct.pack(">" + FIXED_CODES[type_], value)
            except (struct.error, TypeError, OverflowError):
                return f"{'an' if type_.startswith('int') else 'a'} {type_}"
            return None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
