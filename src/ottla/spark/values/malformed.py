"""What becomes of values that are not what `value.format` says: an error, a gap, or bytes in a column.

Which rows are malformed is for a decoder to find; what is done about them is the same for all and lives here.
pyarrow.compute takes long to import, so only batches that hold malformed values wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from ottla.errors import KafkaError
from ottla.spark.values.options import ValueOptions

_SNIPPET = 200


class MalformedValueError(KafkaError, ValueError):
    """A value that is not what `value.format` and the schema say, where `value.malformed` is fail."""


@dataclass(frozen=True, slots=True)
class Where:
    """Where values come from; row n of them lies at offset `offsets[n]`."""

    topic: str
    partition: int
    offsets: pa.Array


@dataclass(frozen=True, slots=True)
class Malformed:
    """The malformed rows of one batch: which, and what is wrong with the first."""

    rows: pa.BooleanArray
    first: int
    reason: str

    def kept(self) -> pa.BooleanArray:
        """True for the rows that are well."""
        import pyarrow.compute

        return pyarrow.compute.invert(self.rows)


def failure(
    malformed: Malformed, values: pa.Array, where: Where, options: ValueOptions
) -> MalformedValueError:
    offset = where.offsets[malformed.first].as_py()
    value: bytes = values[malformed.first].as_py()
    cut = f" (the first {_SNIPPET} of {len(value)} bytes)" if len(value) > _SNIPPET else ""
    count = malformed.rows.true_count
    more = f" {count - 1} more of the {len(values)} values read with it are malformed." if count > 1 else ""
    return MalformedValueError(
        f"the value at offset {offset} of {where.topic}-{where.partition} is malformed "
        f"(value.format={options.format}): {malformed.reason}: {value[:_SNIPPET]!r}{cut}.{more} "
        "Set value.malformed to drop to leave such rows out, or to column to get their bytes in the column "
        f"{options.malformed_column!r}"
    )


def raw_bytes(malformed: Malformed | None, values: pa.Array) -> pa.Array:
    """The column of malformed values: the bytes where a row is malformed, null elsewhere."""
    if malformed is None:
        return pa.nulls(len(values), pa.binary())
    import pyarrow.compute

    return pyarrow.compute.if_else(malformed.rows, values, pa.scalar(None, pa.binary()))
