"""Schemas of Avro with values for them, and reading and writing both through the compiled core.

What fastavro makes of the same schema is the oracle: `bytes_of` writes with it.
"""

from __future__ import annotations

import io
import itertools
import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
from hypothesis import strategies as st

from ottla._native.avro_columns import AvroColumns, read_avro, write_avro
from ottla.spark.values.avro_plan import plan_of
from ottla.spark.values.avro_schema import columns_of, parse_avro
from ottla.spark.values.types import arrow_schema

BINARY = pa.field("value", pa.binary())


@dataclass(frozen=True)
class Avro:
    """A schema, made ready for everybody."""

    schema: Any

    @property
    def plan(self) -> bytes:
        return plan_of(parse_avro(json.dumps(self.schema)))

    @property
    def columns(self) -> pa.Schema:
        return arrow_schema(columns_of(parse_avro(json.dumps(self.schema))).fields)

    def bytes_of(self, value: Any) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(self.schema), value)
        return out.getvalue()

    def value_of(self, data: bytes) -> Any:
        return fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(self.schema), None)

    def read(self, *values: bytes | None, **more: Any) -> tuple[list[Any], AvroColumns]:
        """The rows, and what else was found."""
        array, found = self.arrays(*values, **more)
        return array.to_pylist(maps_as_pydicts="strict"), found

    def arrays(self, *values: bytes | None, **more: Any) -> tuple[pa.StructArray, AvroColumns]:
        """Checked by Arrow itself, whose dates may lie beyond those of Python."""
        found = read_avro(self.plan, more.pop("columns", self.columns), pa.array(values, pa.binary()), **more)
        array = pa.array(found)
        array.validate(full=True)
        assert len(array) == len(values)
        return array, found

    def write(self, structs: pa.StructArray) -> list[bytes | None]:
        written: list[bytes | None] = pa.array(write_avro(self.plan, structs, BINARY)).to_pylist()
        return written


_numbers = itertools.count()


def new_name() -> str:
    """Names of types have to differ in one schema, so they are counted."""
    return f"T{next(_numbers)}"


def record(**fields: Any) -> dict[str, Any]:
    members = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": new_name(), "fields": members}


@dataclass(frozen=True)
class Sample:
    """A type with its values: pairs of what fastavro takes and what the column has."""

    schema: Any
    values: st.SearchStrategy[tuple[Any, Any]]
    family: str
    """As what fastavro tells the branches of a union apart: no two of one family are in one union, and nothing that
    is logical."""


def same(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, Any]]:
    return values.map(lambda value: (value, value))


def _fixed(name: str, size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def _decimals(digits: int, scale: int) -> st.SearchStrategy[tuple[Any, Any]]:
    most = 10**digits - 1
    # Arithmetic would round to the digits of the context.
    return same(st.integers(-most, most).map(lambda unscaled: Decimal(f"{unscaled}e-{scale}")))


FIRST, LAST = datetime(1, 1, 1), datetime(9999, 12, 31)
WHOLE_MILLIS = st.datetimes(FIRST, LAST).map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000))


@st.composite
def leaves(draw: st.DrawFn) -> Sample:
    name = new_name()
    kinds: list[Sample] = [
        Sample("null", same(st.none()), "null"),
        Sample("boolean", same(st.booleans()), "boolean"),
        Sample("int", same(st.integers(-(2**31), 2**31 - 1)), "number"),
        Sample("long", same(st.integers(-(2**63), 2**63 - 1)), "number"),
        Sample("float", same(st.floats(width=32, allow_nan=False)), "number"),
        Sample("double", same(st.floats(allow_nan=False)), "number"),
        Sample("bytes", same(st.binary(max_size=20)), "bytes"),
        Sample("string", same(st.text(st.characters(exclude_categories=["Cs"]), max_size=20)), "text"),
        Sample(
            {"type": "enum", "name": name, "symbols": ["A", "BC", "DEF"]},
            same(st.sampled_from(["A", "BC", "DEF"])),
            "text",
        ),
        Sample(_fixed(name, 3), same(st.binary(min_size=3, max_size=3)), "bytes"),
        Sample(
            {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 5}, _decimals(38, 5), "logical"
        ),
        Sample(
            _fixed(name, 8, logicalType="decimal", precision=18, scale=2), _decimals(18, 2), "logical"
        ),
        Sample({"type": "int", "logicalType": "date"}, same(st.dates(date(1, 1, 1))), "logical"),
        Sample(
            {"type": "long", "logicalType": "timestamp-millis"},
            same(WHOLE_MILLIS.map(lambda at: at.replace(tzinfo=UTC))),
            "logical",
        ),
        Sample(
            {"type": "long", "logicalType": "timestamp-micros"},
            same(st.datetimes(FIRST, LAST, timezones=st.just(UTC))),
            "logical",
        ),
        Sample(
            {"type": "long", "logicalType": "local-timestamp-micros"}, same(st.datetimes(FIRST, LAST)), "logical"
        ),
    ]  # fmt: skip
    return draw(st.sampled_from(kinds))


