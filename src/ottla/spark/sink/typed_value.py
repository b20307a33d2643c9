"""Which columns make the value where `value.format` says that it is encoded, and whether they can be.

A column `value` that is a struct is the value. Otherwise all columns are but those that say where a record goes and
what stands beside its value: `key`, `topic`, `partition`, `headers`. The bytes in the column of malformed values, if
there is one, are the value as they are. All of this is decided on the driver, by the schema.

The encoding itself is in `ottla.spark.values.encoders`, which only tasks import.

Invariant: a type that gets past `TypedValue.of` is one that its encoder takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as t

from ottla.spark.options.encoding import ValueEncoding
from ottla.spark.sink.errors import SinkColumnError, SinkRowError

if TYPE_CHECKING:
    import pyarrow

    from ottla.spark.values.encoders import ValueEncoder

_BESIDE_THE_VALUE: Final = frozenset({"key", "topic", "partition", "headers"})


@dataclass(frozen=True)
class TypedValue:
    """The columns of the value, and how they are encoded."""

    encoding: ValueEncoding
    fields: tuple[t.StructField, ...]
    """Of the value, not of the row."""
    indices: tuple[int, ...]
    """Which columns of a row they are; or which one, if that is a struct of them."""
    is_struct: bool
    malformed: int
    """Which column has malformed values as they came; -1: none."""

    @classmethod
    def of(cls, schema: t.StructType, encoding: ValueEncoding) -> TypedValue:
        malformed = _malformed_index(schema, encoding)
        if "value" in schema.names:
            index = schema.names.index("value")
            kind = schema.fields[index].dataType
            if isinstance(kind, t.StructType):
                _check_types(tuple(kind.fields), encoding, "value")
                return cls(encoding, tuple(kind.fields), (index,), True, malformed)
        indices = tuple(
            index
            for index, name in enumerate(schema.names)
            if name not in _BESIDE_THE_VALUE and index != malformed
        )
        fields = tuple(schema.fields[index] for index in indices)
        _check_columns(fields, encoding)
        return cls(encoding, fields, indices, False, malformed)

    def encode(self, batch: pyarrow.RecordBatch) -> pyarrow.Array:
        """The values of these rows, as binary."""
        structs = self._structs(batch)
        if self.malformed < 0 or (raw := batch.column(self.malformed)).null_count == batch.num_rows:
            return self._encoded(structs)
        import pyarrow
        import pyarrow.compute

        # What could be read of a malformed value is not encoded: it may lack what the others have to have.
        encoded = self._encoded(_where(pyarrow.compute.is_null(raw), structs))
        return pyarrow.compute.coalesce(raw.cast(pyarrow.binary()), encoded)

    def _structs(self, batch: pyarrow.RecordBatch) -> pyarrow.StructArray:
        if self.is_struct:
            return batch.column(self.indices[0])
        import pyarrow

        columns = [batch.column(index) for index in self.indices]
        return pyarrow.StructArray.from_arrays(columns, names=[field.name for field in self.fields])

    def _encoded(self, structs: pyarrow.StructArray) -> pyarrow.Array:
        try:
            return self._encoder(structs)
        except OverflowError as error:
            raise SinkRowError(
                f"{error}. Lower spark.sql.execution.arrow.maxRecordsPerBatch, by which Spark makes batches"
            ) from error

    @cached_property
    def _encoder(self) -> ValueEncoder:
        """Made in the task: it does not travel."""
        from ottla.spark.values.encoders import encoder

        return encoder(self.encoding, self.fields)


def _where(chosen: pyarrow.BooleanArray, structs: pyarrow.StructArray) -> pyarrow.StructArray:
    """Null in other rows; nothing is copied."""
    import pyarrow.compute

    validity = pyarrow.compute.and_(chosen, structs.is_valid()).buffers()[1]
    fields = [structs.field(index) for index in range(structs.type.num_fields)]
    return pyarrow.Array.from_buffers(structs.type, len(structs), [validity], children=fields)


# The columns


def _malformed_index(schema: t.StructType, encoding: ValueEncoding) -> int:
    name = encoding.malformed_column
    if name not in schema.names:
        return -1
    index = schema.names.index(name)
    kind = schema.fields[index].dataType
    if not isinstance(kind, t.BinaryType):
        raise SinkColumnError(
            f"{name} attribute unsupported type {kind.simpleString()}. {name} must be a(n) binary: it has malformed "
            "values as they came, which are written as they are. Name another column in value.malformed.column if "
            "this one belongs to the value"
        )
    return index


def _check_columns(fields: tuple[t.StructField, ...], encoding: ValueEncoding) -> None:
    if not fields:
        raise SinkColumnError(
            f"value.format is {encoding.format}, but no column makes the value: there are only those that stand "
            f"beside it ({', '.join(sorted(_BESIDE_THE_VALUE))}, {encoding.malformed_column})"
        )
    is_alone = [field.name for field in fields] == ["value"]
    if is_alone and encoding.schema is None and _is_text(fields[0].dataType):
        raise SinkColumnError(
            f"value.format is {encoding.format}, but the only column for the value is text already: value "
            f"{fields[0].dataType.simpleString()}. Leave value.format out to write it as it is, or make value a "
            "struct, or name the column otherwise"
        )
    _check_types(fields, encoding, "")


def _is_text(kind: t.DataType) -> bool:
    return isinstance(kind, (t.StringType, t.BinaryType))


# Types


def _check_types(fields: tuple[t.StructField, ...], encoding: ValueEncoding, path: str) -> None:
    _check_names(t.StructType(list(fields)), path)
    match encoding.format:
        case "json":
            check_json(t.StructType(list(fields)), path)
        case "avro":
            # Whether the columns go with the schema is for the encoder to say.
            from ottla.spark.values.avro_encoder import AvroEncoder

            AvroEncoder(fields, encoding.schema, encoding.schema_id)


_LEAVES: Final = (
    t.NullType,
    t.BooleanType,
    t.ByteType,
    t.ShortType,
    t.IntegerType,
    t.LongType,
    t.FloatType,
    t.DoubleType,
    t.DecimalType,
    t.StringType,
    t.BinaryType,
    t.DateType,
    t.TimestampType,
    t.TimestampNTZType,
)
_MOST_NESTING: Final = 32


def check_json(kind: t.DataType, path: str, depth: int = 0) -> None:
    """Raises where a column, at whatever depth, is of a type that is not written as JSON."""
    if depth > _MOST_NESTING:
        raise SinkColumnError(
            f"{path} nests types more than {_MOST_NESTING} deep, which is not written as JSON"
        )
    if isinstance(kind, t.StructType):
        _check_names(kind, path)
        for field in kind.fields:
            check_json(field.dataType, f"{path}.{field.name}" if path else field.name, depth + 1)
    elif isinstance(kind, t.ArrayType):
        check_json(kind.elementType, f"{path}[]", depth + 1)
    elif isinstance(kind, t.MapType):
        if not isinstance(kind.keyType, t.StringType):
            raise SinkColumnError(
                f"{path} is a map with keys of type {kind.keyType.simpleString()}, but the keys of JSON are strings: "
                "make it map<string, ...>"
            )
        check_json(kind.valueType, f"{path}{{}}", depth + 1)
    elif not isinstance(kind, _LEAVES):
        raise SinkColumnError(
            f"{path} is of type {kind.simpleString()}, which is not written as JSON: cast it to string, or "
            "leave it out"
        )


def _check_names(struct: t.StructType, path: str) -> None:
    where = f" in {path}" if path else ""
    twice = sorted({name for name in struct.names if struct.names.count(name) > 1})
    if twice:
        raise SinkColumnError(
            f"there is more than one column {', '.join(twice)}{where}: readers take one of them, and not the same "
            "one. Leave the others out"
        )
    for name in struct.names:
        if "\0" in name:
            raise SinkColumnError(f"no column can be named {name!r}{where}: Arrow ends names at a null")
