"""Random and damaged documents: what Python's own reader takes is taken, with the same values, and nothing else."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Decimal
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla._native.json_columns import read_json
from tests.native.json_support import documents, malformed, read, value
from tests.wire.fuzz import MUTATIONS

NOTHING = pa.schema([])
EVERYTHING = pa.schema(
    [
        ("a", pa.int64()),
        ("b", pa.string()),
        ("c", pa.float64()),
        ("d", pa.bool_()),
        ("e", pa.decimal128(20, 4)),
        ("f", pa.binary()),
        ("g", pa.date32()),
        ("h", pa.timestamp("us", tz="UTC")),
        ("i", pa.list_(pa.list_(pa.string()))),
        ("j", pa.map_(pa.string(), pa.struct([("a", pa.int8()), ("b", pa.string())]))),
        ("k", pa.struct([("a", pa.float32()), ("b", pa.list_(pa.timestamp("us")))])),
    ]
)

NAMES = st.sampled_from("abcdefghijk") | st.text(max_size=5)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["2026-05-01", "2026-05-01T12:00:00.25Z", "aGVsbG8=", "1,000.5", "-INF"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=8)
SPACES = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:\r ")])


def oracle(data: bytes) -> dict[str, Any] | None:
    """What Python makes of it; None where that is no object."""
    try:
        found = json.loads(data.decode())
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def beyond_the_oracle(data: bytes) -> bool:
    """Single quotes and INF are taken, as Spark takes them, which Python does not; blanks alone are a null."""
    return b"'" in data or b"INF" in data or b"+Inf" in data or data.strip(b" \n\r\t") == b""


def mutated(random: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 4])):
        if changed:
            random.choice(MUTATIONS)(random, changed)
    return bytes(changed)


@given(OBJECTS, st.booleans(), SPACES)
def test_documents_that_python_writes_are_valid_and_mean_the_same(
    document: dict[str, Any], ascii_only: bool, spaces: tuple[str, str]
) -> None:
    text = json.dumps(document, ensure_ascii=ascii_only, separators=spaces)
    schema = pa.schema([("b", pa.string()), ("a", pa.int64())])
    rows, found = read(schema, text.encode("utf-8", "replace"))
    if isinstance(document.get("b"), str) and not re.search("[\ud800-\udfff]", document["b"]):
        assert rows[0]["b"] == document["b"]
    whole = document.get("a")
    if isinstance(whole, int) and not isinstance(whole, bool) and -(2**63) <= whole < 2**63:
        assert rows[0]["a"] == whole
        assert found.malformed_count == 0


@given(OBJECTS, st.randoms(use_true_random=False))
def test_damaged_documents_are_malformed_exactly_where_python_says_so(
    document: dict[str, Any], random: Random
) -> None:
    data = mutated(random, json.dumps(document).encode())
    _, found = read(NOTHING, data)
    if not beyond_the_oracle(data):
        assert (found.malformed_count == 0) == (oracle(data) is not None), data


@given(st.lists(st.binary(max_size=60) | OBJECTS.map(lambda found: json.dumps(found).encode()), max_size=6))
def test_random_bytes_among_documents_give_sound_columns(values: list[bytes]) -> None:
    rows, found = read(EVERYTHING, *values)
    assert sum(malformed(found, len(values))) == found.malformed_count
    assert len(rows) == len(values)


@given(OBJECTS)
@settings(max_examples=30)
def test_every_truncation_is_malformed(document: dict[str, Any]) -> None:
    data = json.dumps(document).encode()
    cut = [data[:length] for length in range(1, len(data))]
    found = read_json(EVERYTHING, documents(*cut))
    pa.array(found).validate(full=True)
    assert found.malformed_count == len(cut)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_come_back_to_the_bit(number: float) -> None:
    assert value(pa.float64(), repr(number)).hex() == number.hex()


@given(st.from_regex(r"\A-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?\Z"))
def test_numbers_of_any_length_are_the_nearest_double(text: str) -> None:
    assert value(pa.float64(), text) == float(text)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=8, min_value=-(10**12), max_value=10**12))
def test_decimals_are_rounded_half_up(number: Decimal) -> None:
    expected = number.quantize(Decimal("0.001"), ROUND_HALF_UP)
    assert value(pa.decimal128(20, 3), format(number, "f")) == expected
    assert value(pa.decimal128(20, 3), f'"{number:E}"') == expected


@given(st.datetimes(), st.integers(-1080, 1080))
def test_timestamps_are_what_python_reads(moment: datetime, minutes: int) -> None:
    zone = timezone(timedelta(minutes=minutes))
    text = moment.replace(tzinfo=zone).isoformat()
    found = read_json(
        pa.schema([("v", pa.timestamp("us", tz="UTC"))]), documents(f'{{"v":"{text}"}}'.encode())
    )
    epoch = datetime(1970, 1, 1)
    expected = (moment - epoch - timedelta(minutes=minutes)) // timedelta(microseconds=1)
    assert pa.array(found).field(0).cast(pa.int64()).to_pylist() == [expected]
    assert value(pa.timestamp("us"), f'"{moment.isoformat()}"') == moment
    assert value(pa.date32(), f'"{moment.date().isoformat()}"') == moment.date()


def test_many_mutations_of_one_document_give_sound_columns() -> None:
    random = Random(7)
    sample = json.dumps(
        {
            "a": 1, "b": "x\u00e9\n", "c": -1.5e-7, "d": True, "e": "12.5", "f": "aGVsbG8=", "g": "2026-05-01",
            "h": "2026-05-01T12:00:00.123+02:00", "i": [["x"], [], None], "j": {"k": {"a": 1, "b": "c"}},
            "k": {"a": 1.25, "b": ["2026-05-01 12:00"]}, "other": [{"deep": [1, "\ud83d\ude00"]}],
        }
    ).encode()  # fmt: skip
    values = [mutated(random, sample) for _ in range(20_000)]
    found = read_json(EVERYTHING, documents(*values))
    pa.array(found).validate(full=True)
    # Mutations that were all refused, or all harmless, would test nothing.
    assert 10_000 < found.malformed_count < 19_800
