"""Text, numbers and UUIDs in the fixed formats of Java's serializers.

Each raises whatever Python raises for a value that does not fit; calls.py makes an error for the user of it.

Invariant: what one of these writes, the class of the same format in org.apache.kafka.common.serialization reads,
and the other way round. Two are stricter than Java: text that its encoding has no bytes for, and bytes that are
no text, are errors here, where Java puts a question mark or U+FFFD in their place.
"""

from __future__ import annotations

import codecs
from struct import Struct
from typing import Any, Final
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
