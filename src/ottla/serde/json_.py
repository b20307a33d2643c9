"""JSON as the standard library has it: written compact and in UTF-8, read strictly.

NaN and the infinities are refused in both directions: JSON does not have them, and readers in other languages
stop at them. The JSON `null` is read as None, which a consumer cannot tell from a tombstone.
"""

from __future__ import annotations

import codecs
import json
from typing import Any, Final, NoReturn

from ottla.serde.context import Serde


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"JSON has no {name}")


# `json.dumps` and `json.loads` make one of these for every call that has an option.
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_decode = json.JSONDecoder(parse_constant=_no_constant).decode


def _write(value: Any) -> bytes:
    return _encode(value).encode()


def _read(data: bytes) -> Any:
    # Nobody should write a byte order mark, but some do, and RFC 8259 lets a reader ignore it.
    return _decode(data.removeprefix(codecs.BOM_UTF8).decode())


JSON: Final[Serde[Any]] = Serde(_write, _read, "a JSON value")
