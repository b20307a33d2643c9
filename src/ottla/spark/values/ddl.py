"""Schemas in Spark's DDL (`id bigint, at timestamp`) or JSON, read without a Spark session.

A data source is planned in a worker that has no session, so PySpark's own parser is out of reach there. What this
reads is as much of the language as types of values need: primitive types and their aliases, decimal, array,
map, struct, names in backticks, NOT NULL and COMMENT. Which types a value may have is known to `types`.

Invariant: a text is read whole or refused with the character at which it stops to make sense.
"""

from __future__ import annotations

import json
import re

from pyspark.errors import PySparkException
from pyspark.sql import types as t

from ottla.spark.options.parsing import OptionError

_PRIMITIVES: dict[str, t.DataType] = {
    "boolean": t.BooleanType(),
    "tinyint": t.ByteType(),
    "byte": t.ByteType(),
    "smallint": t.ShortType(),
    "short": t.ShortType(),
    "int": t.IntegerType(),
    "integer": t.IntegerType(),
    "bigint": t.LongType(),
    "long": t.LongType(),
    "float": t.FloatType(),
    "real": t.FloatType(),
    "double": t.DoubleType(),
    "string": t.StringType(),
    "binary": t.BinaryType(),
    "date": t.DateType(),
    "timestamp": t.TimestampType(),
    "timestamp_ltz": t.TimestampType(),
    "timestamp_ntz": t.TimestampNTZType(),
}
_DECIMALS = frozenset({"decimal", "dec", "numeric"})
_TOKEN = re.compile(
    r"\s*(?:(`(?:[^`]|``)+`)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(\w+)|([<>(),:]))", re.DOTALL
)
_MOST_NESTING = 32
_HOW = "a list of columns such as 'id bigint, customer string', or the JSON of a StructType"


def parse_schema(text: str) -> t.StructType:
    """The struct that `text` describes; a type of another kind is refused."""
    stripped = text.strip()
    if stripped.startswith("{"):
        return _from_json(stripped)
    return _Parser(stripped).schema()


def _from_json(text: str) -> t.StructType:
    try:
        return t.StructType.fromJson(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, PySparkException) as error:
        raise OptionError(f"value.schema is not the JSON of a StructType ({error}); give {_HOW}") from error


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split())
        self._next = 0
        self._depth = 0

    def schema(self) -> t.StructType:
        if self._peek().lower() == "struct" and self._tokens[1][0] == "<":
            result = self._type()
            assert isinstance(result, t.StructType)
        else:
            result = t.StructType(self._fields())
        if self._peek():
            raise self._unexpected("a comma or the end")
        return result

    def _split(self) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        at = 0
        while at < len(self._text):
            match = _TOKEN.match(self._text, at)
            if match is None:
                raise OptionError(
                    f"value.schema cannot be read from {self._text[at : at + 20]!r} on: give {_HOW}"
                )
            token = match.group().lstrip()
            at = match.end()
            found.append((token, at - len(token)))
        return [*found, ("", at)]

    def _peek(self) -> str:
        return self._tokens[self._next][0]

    def _take(self) -> str:
        token = self._peek()
        if token:
            self._next += 1
        return token

    def _expect(self, token: str) -> None:
        if self._peek() != token:
            raise self._unexpected(repr(token))
        self._take()

    def _unexpected(self, expected: str) -> OptionError:
        token, at = self._tokens[self._next]
        found = f"{token!r} at character {at + 1}" if token else "its end"
        return OptionError(f"value.schema has {found} where {expected} should be: give {_HOW}")

    def _fields(self) -> list[t.StructField]:
        fields = [self._field()]
        while self._peek() == ",":
            self._take()
            fields.append(self._field())
        return fields

    def _field(self) -> t.StructField:
        name = self._name()
        if self._peek() == ":":
            self._take()
        data_type = self._type()
        nullable = not self._keyword("not", "null")
        if self._keyword("comment"):
            self._take()
        return t.StructField(name, data_type, nullable)

    def _name(self) -> str:
        token = self._peek()
        if token.startswith("`"):
            return self._take()[1:-1].replace("``", "`")
        if not re.fullmatch(r"\w+", token):
            raise self._unexpected("the name of a column")
        return self._take()

    def _keyword(self, *words: str) -> bool:
        found = tuple(token.lower() for token, _ in self._tokens[self._next : self._next + len(words)])
        if found != words:
            return False
        self._next += len(words)
        return True

    def _type(self) -> t.DataType:
        name = self._peek().lower()
        if name in _PRIMITIVES:
            self._take()
            return _PRIMITIVES[name]
        if name in _DECIMALS:
            self._take()
            return self._decimal()
        if name in ("array", "map", "struct"):
            self._take()
            return self._nested(name)
        raise self._unexpected(
            "a type (one of "
            + ", ".join([*_PRIMITIVES, "decimal(p,s), array<>, map<string,>, struct<>"])
            + ")"
        )

    def _decimal(self) -> t.DecimalType:
        if self._peek() != "(":
            return t.DecimalType()
        self._take()
        precision, scale = self._number(), 0
        if self._peek() == ",":
            self._take()
            scale = self._number()
        self._expect(")")
        return t.DecimalType(precision, scale)

    def _number(self) -> int:
        if not re.fullmatch(r"[0-9]{1,3}", self._peek()):
            raise self._unexpected("a number")
        return int(self._take())

    def _nested(self, name: str) -> t.DataType:
        self._depth += 1
        if self._depth > _MOST_NESTING:
            raise OptionError(f"value.schema nests types more than {_MOST_NESTING} deep")
        self._expect("<")
        result: t.DataType
        if name == "array":
            result = t.ArrayType(self._type())
        elif name == "map":
            key = self._type()
            self._expect(",")
            result = t.MapType(key, self._type())
        else:
            result = t.StructType([] if self._peek() == ">" else self._fields())
        self._expect(">")
        self._depth -= 1
        return result
