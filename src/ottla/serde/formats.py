"""The formats that have a name: text, numbers and UUIDs as Java's serializers write them, and JSON.

Each raises whatever Python raises for a value that does not fit; calls.py makes an error for the user of it.

Invariant: what one of Java's formats writes here, its class in org.apache.kafka.common.serialization reads, and the
other way round. Two are stricter than Java: text that its encoding has no bytes for, and bytes that are no text, are
errors here, where Java puts a question mark or U+FFFD in their place.

JSON is as the standard library has it: written compact and in UTF-8, read strictly. NaN and the infinities are
refused in both directions: JSON does not have them, and readers in other languages stop at them. The JSON `null` is
read as None, which a consumer cannot tell from a tombstone.
"""

from __future__ import annotations

import codecs
import json
from struct import Struct
from typing import Any, Final, NoReturn
from uuid import UUID

from ottla.serde.context import Serde


def string(encoding: str = "utf-8", errors: str = "strict") -> Serde[str]:
    """Text in another encoding than UTF-8; `errors` is as in `str.encode`.

    Java's UTF-16 writes the most significant byte first, Python's does not: name the order, as in "utf-16-be".

    >>> string("latin-1").serializer("é")
    b'\\xe9'
    """
    name = codecs.lookup(encoding).name
    codecs.lookup_error(errors)
    # `lookup` also finds codecs that are no encodings of text, such as hex; this refuses them.
    "".encode(encoding)

    def encode(value: str) -> bytes:
        return str.encode(value, encoding, errors)

    def decode(data: bytes) -> str:
        return data.decode(encoding, errors)

    return Serde(encode, decode, f"a str in {name}")


def _number(format: str, expects: str) -> Serde[Any]:
    packed = Struct(format)
    unpack = packed.unpack

    def read(data: bytes) -> Any:
        return unpack(data)[0]

    return Serde(packed.pack, read, expects)


def _write_uuid(value: UUID) -> bytes:
    if not isinstance(value, UUID):
        raise TypeError("uuid.UUID is needed")
    return str(value).encode()


def _read_uuid(data: bytes) -> UUID:
    text = data.decode()
    value = UUID(text)
    # Python's UUID takes braces, a URN prefix and hyphens anywhere; other clients do not.
    if str(value) != text.lower():
        raise ValueError("not 36 characters in groups of 8-4-4-4-12")
    return value


# Known by identity, so that nothing is called where nothing is to be done (resolve.py).
BYTES: Final[Serde[bytes]] = Serde(bytes, bytes, "bytes")

# Methods of C and no closures: for the default encoding this halves the time of a call.
STR: Final = Serde(str.encode, bytes.decode, "a str in utf-8")
INT32: Final[Serde[int]] = _number(">i", "an int of 32 bits")
INT64: Final[Serde[int]] = _number(">q", "an int of 64 bits")
FLOAT32: Final[Serde[float]] = _number(">f", "a float of 32 bits")
FLOAT64: Final[Serde[float]] = _number(">d", "a float of 64 bits")
UUID_TEXT: Final = Serde(_write_uuid, _read_uuid, "a UUID")


# JSON


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"JSON has no {name}")


# `json.dumps` and `json.loads` make one of these for every call that has an option.
_encode_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_decode_json = json.JSONDecoder(parse_constant=_no_constant).decode


def _write_json(value: Any) -> bytes:
    return _encode_json(value).encode()


def _read_json(data: bytes) -> Any:
    # A byte order mark should not be there, but some programs write one, and RFC 8259 lets a reader ignore it.
    return _decode_json(data.removeprefix(codecs.BOM_UTF8).decode())


JSON: Final[Serde[Any]] = Serde(_write_json, _read_json, "a JSON value")
