"""Compiles encoders: messages to bytes, one straight-line function per message and version.

An encoder is `encode(message, write)`; it hands its pieces to `write`, so that large `records` are passed on
and not copied. A field that the version lacks must be at its default, unless the schema calls it ignorable.
The compiled code checks nothing else: where a value does not fit, explain.py says afterwards which one it was.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from ottla.wire import primitives
from ottla.wire.codegen import (
    FIXED_CODES,
    FunctionSource,
    default_source,
    is_compact,
    is_fixed,
    null_marker,
)
from ottla.wire.explain import NotInVersionError, explain
from ottla.wire.primitives import MAX_STRING, NUMBER_CODES, READY_LENGTHS, Buffer
from ottla.wire.schema import FieldSchema, MessageSchema, StructSchema

Encoder = Callable[[Any, Callable[[Buffer], object]], None]

# Lengths of one byte, ready made: nearly every string and array is this short.
_SHORT_UVARINTS = [bytes([n]) for n in range(128)]


def compile_encoder(schema: MessageSchema, version: int, classes: Mapping[str, type]) -> Encoder:
    """The encoder of one message at one version. `classes` maps the name of each struct to its class."""
    return _EncoderCompiler(schema, version, classes).compile()


def check_string(length: int) -> None:
    if length > MAX_STRING:
        raise ValueError(f"a string of {length} bytes")


class _EncoderCompiler:
    def __init__(self, schema: MessageSchema, version: int, classes: Mapping[str, type]) -> None:
        self._schema = schema
        self._version = version
        self._flexible = version in schema.flexible
        self._source = FunctionSource()
        # Fixed-size fields that were met and not yet written: struct codes and expressions.
        self._run: list[tuple[str, str]] = []
        self._source.names.update(classes)
        self._source.names.update(
            ZERO_UUID=primitives.ZERO_UUID,
            _short=_SHORT_UVARINTS,
            _uvarint=primitives.uvarint,
            _pack_array=primitives.pack_array,
            _write_tags=primitives.write_tags,
            _check_string=check_string,
            _not_in_version=NotInVersionError,
            _errors=(struct.error, TypeError, AttributeError, ValueError, OverflowError),
            _explain=explain,
            _schema=schema,
        )

    def compile(self) -> Encoder:
        source, schema, version = self._source, self._schema, self._version
        with source.block("def encode(message, write):"):
            with source.block("try:"):
                self._struct(schema.body, "message", "write")
                self._flush("write")
                source.add("return")
            with source.block("except _errors as error:"):
                source.add(f"raise _explain(_schema, {version}, message, error) from None")
        return source.compile("encode", f"encode {schema.name} v{version}")

    def _struct(self, struct_: StructSchema, value: str, write: str) -> None:
        for field in struct_.absent_at(self._version):
            if not field.ignorable:
                with self._source.block(f"if {self._differs(field, f'{value}.{field.attribute}')}:"):
                    self._source.add(f"raise _not_in_version({field.attribute!r})")
        for field in struct_.untagged_at(self._version):
            self._field(field, f"{value}.{field.attribute}", write)
        if self._flexible:
            self._tags(struct_, value, write)

    def _differs(self, field: FieldSchema, value: str) -> str:
        """A condition: the field is not at its default."""
        default = default_source(field)
        if field.absent_struct:
            assert isinstance(field.type, StructSchema)
            name = self._source.constant(f"_default_{field.type.name}", _default(self._source, field.type))
            return f"{value} is not None and {value} != {name}"
        if default == "None":
            return f"{value} is not None"
        if default == "[]":
            return f"{value} is None or len({value})"
        return f"{value} != {default}"

    def _field(self, field: FieldSchema, value: str, write: str) -> None:
        nullable = self._version in field.nullable
        if is_fixed(field):
            assert isinstance(field.type, str)
            self._fixed(field.type, value)
        elif field.array:
            self._array(field, value, write, nullable)
        elif isinstance(field.type, StructSchema):
            self._inner_struct(field, field.type, value, write, nullable)
        else:
            self._sized(field.type, field, value, write, nullable)

    def _fixed(self, type_: str, value: str) -> None:
        if type_ == "uuid":
            # struct would cut or pad any other length without a word.
            with self._source.block(f"if len({value}) != 16:"):
                self._source.add("raise ValueError('an id')")
        self._run.append((FIXED_CODES[type_], value))

    def _flush(self, write: str) -> None:
        if self._run:
            format_ = "".join(code for code, _ in self._run)
            values = ", ".join(value for _, value in self._run)
            self._source.add(f"{write}({self._source.struct_method(format_, 'pack')}({values}))")
        self._run.clear()

    def _length(self, compact: bool, code: str, length: str, write: str) -> None:
        """Writes a length field behind whatever is pending."""
        if compact:
            self._flush(write)
            self._source.add(f"{write}(_short[{length} + 1] if {length} < 127 else _uvarint({length} + 1))")
        else:
            self._run.append((code, length))
            self._flush(write)

    def _null(self, compact: bool, code: str, write: str) -> None:
        null = b"\0" if compact else struct.pack(">" + code, -1)
        self._source.add(f"{write}({null!r})")

    def _sized(self, type_: str, field: FieldSchema, value: str, write: str, nullable: bool) -> None:
        """A string, bytes or records: a length and that many bytes."""
        source = self._source
        compact = is_compact(self._schema, self._version, field)
        code = "h" if type_ == "string" else "i"
        raw, length = source.fresh("raw"), source.fresh("n")

        def put() -> None:
            if type_ == "string":
                source.add(f"{raw} = {raw}.encode()")
                source.add(f"{length} = len({raw})")
                if compact:
                    with source.block(f"if {length} > 127:"):
                        source.add(f"_check_string({length})")
            else:
                with source.block(f"if {raw}.__class__ is not bytes:"):
                    # Of anything contiguous that has the buffer protocol, a view whose length is its number of bytes.
                    source.add(f"{raw} = memoryview({raw}).cast('B')")
                source.add(f"{length} = len({raw})")
            self._length(compact, code, length, write)
            source.add(f"{write}({raw})")

        source.add(f"{raw} = {value}")
        if not nullable:
            put()
            return
        self._flush(write)
        with source.block(f"if {raw} is None:"):
            self._null(compact, code, write)
        with source.block("else:"):
            put()

    def _array(self, field: FieldSchema, value: str, write: str, nullable: bool) -> None:
        source = self._source
        compact = is_compact(self._schema, self._version, field)
        items = source.fresh("items")
        self._flush(write)
        source.add(f"{items} = {value}")
        if not nullable:
            self._elements(field, items, write, compact)
            return
        with source.block(f"if {items} is None:"):
            self._null(compact, "i", write)
        with source.block("else:"):
            self._elements(field, items, write, compact)

    def _elements(self, field: FieldSchema, items: str, write: str, compact: bool) -> None:
        source = self._source
        length = source.fresh("n")
        source.add(f"{length} = len({items})")
        if isinstance(field.type, str) and field.type in NUMBER_CODES:
            code = NUMBER_CODES[field.type]
            ready = source.constant(f"_ready_{code}", primitives.array_packers(code, compact))
            shown = f"{length} + 1" if compact else length
            short = f"{ready}[{length}]({shown}, *{items})"
            long = f"_pack_array({code!r}, {compact}, {items})"
            source.add(f"{write}({short} if {length} < {READY_LENGTHS} else {long})")
            return
        if field.type == "string":
            # Text is a sequence of strings too: ["orders"] was meant where "orders" was given.
            with source.block(f"if {items}.__class__ is str:"):
                source.add("raise TypeError('text for a list')")
        self._length(compact, "i", length, write)
        item = source.fresh("item")
        with source.block(f"for {item} in {items}:"):
            if isinstance(field.type, StructSchema):
                self._struct(field.type, item, write)
            elif field.type == "uuid":
                self._fixed("uuid", item)
            else:
                self._sized(field.type, field, item, write, nullable=False)
            self._flush(write)

    def _inner_struct(
        self, field: FieldSchema, struct_: StructSchema, value: str, write: str, nullable: bool
    ) -> None:
        inner = self._source.fresh("inner")
        self._source.add(f"{inner} = {value}")
        if not nullable:
            self._struct(struct_, inner, write)
            return
        self._flush(write)
        with self._source.block(f"if {inner} is None:"):
            self._source.add(f"{write}({struct.pack('>b', null_marker(field, self._version))!r})")
        with self._source.block("else:"):
            self._run.append(("b", "1"))
            self._struct(struct_, inner, write)
            self._flush(write)

    def _tags(self, struct_: StructSchema, value: str, write: str) -> None:
        source = self._source
        known = struct_.tagged_at(self._version)
        unknown = f"{value}.unknown_tagged_fields"
        if not known:
            self._flush(write)
            with source.block(f"if {unknown}:"):
                source.add(f"_write_tags({write}, [], {unknown}, ())")
            with source.block("else:"):
                source.add(f'{write}(b"\\0")')
            return
        self._flush(write)
        present, pieces, inner = (source.fresh(name) for name in ("present", "pieces", "write"))
        tags = tuple(field.tag for field in known)
        source.add(f"{present} = []")
        for field in known:
            field_value = f"{value}.{field.attribute}"
            with source.block(f"if {self._differs(field, field_value)}:"):
                source.add(f"{pieces} = []")
                source.add(f"{inner} = {pieces}.append")
                self._field(field, field_value, inner)
                self._flush(inner)
                source.add(f'{present}.append(({field.tag}, b"".join({pieces})))')
        with source.block(f"if {present} or {unknown}:"):
            source.add(f"_write_tags({write}, {present}, {unknown}, {tags})")
        with source.block("else:"):
            source.add(f'{write}(b"\\0")')


def _default(source: FunctionSource, struct_: StructSchema) -> object:
    made: object = source.names[struct_.name]()
    return made