@st.composite
def nullables(draw: st.DrawFn, inner: st.SearchStrategy[Sample]) -> Sample:
    sample = draw(inner.filter(lambda each: not isinstance(each.schema, list) and each.family != "null"))
    schema = draw(st.sampled_from([["null", sample.schema], [sample.schema, "null"]]))
    return Sample(schema, same(st.none()) | sample.values, sample.family)


@st.composite
def arrays(draw: st.DrawFn, inner: st.SearchStrategy[Sample]) -> Sample:
    sample = draw(inner)
    pairs = st.lists(sample.values, max_size=4)
    values = pairs.map(lambda found: ([left for left, _ in found], [right for _, right in found]))
    return Sample({"type": "array", "items": sample.schema}, values, "array")


@st.composite
def maps(draw: st.DrawFn, inner: st.SearchStrategy[Sample]) -> Sample:
    sample = draw(inner)
    pairs = st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=5), sample.values, max_size=4
    )
    values = pairs.map(
        lambda found: ({k: left for k, (left, _) in found.items()}, {k: right for k, (_, right) in found.items()})
    )  # fmt: skip
    return Sample({"type": "map", "values": sample.schema}, values, "record")


@st.composite
def records(draw: st.DrawFn, inner: st.SearchStrategy[Sample]) -> Sample:
    samples = dict(zip("abcd", draw(st.lists(inner, min_size=1, max_size=4)), strict=False))
    values = st.fixed_dictionaries({name: sample.values for name, sample in samples.items()}).map(
        lambda found: ({k: left for k, (left, _) in found.items()}, {k: right for k, (_, right) in found.items()})
    )  # fmt: skip
    return Sample(record(**{name: sample.schema for name, sample in samples.items()}), values, "record")


@st.composite
def unions(draw: st.DrawFn, inner: st.SearchStrategy[Sample]) -> Sample:
    plain = inner.filter(
        lambda each: not isinstance(each.schema, list) and each.family not in ("null", "logical")
    )
    members = draw(st.lists(plain, min_size=2, max_size=4, unique_by=lambda each: each.family))
    null = draw(st.none() | st.integers(0, len(members)))
    branches = [member.schema for member in members]
    if null is not None:
        branches.insert(null, "null")

    def of(number: int) -> st.SearchStrategy[tuple[Any, Any]]:
        names = [f"member{each}" for each in range(len(members))]
        return members[number].values.map(
            lambda found: (found[0], {name: found[1] if each == number else None for each, name in enumerate(names)})
        )  # fmt: skip

    values = st.integers(0, len(members) - 1).flatmap(of)
    return Sample(branches, values if null is None else same(st.none()) | values, "union")


def samples(depth: int = 3) -> st.SearchStrategy[Sample]:
    if depth == 0:
        return leaves()
    inner = st.deferred(lambda: samples(depth - 1))
    return leaves() | nullables(inner) | arrays(inner) | maps(inner) | records(inner) | unions(inner)


@st.composite
def tables(draw: st.DrawFn) -> tuple[Avro, list[Any], list[Any]]:
    """A record's schema, its values for fastavro, and the rows that they are."""
    sample = draw(records(samples()))
    pairs = draw(st.lists(sample.values, max_size=5))
    return Avro(sample.schema), [left for left, _ in pairs], [right for _, right in pairs]
