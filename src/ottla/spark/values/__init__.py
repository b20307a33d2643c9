"""`value.format`: typed columns instead of the bytes of `value`, decoded by column in the executor.

    .option("value.format", "json").option("value.schema", "id bigint, customer string, at timestamp")

JSON is read by a scanner of the compiled core (`ottla._native.json_columns`), which goes over each value once and
appends to one builder per column. It was chosen over pyarrow's reader of JSON lines, which takes six times as long,
gives up a whole block for one malformed line, and knows nothing of where a value begins and ends; and over a parser
that makes Python objects, which is slower again by a factor of four. Malformed values cost what others do.

What counts as malformed is what Spark's `from_json` calls malformed: its grammar (single quotes, NaN and infinities
are taken), its conversions, its limits on nesting and digits. Where this differs is written in docs/spark.md.
"""

from __future__ import annotations

from ottla.spark.values.decoders import ValueDecoder, decoder
from ottla.spark.values.malformed import MalformedValueError, Where
from ottla.spark.values.options import ValueOptions

__all__ = ["MalformedValueError", "ValueDecoder", "ValueOptions", "Where", "decoder"]
