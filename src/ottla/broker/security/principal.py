"""Who sends a request: the principal of a call, as text and in the envelope of a forwarded request.

A broker that forwards a request to the controller says for whom (KIP-590): in the bytes of Kafka's
DefaultPrincipalData, a version and then type, name and whether a delegation token was shown. There is no
authentication yet, so every client is `ANONYMOUS`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Self

from ottla.errors import DecodeError
from ottla.wire.primitives import MAX_STRING, Buffer, MalformedError, read_unknown_tags, read_uvarint, uvarint

USER: Final = "User"
_VERSION: Final = 0
_NO_TAGS: Final = b"\0"


@dataclass(frozen=True, slots=True)
class KafkaPrincipal:
    """`User:alice`: a type and a name. How a principal was authenticated does not make it another one."""

    type: str
    name: str
    token_authenticated: bool = field(default=False, compare=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """A principal as ACLs and `super.users` have it: the first colon parts type and name."""
        kind, separator, name = text.partition(":")
        if not separator:
            raise ValueError(f"expected a string in format principalType:principalName but got {text}")
        return cls(kind, name)

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    def to_bytes(self) -> bytes:
        token = b"\1" if self.token_authenticated else b"\0"
        fields = (_compact(self.type), _compact(self.name), token, _NO_TAGS)
        return _VERSION.to_bytes(2) + b"".join(fields)

    @classmethod
    def from_bytes(cls, data: Buffer | None) -> Self:
        """DecodeError where these are no bytes of a principal. Kafka ignores what stands behind them."""
        if data is None:
            raise DecodeError("the principal is null")
        if len(data) < 2 or int.from_bytes(data[:2], signed=True) != _VERSION:
            raise DecodeError(f"a principal of version {_VERSION} is expected, not {bytes(data[:2])!r}")
        try:
            kind, position = _read_string(data, 2, "type")
            name, position = _read_string(data, position, "name")
            token = data[position]
            read_unknown_tags(data, position + 1, len(data))
        except (MalformedError, IndexError, UnicodeDecodeError) as error:
            raise DecodeError(f"the principal cannot be read: {error}") from error
        return cls(kind, name, bool(token))


ANONYMOUS: Final = KafkaPrincipal(USER, "ANONYMOUS")
"""The client of a connection without authentication."""


def _compact(text: str) -> bytes:
    encoded = text.encode()
    return uvarint(len(encoded) + 1) + encoded


def _read_string(data: Buffer, position: int, what: str) -> tuple[str, int]:
    length, begin = read_uvarint(data, position)
    end = begin + length - 1
    if not 0 < length <= MAX_STRING + 1 or end > len(data):
        raise MalformedError(f"the {what} claims {length - 1} bytes of {len(data) - begin}")
    return str(data[begin:end], "utf-8"), end
