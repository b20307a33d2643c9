"""Compiles decoders: bytes to messages, one straight-line function per message and version.

A decoder is `decode(buf, pos, end) -> (message, pos)`. It raises DecodeError, and nothing else, for any bytes
whatever, and an array is refused before it is allocated when the bytes left could not hold that many elements.
`records` come out as slices of the caller's buffer; everything else is copied out of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import Any

from ottla.errors import DecodeError
from ottla.wire import primitives
from ottla.wire.codegen import (
    FIXED_CODES,
    FunctionSource,
    default_source,
    is_compact,
    is_fixed,
    is_number_array,
    null_marker,
    smallest_size,
)
from ottla.wire.primitives import MAX_STRING, NUMBER_CODES, READY_LENGTHS, Buffer, MalformedError
from ottla.wire.runs import is_regular, run_decoder
from ottla.wire.schema import FieldSchema, MessageSchema, StructSchema

Decoder = Callable[[Buffer, int, int], tuple[Any, int]]


def compile_decoder(schema: MessageSchema, version: int, classes: Mapping[str, type]) -> Decoder:
    """The decoder of one message at one version. `classes` maps the name of each struct to its class."""
    return _DecoderCompiler(schema, version, classes).compile()


def decode_error(name: str, version: int, pos: int, end: int, error: Exception) -> DecodeError:
    """What a decoder raises for bytes that are not its message."""
    if isinstance(error, MalformedError):
        reason = str(error)
    elif isinstance(error, UnicodeDecodeError):
        reason = f"a string is not UTF-8 ({error.reason})"
    else:
        reason = f"it ends too early, {max(0, end - pos)} bytes from here"
    return DecodeError(f"{name} v{version}, byte {pos} of {end}: {reason}")


class _DecoderCompiler:
    def __init__(self, schema: MessageSchema, version: int, classes: Mapping[str, type]) -> None:
        self._schema = schema
        self._version = version
        self._classes = classes
        self._flexible = version in schema.flexible
        self._source = FunctionSource()
        # Fixed-size fields that were met and not yet read: struct codes, targets, and what to do afterwards.
        self._run: list[tuple[str, str]] = []
        self._after_run: list[str] = []
        # The local that holds a byte which was read before its turn.
        self._byte_ahead: str | None = None
        self._source.names.update(classes)
        self._source.names.update(
            _new=object.__new__,
            _Uuid=primitives.Uuid,
            ZERO_UUID=primitives.ZERO_UUID,
            _finish_uvarint=primitives.finish_uvarint,
            _read_uvarint=primitives.read_uvarint,
            _read_tag=primitives.read_tag,
            _read_unknown_tags=primitives.read_unknown_tags,
            _bad_length=primitives.bad_length,
            _bad_presence=primitives.bad_presence,
            _bad_tag_size=primitives.bad_tag_size,
            _array_unpacker=primitives.array_unpacker,
            _errors=(struct.error, IndexError, UnicodeDecodeError, MalformedError),
            _decode_error=decode_error,
        )

    def compile(self) -> Decoder:
        source, schema, version = self._source, self._schema, self._version
        with source.block("def decode(buf, pos, end):"):
            with source.block("try:"):
                self._take_buffer()
                self._struct(schema.body, "message")
                self._flush()
                source.add("return message, pos")
            with source.block("except _errors as error:"):
                source.add(f"raise _decode_error({schema.name!r}, {version}, pos, end, error) from None")
        return source.compile("decode", f"decode {schema.name} v{version}")

    def _take_buffer(self) -> None:
        """Indexing and slicing bytes is quicker than a view of them, so small messages are copied once.

        A message with records is not: they may be most of a large response, and are handed out as views.
        """
        if _holds(self._schema.body, "records"):
            self._source.add("view = memoryview(buf)")
            with self._source.block("if buf.__class__ is not bytes:"):
                self._source.add("buf = view")
        else:
            with self._source.block("if buf.__class__ is not bytes:"):
                self._source.add("buf = bytes(buf)")

    def _struct(self, struct_: StructSchema, target: str) -> None:
        source, version = self._source, self._version
        source.add(f"{target} = _new({struct_.name})")
        for field in struct_.absent_at(version):
            source.add(f"{target}.{field.attribute} = {default_source(field)}")
        fields = struct_.untagged_at(version)
        for field, following in zip_longest(fields, fields[1:]):
            if is_number_array(self._schema, version, field) and self._starts_with_a_byte(following):
                self._number_array_and_byte(field, f"{target}.{field.attribute}")
            else:
                self._field(field, f"{target}.{field.attribute}")
        if self._flexible:
            self._tags(struct_, target)
        else:
            source.add(f"{target}.unknown_tagged_fields = None")

    def _field(self, field: FieldSchema, target: str) -> None:
        if is_fixed(field):
            assert isinstance(field.type, str)
            self._fixed(field.type, target)
        elif field.array:
            self._array(field, target)
        elif isinstance(field.type, StructSchema):
            self._inner_struct(field, field.type, target)
        else:
            self._sized(field.type, field, target, nullable=self._version in field.nullable)

    def _fixed(self, type_: str, target: str) -> None:
        if type_ == "uuid":
            raw = self._source.fresh("id")
            self._run.append(("16s", raw))
            self._after_run.append(f"{target} = _Uuid({raw})")
        else:
            self._run.append((FIXED_CODES[type_], target))

    def _flush(self) -> None:
        if self._run:
            format_ = "".join(code for code, _ in self._run)
            targets = ", ".join(target for _, target in self._run)
            if format_ == "B":
                self._source.add(f"{targets} = buf[pos]")
            else:
                comma = "," if len(self._run) == 1 else ""
                method = self._source.struct_method(format_, "unpack_from")
                self._source.add(f"{targets}{comma} = {method}(buf, pos)")
            self._source.add(f"pos += {struct.calcsize('>' + format_)}")
            for line in self._after_run:
                self._source.add(line)
        self._run.clear()
        self._after_run.clear()

    def _length(self, field: FieldSchema, code: str) -> str:
        """Reads a length field; -1 is null, in compact form and out of it."""
        if not is_compact(self._schema, self._version, field):
            length = self._source.fresh("n")
            self._run.append((code, length))
            self._flush()
            return length
        length = self._byte()
        with self._source.block(f"if {length} > 127:"):
            self._source.add(f"{length}, pos = _finish_uvarint(buf, pos, {length})")
        self._source.add(f"{length} -= 1")
        return length

    def _byte(self) -> str:
        """Reads an unsigned byte together with whatever is pending; it may have been read already."""
        byte, self._byte_ahead = self._byte_ahead, None
        if byte is None:
            byte = self._source.fresh("n")
            self._run.append(("B", byte))
        self._flush()
        return byte

    def _sized(self, type_: str, field: FieldSchema, target: str, *, nullable: bool) -> None:
        """A string, bytes or records: a length and that many bytes."""
        source = self._source
        length = self._length(field, "h" if type_ == "string" else "i")
        too_long = f" or {length} > {MAX_STRING}" if type_ == "string" else ""
        take = {
            "string": 'str(buf[pos:stop], "utf-8")',
            "bytes": "bytes(buf[pos:stop])",
            "records": "view[pos:stop]",
        }[type_]

        def read() -> None:
            source.add(f"stop = pos + {length}")
            with source.block(f"if {length} < 0 or stop > end{too_long}:"):
                source.add(f"raise _bad_length({field.name!r}, {length}, end - pos)")
            source.add(f"{target} = {take}")
            source.add("pos = stop")

        if not nullable:
            read()
            return
        with source.block(f"if {length} == -1:"):
            source.add(f"{target} = None")
        with source.block("else:"):
            read()

    def _array(self, field: FieldSchema, target: str) -> None:
        self._array_of(field, target, self._length(field, "i"))

    def _array_of(self, field: FieldSchema, target: str, length: str) -> None:
        source, version = self._source, self._version
        # Nothing in the schema has elements of no size; were it so, the bytes could not bound their number.
        size = smallest_size(self._schema, version, field.type, is_compact(self._schema, version, field))
        assert size > 0, f"{field.name} has elements of no size"
        with source.block(f"if {length} > 0:"):
            with source.block(f"if {length} * {size} > end - pos:"):
                source.add(f"raise _bad_length({field.name!r}, {length}, end - pos)")
            self._elements(field, target, length)
        with source.block(f"elif {length} == 0:"):
            source.add(f"{target} = []")
        with source.block("else:"):
            if version in field.nullable:
                with source.block(f"if {length} != -1:"):
                    source.add(f"raise _bad_length({field.name!r}, {length}, end - pos)")
                source.add(f"{target} = None")
            else:
                source.add(f"raise _bad_length({field.name!r}, {length}, end - pos)")

    def _starts_with_a_byte(self, following: FieldSchema | None) -> bool:
        """Whether what comes next is a compact length or, behind the last field, the number of tags."""
        if following is None:
            return True
        sized = following.array or following.type in ("string", "bytes", "records")
        return sized and is_compact(self._schema, self._version, following)

    def _number_array_and_byte(self, field: FieldSchema, target: str) -> None:
        """An array of numbers and the byte behind it, in one call."""
        assert isinstance(field.type, str)
        source, code = self._source, NUMBER_CODES[field.type]
        length, ahead = self._byte(), source.fresh("n")
        ready = source.constant(f"_ready_{code}B", primitives.array_and_byte_unpackers(code))
        with source.block(f"if 0 < {length} <= {READY_LENGTHS}:"):
            source.add(f"{target} = items = [*{ready}[{length}](buf, pos)]")
            source.add(f"{ahead} = items.pop()")
            source.add(f"pos += {length} * {struct.calcsize('>' + code)} - {struct.calcsize('>' + code) - 1}")
        with source.block("else:"):
            source.add(f"{length}, pos = _read_uvarint(buf, pos - 1)")
            source.add(f"{length} -= 1")
            self._array_of(field, target, length)
            source.add(f"{ahead} = buf[pos]")
            source.add("pos += 1")
        self._byte_ahead = ahead

    def _elements(self, field: FieldSchema, target: str, length: str) -> None:
        source = self._source
        if isinstance(field.type, str) and field.type in NUMBER_CODES:
            code = NUMBER_CODES[field.type]
            ready = source.constant(f"_ready_{code}", primitives.array_unpackers(code))
            unpack = (
                f"{ready}[{length}] if {length} < {READY_LENGTHS} else _array_unpacker({code!r}, {length})"
            )
            source.add(f"{target} = [*({unpack})(buf, pos)]")
            source.add(f"pos += {length} * {struct.calcsize('>' + code)}")
            return
        items, item = source.fresh("items"), source.fresh("item")
        source.add(f"{items} = {target} = []")
        if isinstance(field.type, StructSchema) and is_regular(self._schema, self._version, field.type):
            self._regular_elements(field.type, items, item, length)
            return
        with source.block(f"for _ in range({length}):"):
            if isinstance(field.type, StructSchema):
                self._struct(field.type, item)
            elif field.type == "uuid":
                self._fixed("uuid", item)
            else:
                self._sized(field.type, field, item, nullable=False)
            self._flush()
            source.add(f"{items}.append({item})")

    def _regular_elements(self, struct_: StructSchema, items: str, item: str, left: str) -> None:
        """As many elements as are usual ones, see runs.py; then one by the general way."""
        source = self._source
        run = source.constant(source.fresh("_run"), run_decoder(struct_, self._version, self._classes))
        with source.block(f"while {left}:"):
            source.add(f"done, pos = {run}(buf, pos, end, {items}, {left})")
            source.add(f"{left} -= done")
            with source.block(f"if {left}:"):
                self._struct(struct_, item)
                self._flush()
                source.add(f"{items}.append({item})")
                source.add(f"{left} -= 1")

    def _inner_struct(self, field: FieldSchema, struct_: StructSchema, target: str) -> None:
        inner = self._source.fresh("inner")
        if self._version not in field.nullable:
            self._flush()
            self._struct(struct_, inner)
            self._flush()
            self._source.add(f"{target} = {inner}")
            return
        marker = self._source.fresh("n")
        self._run.append(("b", marker))
        self._flush()
        with self._source.block(f"if {marker} == 1:"):
            self._struct(struct_, inner)
            self._flush()
            self._source.add(f"{target} = {inner}")
        null = null_marker(field, self._version)
        with self._source.block(f"elif {marker} == {null}:"):
            self._source.add(f"{target} = None")
        with self._source.block("else:"):
            self._source.add(f"raise _bad_presence({field.name!r}, {marker}, {null})")

    def _tags(self, struct_: StructSchema, target: str) -> None:
        source = self._source
        known = struct_.tagged_at(self._version)
        for field in known:
            source.add(f"{target}.{field.attribute} = {default_source(field)}")
        count = self._byte()
        unknown = f"{target}.unknown_tagged_fields"
        with source.block(f"if {count}:"):
            if known:
                self._known_tags(known, target, count)
            else:
                source.add(f"{unknown}, pos = _read_unknown_tags(buf, pos - 1, end)")
        with source.block("else:"):
            source.add(f"{unknown} = None")

    def _known_tags(self, known: list[FieldSchema], target: str, count: str) -> None:
        source = self._source
        unknown, tag, size, stop = (source.fresh(name) for name in ("unknown", "tag", "size", "stop"))
        with source.block(f"if {count} > 127:"):
            source.add(f"{count}, pos = _finish_uvarint(buf, pos, {count})")
        source.add(f"{unknown} = {{}}")
        with source.block(f"for _ in range({count}):"):
            source.add(f"{tag}, {size}, pos = _read_tag(buf, pos, end)")
            source.add(f"{stop} = pos + {size}")
            for index, field in enumerate(known):
                with source.block(f"{'elif' if index else 'if'} {tag} == {field.tag}:"):
                    self._field(field, f"{target}.{field.attribute}")
                    self._flush()
                    with source.block(f"if pos != {stop}:"):
                        source.add(f"raise _bad_tag_size({tag}, {size}, pos - {stop} + {size})")
            with source.block("else:"):
                source.add(f"{unknown}[{tag}] = bytes(buf[pos:{stop}])")
                source.add(f"pos = {stop}")
        source.add(f"{target}.unknown_tagged_fields = {unknown} or None")


def _holds(struct_: StructSchema, type_: str) -> bool:
    return any(
        _holds(field.type, type_) if isinstance(field.type, StructSchema) else field.type == type_
        for field in struct_.fields
    )
