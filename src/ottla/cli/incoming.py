"""What `ottla produce` reads, as records: lines, JSON objects, or a whole file. No client here."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import BinaryIO, Final, Literal

from ottla.errors import KafkaError

Format = Literal["lines", "json", "raw"]
Headers = list[tuple[str, bytes | None]]

# What `ottla consume --format json` writes, so that one command's output is the other's input.
_FIELDS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_BINARY: Final = "_base64"


class InputError(KafkaError):
    """Input that is no record; the message says where and why."""


@dataclass(slots=True)
class Incoming:
    """A record that is still to be produced, and the line it came from."""

    line: int
    value: bytes | None
    key: bytes | None = None
    headers: Headers = field(default_factory=list)
    partition: int | None = None
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """How input becomes records; what the command line says counts for each record that does not say it itself."""

    format: Format = "lines"
    key: bytes | None = None
    key_separator: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None

    def file(self, source: BinaryIO) -> Iterator[Incoming]:
        """The records of a stream, one by one as they arrive."""
        if self.format == "raw":
            yield self._plain(1, source.read())
            return
        yield from self._each(source)

    def arguments(self, values: Iterable[str]) -> Iterator[Incoming]:
        """The records of values that stand on the command line."""
        # As the shell gave them: bytes that are not UTF-8 come through unharmed.
        encoded = (value.encode("utf-8", "surrogateescape") for value in values)
        if self.format == "raw":
            return (self._plain(number, value) for number, value in enumerate(encoded, start=1))
        return self._each(encoded)

    def _each(self, lines: Iterable[bytes]) -> Iterator[Incoming]:
        parse = self._json if self.format == "json" else self._line
        for number, line in enumerate(lines, start=1):
            content = line.removesuffix(b"\n")
            if self.format == "json" and not content.strip():
                continue
            yield parse(number, content)

    def _line(self, number: int, line: bytes) -> Incoming:
        if self.key_separator is None:
            return self._plain(number, line)
        key, found, value = line.partition(self.key_separator)
        if not found:
            raise InputError(
                f"line {number} has no {self.key_separator.decode(errors='replace')!r} after a key"
            )
        return self._plain(number, value, key)

    def _plain(self, number: int, value: bytes, key: bytes | None = None) -> Incoming:
        return Incoming(number, value, self.key if key is None else key, list(self.headers), self.partition)

    def _json(self, number: int, line: bytes) -> Incoming:
        try:
            found = json.loads(line)
            if not isinstance(found, dict):
                raise InputError("a JSON object is expected, with at least a value")
            return self._from_object(number, found)
        except (ValueError, InputError) as error:
            raise InputError(f"line {number}: {error}") from error

    def _from_object(self, number: int, found: Mapping[str, object]) -> Incoming:
        _check_fields(found)
        if not _has(found, "value"):
            raise InputError('there is no "value" (null is a tombstone)')
        return Incoming(
            number,
            _content(found, "value"),
            _content(found, "key") if _has(found, "key") else self.key,
            [*_headers(found.get("headers")), *self.headers],
            self.partition if self.partition is not None else _whole(found, "partition"),
            _whole(found, "timestamp"),
        )


def _check_fields(found: Mapping[str, object]) -> None:
    for name in found:
        if name.removesuffix(_BINARY) not in _FIELDS:
            close = get_close_matches(name, _FIELDS, n=1)
            raise InputError(
                f"there is no field {name!r}: "
                + (f"did you mean {close[0]}?" if close else f"records have {', '.join(_FIELDS)}")
            )


def _has(found: Mapping[str, object], name: str) -> bool:
    return name in found or name + _BINARY in found


def _content(found: Mapping[str, object], name: str) -> bytes | None:
    """Text as UTF-8, base64 as what it stands for, and any other JSON as itself."""
    if name + _BINARY in found:
        encoded = found[name + _BINARY]
        try:
            return base64.b64decode(str(encoded), validate=True)
        except binascii.Error as error:
            raise InputError(f"{name + _BINARY} is not base64: {error}") from error
    content = found[name]
    if content is None:
        return None
    if isinstance(content, str):
        return content.encode("utf-8", "surrogatepass")
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def _headers(found: object) -> Iterator[tuple[str, bytes | None]]:
    """Both shapes: {"name": "value"}, and a list of {"name": ..., "value": ...} where a name may come twice."""
    if found is None:
        return
    if isinstance(found, dict):
        yield from ((str(name), _content({"value": content}, "value")) for name, content in found.items())
        return
    if not isinstance(found, list):
        raise InputError('"headers" is an object, or a list of {"name": ..., "value": ...}')
    for header in found:
        if not isinstance(header, dict) or "name" not in header or not _has(header, "value"):
            raise InputError('a header is {"name": ..., "value": ...}')
        yield str(header["name"]), _content(header, "value")


def _whole(found: Mapping[str, object], name: str) -> int | None:
    number = found.get(name)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise InputError(f'"{name}" is {json.dumps(number)}: a whole number from 0 is expected')
    return number
