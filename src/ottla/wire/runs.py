"""Which structs are decoded many at a time: the partitions of a Metadata response.

A struct is regular when it has numbers and ids, then arrays of numbers, and nothing else. Neighbours of that kind are
decoded natively (`ottla._native.struct_runs`), as long as they are as usual: at the first one that is not, the run
gives way to the decoder of the message, which takes one and then runs on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import dropwhile
from typing import Any

from ottla._native.struct_runs import StructRun
from ottla.wire import primitives
from ottla.wire.codegen import FIXED_CODES, default_source, is_fixed, is_number_array
from ottla.wire.primitives import Buffer
from ottla.wire.schema import FieldSchema, MessageSchema, StructSchema

RunDecoder = Callable[[Buffer, int, int, list[Any], int], tuple[int, int]]
"""`run(buf, pos, end, items, left)`: appends up to `left` elements; how many they were, and the new position."""


def is_regular(schema: MessageSchema, version: int, struct_: StructSchema) -> bool:
    """Whether a run pays: with no array, the decoder of the message takes the struct in one call anyway."""
    arrays = list(dropwhile(is_fixed, struct_.untagged_at(version)))
    return (
        len(arrays) > 0
        and all(is_number_array(schema, version, field) for field in arrays)
        and not any(_is_made_anew(field) for field in _not_on_the_wire(struct_, version))
    )


def run_decoder(struct_: StructSchema, version: int, classes: Mapping[str, type]) -> RunDecoder:
    names = {**classes, "ZERO_UUID": primitives.ZERO_UUID}
    defaults = [
        (field.attribute, eval(default_source(field), names)) for field in _not_on_the_wire(struct_, version)
    ]
    return StructRun(
        classes[struct_.name],
        [
            (field.attribute, FIXED_CODES[str(field.type)], field.array)
            for field in struct_.untagged_at(version)
        ],
        [*defaults, ("unknown_tagged_fields", None)],
        primitives.Uuid,
    ).decode


def _not_on_the_wire(struct_: StructSchema, version: int) -> list[FieldSchema]:
    """Of a usual element, which has no tagged fields."""
    return struct_.absent_at(version) + struct_.tagged_at(version)


def _is_made_anew(field: FieldSchema) -> bool:
    return default_source(field).endswith(("[]", "()"))
