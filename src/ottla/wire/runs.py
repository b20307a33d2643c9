"""Decoding many structs of one shape: the partitions of a Metadata response.

A struct is regular when it has numbers and ids, then arrays of numbers, and nothing else. Its shape is the
lengths of those arrays, and neighbours mostly share it: one replica list is as long as the next. For each shape
that is met, a decoder is compiled that takes a whole element with a single call into `struct`, and goes on as
long as elements keep the shape. At the first one that does not it gives way to the general decoder.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from itertools import dropwhile, repeat
from typing import Any

from ottla.wire import primitives
from ottla.wire.codegen import FIXED_CODES, FunctionSource, default_source, is_fixed, is_number_array
from ottla.wire.primitives import NUMBER_CODES, Buffer
from ottla.wire.schema import MessageSchema, StructSchema

RunDecoder = Callable[[Buffer, int, int, list[Any], int], tuple[int, int]]
"""`run(buf, pos, end, items, left)`: appends up to `left` elements; how many they were, and the new position."""

# Bounds on what a peer can make this process compile and keep: replica lists are short, and their lengths few.
_LONGEST_ARRAY = 8
_MOST_SHAPES = 16


def is_regular(schema: MessageSchema, version: int, struct_: StructSchema) -> bool:
    """Whether a run decoder pays: with no array, the general one takes the struct in one call anyway."""
    fields = struct_.untagged_at(version)
    arrays = list(dropwhile(is_fixed, fields))
    return len(arrays) > 0 and all(is_number_array(schema, version, field) for field in arrays)


class RunDecoders:
    """The run decoders of one struct at one version, by shape: the array lengths as the wire has them, plus 1."""

    def __init__(self, struct_: StructSchema, version: int, classes: Mapping[str, type]) -> None:
        self._struct = struct_
        self._version = version
        self._classes = classes
        self._made: dict[tuple[int, ...], RunDecoder] = {}

    def get(self, shape: tuple[int, ...]) -> RunDecoder:
        run = self._made.get(shape)
        if run is None:
            if len(self._made) >= _MOST_SHAPES or not all(0 < n <= _LONGEST_ARRAY + 1 for n in shape):
                return no_run
            run = self._made[shape] = self._compile(shape)
        return run

    def _compile(self, shape: tuple[int, ...]) -> RunDecoder:
        source = FunctionSource()
        source.names.update(self._classes, ZERO_UUID=primitives.ZERO_UUID)
        source.names.update(_new=object.__new__, _repeat=repeat, _Uuid=primitives.Uuid)
        codes: list[str] = []
        targets: list[str] = []
        conditions: list[str] = []
        afterwards: list[str] = []
        lengths = iter(shape)
        for field in self._struct.untagged_at(self._version):
            assert isinstance(field.type, str)
            target = f"item.{field.attribute}"
            if field.array:
                length, count = source.fresh("n"), next(lengths)
                names = [source.fresh("x") for _ in range(count - 1)]
                codes.append("B" + NUMBER_CODES[field.type] * len(names))
                targets += [length, *names]
                conditions.append(f"{length} != {count}")
                afterwards.append(f"{target} = [{', '.join(names)}]")
            elif field.type == "uuid":
                raw = source.fresh("id")
                codes.append(FIXED_CODES["uuid"])
                targets.append(raw)
                afterwards.append(f"{target} = _Uuid({raw})")
            else:
                value = source.fresh("x")
                codes.append(FIXED_CODES[field.type])
                targets.append(value)
                afterwards.append(f"{target} = {value}")
        absent = self._struct.absent_at(self._version) + self._struct.tagged_at(self._version)
        afterwards += [f"item.{field.attribute} = {default_source(field)}" for field in absent]
        format_ = "".join(codes) + "B"
        size = struct.calcsize(">" + format_)
        with source.block("def run(buf, pos, end, items, left):"):
            source.add(f"left = min(left, (end - pos) // {size})")
            source.add(f"made = list(map(_new, _repeat({self._struct.name}, left)))")
            unpack = f"{source.struct_method(format_, 'iter_unpack')}(buf[pos:pos + left * {size}])"
            with source.block(f"for item, ({', '.join(targets)}, tags) in zip(made, {unpack}):"):
                with source.block(f"if tags or {' or '.join(conditions)}:"):
                    source.add("left = next(done for done, other in enumerate(made) if other is item)")
                    source.add("del made[left:]")
                    source.add("break")
                for line in afterwards:
                    source.add(line)
                source.add("item.unknown_tagged_fields = None")
            source.add("items += made")
            source.add(f"return left, pos + left * {size}")
        return source.compile("run", f"decode {self._struct.name} v{self._version} of shape {shape}")


def no_run(_buf: Buffer, pos: int, _end: int, _items: list[Any], _left: int) -> tuple[int, int]:
    """Stands for the shapes that are not worth a decoder of their own."""
    return 0, pos
