"""Where a client finds its first broker: "host:port" texts, as in Kafka's bootstrap.servers.

No name is looked up here: that is the client's, at the moment it connects.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import AddressValueError, IPv6Address
from typing import Final, NamedTuple

from ottla.config.errors import InvalidValueError

# What an advertised listener looks like when it is copied; Kafka's client takes it too.
_LISTENER: Final = "PLAINTEXT://"
_HOST: Final = re.compile(r"[0-9A-Za-z._-]+")
_PORT: Final = re.compile(r"[0-9]{1,5}")
_MAX_PORT: Final = 65535


class Address(NamedTuple):
    """A host, as it goes to a resolver, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_servers(servers: str | Sequence[str]) -> tuple[Address, ...]:
    """The addresses in "host:port,host:port" or in a list of such texts; InvalidValueError says what is wrong."""
    texts = [servers] if isinstance(servers, str) else servers
    entries = [entry.strip() for text in texts for entry in text.split(",")]
    if not any(entries):
        raise InvalidValueError("no server is named")
    addresses = tuple(_parse_one(entry) for entry in entries)
    for position, address in enumerate(addresses):
        if address in addresses[:position]:
            raise InvalidValueError(f"{address} is named twice")
    return addresses


def _parse_one(entry: str) -> Address:
    if not entry:
        raise InvalidValueError("there is nothing before or after a comma")
    bare = entry[len(_LISTENER) :] if entry.upper().startswith(_LISTENER) else entry
    if "://" in bare:
        raise InvalidValueError(f"{entry!r} begins with a scheme: leave it out")
    host, port = _split_brackets(entry, bare) if bare.startswith("[") else _split_name(entry, bare)
    return Address(host, _port(entry, port))


def _split_brackets(entry: str, bare: str) -> tuple[str, str]:
    host, bracket, rest = bare[1:].partition("]")
    if not bracket:
        raise InvalidValueError(f"{entry!r} has no closing bracket")
    if not rest.startswith(":"):
        raise InvalidValueError(f"{entry!r} has no port: write [{host}]:9092")
    try:
        IPv6Address(host)
    except AddressValueError as error:
        raise InvalidValueError(f"{entry!r} is no IPv6 address in brackets: {error}") from None
    return host, rest[1:]


def _split_name(entry: str, bare: str) -> tuple[str, str]:
    host, colon, port = bare.rpartition(":")
    if not colon:
        raise InvalidValueError(f"{entry!r} has no port: write {bare}:9092")
    if not host:
        raise InvalidValueError(f"{entry!r} has no host")
    if ":" in host and any(separator in entry for separator in "; \t\n"):
        raise InvalidValueError(f"in {entry!r} there is no comma between servers: write host:9092,other:9092")
    if ":" in host:
        raise InvalidValueError(
            f"{entry!r} has more than one colon: an IPv6 address is written in brackets, [::1]:9092"
        )
    if not _HOST.fullmatch(host):
        raise InvalidValueError(f"{entry!r} has characters that no host name has")
    return host, port


def _port(entry: str, text: str) -> int:
    if not text:
        raise InvalidValueError(f"{entry!r} has no port after the colon")
    if not _PORT.fullmatch(text) or not 0 < int(text) <= _MAX_PORT:
        raise InvalidValueError(f"the port of {entry!r} is no number from 1 to {_MAX_PORT}")
    return int(text)
