r"""Records as text, both ways: what `ottla produce` reads and what `ottla consume` writes. No client here.

Input is lines, JSON objects, or a whole file. Output is values, JSON objects, or a template in kcat's letters, which
ends each record with a newline unless it ends with \n or \0 itself.

Invariant: what `consume --format json` writes, `produce --format json` reads as the same record.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import BinaryIO, Final, Literal, Protocol

from ottla.errors import ConfigurationError, KafkaError

InputFormat = Literal["lines", "json", "raw"]

# The fields of a record in JSON.
_FIELDS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_BINARY: Final = "_base64"
"""What follows the name of a field whose bytes are no text."""


# Input


class InputError(KafkaError):
    """Input that is no record; the message says where and why."""


@dataclass(slots=True)
class InputRecord:
    """A record that is still to be produced, and the line it came from."""

    line: int
    value: bytes | None
    key: bytes | None = None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)
    partition: int | None = None
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class InputReader:
    """How input becomes records; what the command line says counts for each record that does not say it itself."""

    format: InputFormat = "lines"
    key: bytes | None = None
    key_separator: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None

    def file(self, source: BinaryIO) -> Iterator[InputRecord]:
        """The records of a stream, one by one as they arrive."""
        if self.format == "raw":
            yield self._plain(1, source.read())
            return
        yield from self._each(source)

    def arguments(self, values: Iterable[str]) -> Iterator[InputRecord]:
        """The records of values that stand on the command line."""
        # As the shell gave them: bytes that are not UTF-8 come through unharmed.
        encoded = (value.encode("utf-8", "surrogateescape") for value in values)
        if self.format == "raw":
            return (self._plain(number, value) for number, value in enumerate(encoded, start=1))
        return self._each(encoded)

    def _each(self, lines: Iterable[bytes]) -> Iterator[InputRecord]:
        parse = self._json if self.format == "json" else self._line
        for number, line in enumerate(lines, start=1):
            content = line.removesuffix(b"\n")
            if self.format == "json" and not content.strip():
                continue
            yield parse(number, content)

    def _line(self, number: int, line: bytes) -> InputRecord:
        if self.key_separator is None:
            return self._plain(number, line)
        key, found, value = line.partition(self.key_separator)
        if not found:
            raise InputError(
                f"line {number} has no {self.key_separator.decode(errors='replace')!r} after a key"
            )
        return self._plain(number, value, key)

    def _plain(self, number: int, value: bytes, key: bytes | None = None) -> InputRecord:
        return InputRecord(
            number, value, self.key if key is None else key, list(self.headers), self.partition
        )

    def _json(self, number: int, line: bytes) -> InputRecord:
        try:
            found = json.loads(line)
            if not isinstance(found, dict):
                raise InputError("a JSON object is expected, with at least a value")
            return self._from_object(number, found)
        except (ValueError, InputError) as error:
            raise InputError(f"line {number}: {error}") from error

    def _from_object(self, number: int, found: Mapping[str, object]) -> InputRecord:
        _check_fields(found)
        if not _has(found, "value"):
            raise InputError('there is no "value" (null is a tombstone)')
        return InputRecord(
            number,
            _decoded(found, "value"),
            _decoded(found, "key") if _has(found, "key") else self.key,
            [*_decoded_headers(found.get("headers")), *self.headers],
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


def _decoded(found: Mapping[str, object], name: str) -> bytes | None:
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


def _decoded_headers(found: object) -> Iterator[tuple[str, bytes | None]]:
    """Both shapes: {"name": "value"}, and a list of {"name": ..., "value": ...} where a name may come twice."""
    if found is None:
        return
    if isinstance(found, dict):
        yield from ((str(name), _decoded({"value": content}, "value")) for name, content in found.items())
        return
    if not isinstance(found, list):
        raise InputError('"headers" is an object, or a list of {"name": ..., "value": ...}')
    for header in found:
        if not isinstance(header, dict) or "name" not in header or not _has(header, "value"):
            raise InputError('a header is {"name": ..., "value": ...}')
        yield str(header["name"]), _decoded(header, "value")


def _whole(found: Mapping[str, object], name: str) -> int | None:
    number = found.get(name)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise InputError(f'"{name}" is {json.dumps(number)}: a whole number from 0 is expected')
    return number


# Output


class OutputRecord(Protocol):
    """A record, as far as writing it goes."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> list[tuple[str, bytes | None]]: ...


Render = Callable[[OutputRecord], bytes]


class TemplateError(ConfigurationError):
    """A format that is none of the named ones and no template either."""


def _length(content: bytes | None) -> bytes:
    # As kcat does: null and empty differ.
    return b"-1" if content is None else b"%d" % len(content)


def _header_list(record: OutputRecord) -> bytes:
    return b",".join(b"%s=%s" % (name.encode(), value or b"") for name, value in record.headers)


_LETTERS: Final[Mapping[str, tuple[str, Render]]] = {
    "t": ("topic", lambda record: record.topic.encode()),
    "p": ("partition", lambda record: b"%d" % record.partition),
    "o": ("offset", lambda record: b"%d" % record.offset),
    "T": ("timestamp, in milliseconds", lambda record: b"%d" % record.timestamp),
    "k": ("key", lambda record: record.key or b""),
    "v": ("value", lambda record: record.value or b""),
    "s": ("value, as in kcat", lambda record: record.value or b""),
    "h": ("headers, as name=value,...", _header_list),
    "K": ("length of the key, -1 for null", lambda record: _length(record.key)),
    "V": ("length of the value, -1 for null", lambda record: _length(record.value)),
    "S": ("length of the value, as in kcat", lambda record: _length(record.value)),
}
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_PIECE: Final = re.compile(r"%(.)|\\(.)|([^%\\]+)|(.)", re.DOTALL)


def renderer(form: str) -> Render:
    """How each record is written: `value`, `raw`, `json`, or a template with % in it."""
    if form == "value":
        return lambda record: (record.value or b"") + b"\n"
    if form == "raw":
        return lambda record: record.value or b""
    if form == "json":
        return as_json
    if "%" not in form:
        raise TemplateError(
            f"--format {form}: expected value, raw, json, or a template such as '%k %v' with any of "
            + ", ".join(f"%{letter}" for letter in _LETTERS)
        )
    return _template(form)


def _template(text: str) -> Render:
    pieces = [_piece(match, text) for match in _PIECE.finditer(text)]
    if not text.endswith((r"\n", r"\0")):
        pieces.append(lambda _: b"\n")
    return lambda record: b"".join([piece(record) for piece in pieces])


def _piece(match: re.Match[str], text: str) -> Render:
    letter, escape, plain, lone = match.groups()
    if letter == "%":
        return lambda _: b"%"
    if letter is not None:
        if letter not in _LETTERS:
            known = "; ".join(f"%{each} {what}" for each, (what, _) in _LETTERS.items())
            raise TemplateError(f"--format {text}: there is no %{letter}. {known}; %% a percent sign")
        return _LETTERS[letter][1]
    constant = _ESCAPES.get(escape, f"\\{escape}".encode()) if escape else (plain or lone).encode()
    return lambda _: constant


def as_json(record: OutputRecord) -> bytes:
    """One object in a line. What is UTF-8 stands as text, other bytes as base64 in `key_base64` and the like."""
    fields: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_encoded("key", record.key),
        **_encoded("value", record.value),
    }
    if headers := record.headers:
        fields["headers"] = [{"name": name, **_encoded("value", value)} for name, value in headers]
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _encoded(name: str, content: bytes | None) -> dict[str, object]:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}{_BINARY}": base64.b64encode(content).decode()}
