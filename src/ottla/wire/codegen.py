"""What the two compilers of codecs share: writing Python source, and joining fixed-size fields into runs.

A codec is one straight-line function per message and version. Neighbouring fields of fixed size are read or
written by a single call into `struct`: that, and not making an object per field, is where the speed is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from ottla.wire.primitives import NUMBER_CODES
from ottla.wire.schema import FieldSchema, MessageSchema, StructSchema

FIXED_CODES = {**NUMBER_CODES, "uuid": "16s"}


class FunctionSource:
    """Lines of a function under construction, and the constants that it refers to by name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.indent = 0
        self._runs: dict[tuple[str, str], str] = {}
        self._fresh = 0

    def add(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def block(self, line: str) -> _Block:
        """Adds a line that opens a block; the block lasts as long as the `with`."""
        self.add(line)
        return _Block(self)

    def fresh(self, prefix: str) -> str:
        """A local name that nothing else uses."""
        self._fresh += 1
        return f"{prefix}{self._fresh}"

    def constant(self, name: str, value: object) -> str:
        self.names[name] = value
        return name

    def struct_method(self, format_: str, method: str) -> str:
        """The name of a bound method of a precompiled Struct; one per format and function."""
        key = (format_, method)
        if key not in self._runs:
            self._runs[key] = self.constant(
                f"_{method}{len(self._runs)}", getattr(struct.Struct(">" + format_), method)
            )
        return self._runs[key]

    def compile(self, function: str, label: str) -> Callable[..., Any]:
        code = compile("\n".join(self.lines) + "\n", f"<{label}>", "exec")
        exec(code, self.names)
        made: Callable[..., Any] = self.names[function]
        return made


class _Block:
    def __init__(self, source: FunctionSource) -> None:
        self._source = source

    def __enter__(self) -> None:
        self._source.indent += 1

    def __exit__(self, *_: object) -> None:
        self._source.indent -= 1


def is_compact(schema: MessageSchema, version: int, field: FieldSchema) -> bool:
    return version in schema.flexible and not field.inflexible


def is_fixed(field: FieldSchema) -> bool:
    return not field.array and isinstance(field.type, str) and field.type in FIXED_CODES


def is_number_array(schema: MessageSchema, version: int, field: FieldSchema) -> bool:
    """An array of numbers behind a compact length."""
    numbers = field.array and isinstance(field.type, str) and field.type in NUMBER_CODES
    return numbers and version not in field.nullable and is_compact(schema, version, field)


def default_source(field: FieldSchema) -> str:
    """A Python expression for the field's default; a new object each time it is mutable."""
    if field.default == "null" or field.absent_struct:
        return "None"
    if field.array:
        return "[]"
    if isinstance(field.type, StructSchema):
        return f"{field.type.name}()"
    match field.type:
        case "bool":
            return "True" if field.default == "true" else "False"
        case "string":
            return repr(field.default or "")
        case "bytes":
            return 'b""'
        case "records":
            return "None"
        case "uuid":
            return "ZERO_UUID"
        case "float64":
            return repr(float(field.default or 0))
        case _:
            return repr(int(field.default or 0))


def null_marker(field: FieldSchema, version: int) -> int:
    """What stands for a struct that is null; before one that is there, it is 1. Behind a tag Kafka writes lengths."""
    return 0 if version in field.tagged else -1


def smallest_size(schema: MessageSchema, version: int, type_: str | StructSchema, compact: bool) -> int:
    """The fewest bytes that one value of this type can take: what bounds the length of an array of them."""
    if isinstance(type_, StructSchema):
        size = 1 if version in schema.flexible else 0
        for field in type_.untagged_at(version):
            inner = is_compact(schema, version, field)
            if field.array:
                size += 1 if inner else 4
            elif isinstance(field.type, StructSchema) and version in field.nullable:
                size += 1
            else:
                size += smallest_size(schema, version, field.type, inner)
        return size
    if type_ in FIXED_CODES:
        return struct.calcsize(">" + FIXED_CODES[type_])
    if compact:
        return 1
    return 2 if type_ == "string" else 4
