"""The options `value.*`: what they may be, what columns come out of them, and whether their names are free.

Parsed and checked on the driver, carried to the executors in the reader. Decoding is in `decoders`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pyspark.sql import types as t

from ottla.spark.options.parsing import INT32, OptionError, flag, refused, whole
from ottla.spark.source.schema import KAFKA_TYPES
from ottla.spark.values.avro_schema import columns_of, parse_avro
from ottla.spark.values.ddl import parse_schema
from ottla.spark.values.types import check, nullable

ValueFormat = Literal["json", "string", "avro"]
WhenMalformed = Literal["fail", "drop", "column"]

_KAFKA_NAMES: Final = frozenset(name.lower() for name in KAFKA_TYPES if name != "value")
_DEFAULT_COLUMN: Final = "_malformed"
_OTHERS: Final = (
    "value.schema",
    "value.schema.id",
    "value.malformed",
    "value.malformed.column",
    "value.nested",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueOptions:
    """How values become columns. `schema` is None for strings, and for JSON until `bound_to` says it.

    For Avro, `avro` is the JSON of the schema that values are written with, and `schema` what it is in Spark.
    """

    format: ValueFormat
    schema: t.StructType | None = None
    avro: str | None = None
    schema_id: int | None = None
    malformed: WhenMalformed = "fail"
    malformed_column: str = _DEFAULT_COLUMN
    nested: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ValueOptions | None:
        """None where no `value.format` is given: the value stays bytes. Keys in any case."""
        given = {key.lower(): value for key, value in options.items()}
        if "value.format" not in given:
            stray = next((name for name in _OTHERS if name in given), None)
            if stray is not None:
                raise OptionError(
                    f"option '{stray}' has no meaning without value.format: set it to json, avro or string"
                )
            return None
        form = _format(given["value.format"])
        avro = _avro(given) if form == "avro" else None
        parsed = cls(
            format=form,
            schema=_schema(given.get("value.schema")) if avro is None else columns_of(parse_avro(avro)),
            avro=avro,
            schema_id=_schema_id(given, form),
            malformed=_when_malformed(given.get("value.malformed", "fail")),
            malformed_column=given.get("value.malformed.column", _DEFAULT_COLUMN),
            nested=flag("value.nested", given.get("value.nested", "false")),
        )
        parsed._check(given)
        return parsed

    def fields(self) -> list[t.StructField]:
        """The columns that stand instead of `value`."""
        columns = self._value_fields()
        if self.malformed == "column":
            columns.append(t.StructField(self.malformed_column, t.BinaryType()))
        return columns

    def bound_to(self, user: t.StructType) -> ValueOptions:
        """These options with the schema that a user gave by `.schema(...)`: Kafka's columns, and the value's.

        Without `value.schema` the columns that are not Kafka's say what to read. With it they choose from it.
        """
        own = [field for field in user.fields if field.name.lower() not in _KAFKA_NAMES]
        if self.format == "json" and self.schema is None:
            return self._with_columns([field for field in own if not self._holds_malformed(field)])
        self._check_choice(own)
        return self

    def _holds_malformed(self, field: t.StructField) -> bool:
        return self.malformed == "column" and field.name == self.malformed_column

    def _with_columns(self, own: list[t.StructField]) -> ValueOptions:
        if not own:
            raise OptionError(
                "value.format is json, but the schema has none but Kafka's columns: "
                "add columns of the value, or leave value.format out"
            )
        if self.nested:
            if len(own) != 1 or own[0].name != "value" or not isinstance(own[0].dataType, t.StructType):
                raise OptionError(
                    "value.nested is true, so the schema must have the value's columns in one struct: "
                    "value struct<...>"
                )
            schema = own[0].dataType
        else:
            schema = t.StructType(own)
        check(schema)
        bound = dataclasses.replace(self, schema=nullable(schema))
        bound._check_names()
        bound._check_choice(own)
        return bound

    def _check_choice(self, own: list[t.StructField]) -> None:
        """Raises where `own` are not columns that `fields` has."""
        there = {field.name: field for field in self.fields()}
        names = ", ".join(f"{name} {field.dataType.simpleString()}" for name, field in there.items())
        for field in own:
            known = there.get(field.name)
            if known is None or known.dataType.simpleString() != field.dataType.simpleString():
                raise OptionError(
                    f"the schema has the column {field.name} {field.dataType.simpleString()}, "
                    f"but the columns of the value are: {names}"
                )
            if field != known:
                raise OptionError(
                    f"the schema says that {field.name}, or something inside of it, is never null, which no value "
                    "can promise: leave NOT NULL out"
                )

    def _value_fields(self) -> list[t.StructField]:
        if self.format == "string":
            return [t.StructField("value", t.StringType())]
        if self.schema is None:
            raise OptionError(
                "value.format is json, but nothing says which columns to read: "
                "set value.schema, such as 'id bigint, customer string', or give .schema(...)"
            )
        if self.nested:
            return [t.StructField("value", self.schema)]
        return list(self.schema.fields)

    def _check(self, given: Mapping[str, str]) -> None:
        if self.format == "string":
            for name in ("value.schema", "value.nested"):
                if name in given:
                    raise OptionError(
                        f"option '{name}' has no meaning with value.format=string: leave it out, "
                        "or set value.format to json or avro"
                    )
        if (
            self.avro is not None
            and self.nested
            and not isinstance(parse_avro(self.avro).spark, t.StructType)
        ):
            raise OptionError(
                "option 'value.nested' has no meaning where value.schema is no record: "
                "the column is named value anyway"
            )
        if self.malformed != "column" and "value.malformed.column" in given:
            raise OptionError("option 'value.malformed.column' needs value.malformed=column")
        if not self.malformed_column:
            raise refused("value.malformed.column", "", "the name of a column")
        if self.schema is not None or self.format == "string":
            self._check_names()

    def _check_names(self) -> None:
        """Names that differ only in case are the same column to Spark, as they are by default."""
        names = [field.name for field in self._value_fields()]
        clashes = [name for name in names if name.lower() in _KAFKA_NAMES]
        if clashes:
            raise OptionError(
                f"the value has columns that are named as Kafka's: {', '.join(clashes)}. "
                "Set value.nested to true to get the value in one struct column"
            )
        taken = {*_KAFKA_NAMES, *(name.lower() for name in names)}
        if self.malformed == "column" and self.malformed_column.lower() in taken:
            raise OptionError(
                f"option 'value.malformed.column' cannot be {self.malformed_column!r}: "
                "there is a column of that name; choose another"
            )


def _format(text: str) -> ValueFormat:
    match text.strip().lower():
        case "avro":
            return "avro"
        case "json":
            return "json"
        case "string":
            return "string"
    raise refused("value.format", text, "json, avro or string")


def _when_malformed(text: str) -> WhenMalformed:
    match text.strip().lower():
        case "fail":
            return "fail"
        case "drop":
            return "drop"
        case "column":
            return "column"
    raise refused("value.malformed", text, "fail, drop or column")


def _schema(text: str | None) -> t.StructType | None:
    if text is None:
        return None
    schema = parse_schema(text)
    check(schema)
    return nullable(schema)


def _avro(given: Mapping[str, str]) -> str:
    text = given.get("value.schema")
    if text is None:
        raise OptionError(
            "value.format is avro, but nothing says what the values were written with: "
            "set value.schema to the JSON of the Avro schema"
        )
    return text


def _schema_id(given: Mapping[str, str], form: ValueFormat) -> int | None:
    text = given.get("value.schema.id")
    if text is None:
        return None
    if form != "avro":
        raise OptionError("option 'value.schema.id' needs value.format=avro")
    return whole("value.schema.id", text, most=INT32)
