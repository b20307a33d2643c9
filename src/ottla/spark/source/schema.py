"""Kafka's columns in Spark, and what becomes of a schema that the user gives.

A schema may have fewer columns, or another order; what it does not have is not decoded, so that it costs nothing.
With `value.format` the columns of the value stand instead of `value`. How rows get into Arrow is in `arrow_batches`.

Invariant: `SourceColumns` that exist can be made, with exactly the names and types of the schema they come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.spark.options.parsing import OptionError

if TYPE_CHECKING:
    from ottla.spark.options.connector import SourceOptions
    from ottla.spark.values import ValueOptions

HEADERS_TYPE: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
KAFKA_TYPES: Final[Mapping[str, DataType]] = MappingProxyType(
    {
        "key": BinaryType(),
        "value": BinaryType(),
        "topic": StringType(),
        "partition": IntegerType(),
        "offset": LongType(),
        "timestamp": TimestampType(),
        "timestampType": IntegerType(),
        "headers": HEADERS_TYPE,
    }
)
"""In the JVM connector's order; `headers` only with includeHeaders, or where the schema names them."""

_BY_LOWER_CASE: Final = MappingProxyType({name.lower(): name for name in KAFKA_TYPES})


def default_schema(value: ValueOptions | None, *, include_headers: bool) -> StructType:
    """All of Kafka's columns, with those of the value instead of `value`."""
    fields: list[StructField] = []
    for name, kind in KAFKA_TYPES.items():
        if name == "value" and value is not None:
            fields += value.fields()
        elif name != "headers" or include_headers:
            fields.append(StructField(name, kind))
    return StructType(fields)


@dataclass(frozen=True, slots=True)
class SourceColumns:
    """Which columns a query reads, in their order; made on the driver, used in tasks."""

    names: tuple[str, ...]
    """As the schema spells them."""
    kafka: tuple[str | None, ...]
    """For each of them which one of Kafka's it is; None for a column of the value."""
    value: ValueOptions | None = None
    """How the value's columns are decoded."""

    @classmethod
    def of(cls, schema: StructType, options: SourceOptions) -> Self:
        """Refuses a column that there is not, or not with this type.

        Headers that the schema names are read with or without includeHeaders.
        """
        value = None if options.value is None else options.value.bound_to(schema)
        kafka = tuple(_kafka_column(field, value) for field in schema.fields)
        return cls(tuple(schema.names), kafka, value)

    @property
    def decoded(self) -> tuple[str, ...]:
        """The columns that come out of the value."""
        return tuple(name for name, kafka in zip(self.names, self.kafka, strict=True) if kafka is None)


def _kafka_column(field: StructField, value: ValueOptions | None) -> str | None:
    # To Spark, names that differ only in case are the same too.
    name = _BY_LOWER_CASE.get(field.name.lower())
    if value is not None and (name is None or name == "value"):
        return None
    if name is None or field.dataType != KAFKA_TYPES[name]:
        there = ", ".join(f"{each} {kind.simpleString()}" for each, kind in KAFKA_TYPES.items())
        advice = "" if name is not None else "; for columns out of the value set value.format"
        raise OptionError(
            f"the schema has the column {field.name} {field.dataType.simpleString()}, but what can be read is: "
            f"{there}{advice}"
        )
    if not field.nullable:
        raise OptionError(
            f"the schema says that {field.name} is never null, but every column may be: leave NOT NULL out"
        )
    return name
