"""Values to columns: what an executor does with each batch of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from ottla._native.avro_columns import AvroColumns, read_avro
from ottla._native.json_columns import JsonColumns, read_json
from ottla.spark.values.avro_plan import plan_of
from ottla.spark.values.avro_schema import parse_avro
from ottla.spark.values.malformed import Malformed, Where, failure, raw_bytes
from ottla.spark.values.options import ValueOptions
from ottla.spark.values.types import arrow_schema

Arrays = dict[str, pa.Array]


class ValueDecoder(Protocol):
    """From an array of binary: the requested columns, in their order, and which rows to keep (None: all)."""

    def __call__(self, values: pa.Array, where: Where) -> tuple[list[pa.Array], pa.BooleanArray | None]: ...


def decoder(options: ValueOptions, requested: Sequence[str]) -> ValueDecoder:
    """What decodes values into the requested ones of `options.fields()`.

    A value is malformed where a requested column cannot be read; what stands in others is checked for syntax only.
    """
    return _Decoder(options, tuple(requested), _reader(options, requested))


class _Reader(Protocol):
    def read(self, values: pa.Array) -> tuple[Arrays, Malformed | None]: ...


def _reader(options: ValueOptions, requested: Sequence[str]) -> _Reader:
    match options.format:
        case "string":
            return _StringReader()
        case "json":
            return _JsonReader(options, requested)
        case "avro":
            return _AvroReader(options, requested)


class _Decoder:
    """What a reader found, and what is to be done about the malformed."""

    def __init__(self, options: ValueOptions, requested: tuple[str, ...], reader: _Reader) -> None:
        self._options = options
        self._requested = requested
        self._reader = reader

    def __call__(self, values: pa.Array, where: Where) -> tuple[list[pa.Array], pa.BooleanArray | None]:
        columns, malformed = self._reader.read(values)
        keep = None
        if malformed is not None and self._options.malformed == "fail":
            raise failure(malformed, values, where, self._options)
        if malformed is not None and self._options.malformed == "drop":
            keep = malformed.kept()
        if self._options.malformed == "column" and self._options.malformed_column in self._requested:
            columns[self._options.malformed_column] = raw_bytes(malformed, values)
        return [columns[name] for name in self._requested], keep


class _Structs:
    """The requested fields of the value, and how they become columns."""

    def __init__(self, options: ValueOptions, requested: Sequence[str]) -> None:
        fields = options.schema.fields if options.schema is not None else []
        self._nested = options.nested
        if not self._nested:
            fields = [field for field in fields if field.name in requested]
        self.schema = arrow_schema(fields)

    def columns(self, found: JsonColumns | AvroColumns, length: int) -> tuple[Arrays, Malformed | None]:
        structs = pa.array(found)
        malformed = None
        if found.malformed is not None and found.problem is not None:
            malformed = Malformed(_booleans(found.malformed, length), found.first_malformed, found.problem)
        if self._nested:
            return {"value": structs}, malformed
        return {name: structs.field(index) for index, name in enumerate(self.schema.names)}, malformed


class _JsonReader:
    def __init__(self, options: ValueOptions, requested: Sequence[str]) -> None:
        self._structs = _Structs(options, requested)

    def read(self, values: pa.Array) -> tuple[Arrays, Malformed | None]:
        return self._structs.columns(read_json(self._structs.schema, values), len(values))


class _AvroReader:
    def __init__(self, options: ValueOptions, requested: Sequence[str]) -> None:
        assert options.avro is not None
        self._structs = _Structs(options, requested)
        self._plan = plan_of(parse_avro(options.avro))
        self._schema_id = options.schema_id

    def read(self, values: pa.Array) -> tuple[Arrays, Malformed | None]:
        found = read_avro(self._plan, self._structs.schema, values, self._schema_id)
        return self._structs.columns(found, len(values))


def _booleans(bits: bytes, length: int) -> pa.BooleanArray:
    return pa.BooleanArray.from_buffers(pa.bool_(), length, [None, pa.py_buffer(bits)])


class _StringReader:
    """Strings are the bytes themselves, once they are known to be UTF-8."""

    def read(self, values: pa.Array) -> tuple[Arrays, Malformed | None]:
        try:
            return {"value": values.cast(pa.string())}, None
        except pa.ArrowInvalid:
            return self._read_each(values)

    def _read_each(self, values: pa.Array) -> tuple[Arrays, Malformed | None]:
        texts: list[str | None] = []
        wrong: list[bool] = []
        problems: list[str] = []
        for value in values.to_pylist():
            try:
                texts.append(None if value is None else value.decode())
                wrong.append(False)
            except UnicodeDecodeError as error:
                texts.append(None)
                wrong.append(True)
                problems.append(f"it is not UTF-8 ({error.reason}), at byte {error.start}")
        rows = pa.array(wrong, pa.bool_())
        return {"value": pa.array(texts, pa.string())}, Malformed(rows, wrong.index(True), problems[0])
