"""The options `value.*` of the sink: how columns become the bytes of a value.

One set of options often serves a source and a sink, so what only a source has (`value.malformed`, `value.nested`, the
columns in `value.schema` for JSON) means nothing here and is left alone, whatever it says; and formats for which the
sink has nothing to do are no encoding. What only a sink has is refused where it has no effect.

Not here: which columns make the value (`ottla.spark.sink.typed_value`), and the encoding (`ottla.spark.values`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Self

from ottla.spark.options.parsing import INT32, OptionError, optional, refused, whole

EncodedFormat = Literal["json", "avro"]

_DEFAULT_COLUMN: Final = "_malformed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueEncoding:
    """How typed columns are written."""

    format: EncodedFormat
    schema: str | None = None
    """Of Avro; None: one is made from the columns."""
    schema_id: int | None = None
    """By which a schema registry knows it; None: values are not framed."""
    malformed_column: str = _DEFAULT_COLUMN
    """The column whose bytes are the value as they are, where they are not null. Rows need not have it."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self | None:
        """From options with names in lower case; None: the value comes as string or binary."""
        text = given.get("value.format")
        encoded = None if text is None else _format(text)
        schema_id = optional(given, "value.schema.id", lambda *it: whole(*it, most=INT32))
        if schema_id is not None and encoded != "avro":
            raise OptionError("option 'value.schema.id' needs value.format=avro")
        if encoded is None:
            return None
        return cls(
            format=encoded,
            schema=given.get("value.schema") if encoded == "avro" else None,
            schema_id=schema_id,
            malformed_column=given.get("value.malformed.column", _DEFAULT_COLUMN),
        )


def _format(text: str) -> EncodedFormat | None:
    match text.strip().lower():
        case "json":
            return "json"
        case "avro":
            return "avro"
        case "string" | "bytes":
            return None
    raise refused(
        "value.format", text, "json or avro, or string and bytes for a value that is written as it is"
    )
