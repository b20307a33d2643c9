"""Messages with random content: what round trips, other implementations and the fuzzer are fed with.

Everything comes from the `Random` that is passed in, so a failure is repeated from its seed.
"""

from __future__ import annotations

import struct
from random import Random
from typing import Any

from ottla.wire.message import Message, WireStruct
from ottla.wire.primitives import Uuid
from ottla.wire.schema import FieldSchema, StructSchema

_INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TEXTS = ["", "orders", "Bestellungen-für-Köln", "注文", "\N{ROCKET}", "x" * 127, "x" * 128, "y" * 400]


class Randomly:
    """Fills messages at random. Subclasses narrow what a picky reader refuses."""

    def __init__(self, random: Random, *, unknown_tags: bool = False) -> None:
        self.random = random
        self._unknown_tags = unknown_tags

    def message(self, cls: type[Message], version: int) -> Message:
        filled = self._struct(cls, cls, cls.SCHEMA.body, version)
        assert isinstance(filled, Message)
        return filled

    def _struct(
        self, message: type[Message], cls: type[WireStruct], schema: StructSchema, version: int
    ) -> WireStruct:
        values = {
            field.attribute: self._field(message, field, version)
            for field in schema.fields
            if version in field.versions
        }
        if self._unknown_tags and version in message.SCHEMA.flexible and self.random.random() < 0.3:
            values["unknown_tagged_fields"] = {
                tag: self.random.randbytes(self.random.choice([0, 1, 200]))
                for tag in self.random.sample([57, 58, 127, 128, 40_000], self.random.randint(1, 3))
            }
        return cls(**values)

    def _field(self, message: type[Message], field: FieldSchema, version: int) -> Any:
        if version in field.nullable and self.random.random() < 0.2:
            return None
        if not field.array:
            return self._value(message, field, version)
        length = self.random.choice([0, 1, 1, 2, 3])
        if not isinstance(field.type, StructSchema) and self.random.random() < 0.05:
            length = self.random.choice([33, 34, 127, 200])
        return [self._value(message, field, version) for _ in range(length)]

    def _value(self, message: type[Message], field: FieldSchema, version: int) -> Any:
        if not isinstance(field.type, StructSchema):
            return self.scalar(field)
        cls = getattr(message, field.type.name)
        made = self._struct(message, cls, field.type, version)
        # A tagged struct at its default is not written, so it would come back as None.
        return None if field.absent_struct and made == cls() else made

    def scalar(self, field: FieldSchema) -> Any:
        random = self.random
        match field.type:
            case "bool":
                return random.random() < 0.5
            case "int8" | "int16" | "int32" | "int64":
                bits = _INTEGERS[field.type]
                number = random.getrandbits(random.choice([1, 7, 8, bits]))
                return number % (1 << bits) - (1 << bits if number % (1 << bits) >> (bits - 1) else 0)
            case "uint16":
                return random.getrandbits(16)
            case "float64":
                return float(struct.unpack(">f", struct.pack(">f", random.uniform(-1e6, 1e6)))[0])
            case "uuid":
                return Uuid(random.randbytes(16))
            case "string":
                return random.choice(_TEXTS)
            case _:
                return random.randbytes(random.choice([0, 1, 126, 127, 128, 300]))
