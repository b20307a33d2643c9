"""JSON as Spark's to_json writes it, in plain Python: what the compiled writer is checked against.

Values are those of `Array.to_pylist()`, but for dates and timestamps, which Python has only from the year 1 to 9999:
these are days and microseconds.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa

ESCAPES = {chr(code): f"\\u{code:04X}" for code in range(0x20)} | {
    '"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
}  # fmt: skip
_DAY = 86_400_000
_LARGEST_SINGLE = Decimal(2**128 - 2**103)
"""From here on, halfway between the largest single and what would be the next, numbers are infinite."""


def document(kind: pa.DataType, value: Any) -> bytes | None:
    return None if value is None else text_of(kind, value).encode()


def text_of(kind: pa.DataType, value: Any) -> str:
    if value is None:
        return "null"
    if pa.types.is_struct(kind):
        fields = [(field.name, field.type, value[field.name]) for field in kind]
        return _object((name, text_of(inner, found)) for name, inner, found in fields if found is not None)
    if pa.types.is_map(kind):
        return _object((name, text_of(kind.item_type, found)) for name, found in value)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return "[" + ",".join(text_of(kind.value_type, found) for found in value) + "]"
    return _leaf(kind, value)


def _leaf(kind: pa.DataType, value: Any) -> str:
    if pa.types.is_floating(kind):
        return java_number(value, single=kind == pa.float32())
    if pa.types.is_date(kind):
        return f'"{_day(value)}"'
    if pa.types.is_timestamp(kind):
        return f'"{_moment(value)}{"Z" if kind.tz else ""}"'
    if isinstance(value, bytes):
        return f'"{base64.b64encode(value).decode()}"'
    if isinstance(value, str):
        return _quoted(value)
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


def _object(fields: Any) -> str:
    return "{" + ",".join(f"{_quoted(name)}:{text}" for name, text in fields) + "}"


def _quoted(text: str) -> str:
    return '"' + "".join(ESCAPES.get(character, character) for character in text) + '"'


def java_number(value: float, *, single: bool = False) -> str:
    """As Double.toString and Float.toString write it from Java 19 on."""
    if math.isnan(value) or math.isinf(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    shortest = _shortest_single(abs(value)) if single else _shortest(abs(value))
    _, digits, exponent = shortest.normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    point = len(text) + exponent
    if -2 <= point <= 7:
        whole = text[:point].ljust(point, "0") if point > 0 else "0"
        behind = text[point:] if point > 0 else "0" * -point + text
        return f"{sign}{whole}.{behind or '0'}"
    return f"{sign}{text[0]}.{text[1:] or '0'}E{point - 1}"


def _shortest(value: float) -> Decimal:
    """Python knows it, but writes one digit where Java writes the nearest two."""
    shortest = Decimal(repr(value))
    return shortest if len(shortest.normalize().as_tuple().digits) > 1 else Decimal(f"{value:.1e}")


def _shortest_single(value: float) -> Decimal:
    """The nearest of the shortest that round to it, found by trying all lengths and both neighbours."""
    for digits in range(1, 10):
        near = Decimal(f"{value:.{digits}e}")
        step = Decimal(1).scaleb(near.adjusted() - digits)
        found = [each for each in (near - step, near, near + step) if _single(each) == value]
        if found:
            # Of two that are as near, the even one.
            return min(found, key=lambda each: (abs(each - Decimal(value)), each.as_tuple().digits[-1] % 2))
    raise AssertionError(value)


def _single(number: Decimal) -> float:
    """The nearest single; the double in between may be a tie that it was not, so the exact number decides."""
    if number > _LARGEST_SINGLE:
        return math.inf
    bits = struct.unpack("<I", struct.pack("<f", min(float(number), 2.0**128 - 2.0**104)))[0]
    around = [
        struct.unpack("<f", struct.pack("<I", each))[0]
        for each in (max(bits - 1, 0), bits, min(bits + 1, 0x7F7FFFFF))
    ]
    nearest: float = min(around, key=lambda each: (abs(Decimal(each) - number), _is_odd(each)))
    return nearest


def _is_odd(single: float) -> bool:
    return struct.pack("<f", single)[0] & 1 == 1


def _day(days: int) -> str:
    """The calendar repeats itself after 400 years."""
    eras, rest = divmod(days + 719_162, 146_097)
    found = date.fromordinal(rest + 1)
    year = found.year + 400 * eras
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{found.month:02}-{found.day:02}"


def _moment(microseconds: int) -> str:
    days, rest = divmod(microseconds // 1000, _DAY)
    seconds, milliseconds = divmod(rest, 1000)
    return f"{_day(days)}T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{milliseconds:03}"
