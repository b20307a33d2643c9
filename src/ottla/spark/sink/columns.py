"""What the sink takes of a row: which columns, of which types, and to which topic each row goes.

The rules are the JVM connector's. Names count to the letter, of several columns with one name the first counts, and
columns of other names are left alone, unless they are encoded to make the value (`typed_value`). The schema is looked
at once, on the driver; batches that come later have it. Nothing here sends anything. Arrow is imported where batches
are looked at: the driver only looks at the schema.

Invariant: rows of one topic stay in their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
)

from ottla.spark.sink.errors import SinkColumnError, SinkRowError

if TYPE_CHECKING:
    import pyarrow

    from ottla.spark.options.encoding import ValueEncoding
    from ottla.spark.sink.typed_value import TypedValue

_TEXT: Final = "string or binary"
_HEADERS: Final = "array<struct<key:string,value:binary>>"
_EXPECTED: Final[Mapping[str, str]] = MappingProxyType(
    {"value": _TEXT, "key": _TEXT, "headers": _HEADERS, "partition": "int"}
)


@dataclass(frozen=True)
class SinkColumns:
    """Which columns of a row make a record."""

    fields: tuple[tuple[str, int], ...]
    """Names as the producer knows them, and which column each is."""
    topic: str | None
    """For all rows, if it was given as an option."""
    topic_index: int
    """Which column has the topics, if it was not."""
    value: TypedValue | None = None
    """What makes the value, if it is not a column by itself."""

    @classmethod
    def of(cls, schema: StructType, topic: str | None, encoding: ValueEncoding | None = None) -> SinkColumns:
        """Checks what is to be written; `topic` is the option, which beats the column."""
        topic_index = -1 if topic is not None else _topic_index(schema)
        value = None if encoding is None else _typed_value(schema, encoding)
        if value is None and "value" not in schema.names:
            raise SinkColumnError(
                f"Required attribute 'value' not found among {', '.join(schema.names)}. Set value.format to json to "
                "make it of the other columns"
            )
        wanted = [name for name in _EXPECTED if name in schema.names and not (name == "value" and value)]
        fields = tuple((name, schema.names.index(name)) for name in wanted)
        for name, index in fields:
            _check_type(name, schema.fields[index].dataType, _EXPECTED[name])
        return cls(fields, topic, topic_index, value)

    def by_topic(self, batch: pyarrow.RecordBatch) -> dict[str, pyarrow.RecordBatch]:
        """The rows of each topic, with the columns of records and no others."""
        records = self._records(batch)
        if self.topic is not None:
            return {self.topic: records}
        topics = batch.column(self.topic_index)
        if topics.null_count:
            raise SinkRowError(
                "The data contains a null topic. Use the topic option to send all rows to one topic, or leave such "
                "rows out"
            )
        return dict(_grouped(topics.dictionary_encode(), records))

    def _records(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        import pyarrow

        columns = {name: batch.column(index) for name, index in self.fields}
        if "headers" in columns:
            columns["headers"] = _with_lower_names(columns["headers"])
        if "partition" in columns:
            _check_partitions(columns["partition"])
        if self.value is not None:
            columns["value"] = self.value.encode(batch)
        return pyarrow.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


# The schema


def _typed_value(schema: StructType, encoding: ValueEncoding) -> TypedValue:
    # Only for jobs with value.format: the processes of others start without it.
    from ottla.spark.sink.typed_value import TypedValue

    return TypedValue.of(schema, encoding)


def _topic_index(schema: StructType) -> int:
    if "topic" not in schema.names:
        raise SinkColumnError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic"
        )
    index = schema.names.index("topic")
    _check_type("topic", schema.fields[index].dataType, "string")
    return index


def _check_type(name: str, found: DataType, expected: str) -> None:
    if not _fits(name, found):
        raise SinkColumnError(
            f"{name} attribute unsupported type {found.simpleString()}. {name} must be a(n) {expected}"
        )


def _fits(name: str, found: DataType) -> bool:
    if name == "topic":
        return _is_string(found)
    if name == "partition":
        return isinstance(found, IntegerType)
    if name == "headers":
        return _is_headers(found)
    return _is_string(found) or isinstance(found, BinaryType)


def _is_string(found: DataType) -> bool:
    """Strings with a collation are another type to the JVM connector too."""
    return found == StringType()


def _is_headers(found: DataType) -> bool:
    if not isinstance(found, ArrayType) or not isinstance(found.elementType, StructType):
        return False
    fields = [(field.name.lower(), field.dataType) for field in found.elementType.fields]
    return fields == [("key", StringType()), ("value", BinaryType())]


# The batches


def _grouped(
    topics: pyarrow.DictionaryArray, records: pyarrow.RecordBatch
) -> Iterator[tuple[str, pyarrow.RecordBatch]]:
    """One copy brings the rows of each topic together; what is yielded are slices of it."""
    if len(topics.dictionary) == 1:
        yield topics.dictionary[0].as_py(), records
        return
    import pyarrow.compute

    # A stable sort: the order within a topic is that of the rows.
    together = records.take(pyarrow.compute.array_sort_indices(topics.indices))
    first = 0
    for entry in sorted(
        pyarrow.compute.value_counts(topics.indices).to_pylist(), key=lambda entry: entry["values"]
    ):
        yield topics.dictionary[entry["values"]].as_py(), together.slice(first, entry["counts"])
        first += entry["counts"]


def _check_partitions(partitions: pyarrow.Array) -> None:
    """Negative ones, with the JVM connector's words; the producer would refuse them with its own."""
    import pyarrow.compute

    least = pyarrow.compute.min(partitions).as_py()
    if least is not None and least < 0:
        raise SinkRowError(
            f"Invalid partition: {least}. Partition number should always be non-negative or null; null is for rows "
            "that go where their key says"
        )


def _with_lower_names(headers: pyarrow.Array) -> pyarrow.Array:
    """Spark does not look at the case of names in a struct; the producer does."""
    entry = headers.type.value_type
    if [field.name for field in entry] == ["key", "value"]:
        return headers
    import pyarrow

    key, value = (entry.field(at) for at in range(2))
    renamed = pyarrow.struct([key.with_name("key"), value.with_name("value")])
    whole = pyarrow.large_list if pyarrow.types.is_large_list(headers.type) else pyarrow.list_
    return pyarrow.array(_Renamed(headers, whole(renamed)))


class _Renamed:
    """An array under another type that differs in names only: the same buffers, nothing is copied."""

    def __init__(self, array: pyarrow.Array, kind: pyarrow.DataType) -> None:
        self._array = array
        self._kind = kind

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[Any, Any]:
        _, array = self._array.__arrow_c_array__()
        return self._kind.__arrow_c_schema__(), array
