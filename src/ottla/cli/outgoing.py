r"""What `ottla consume` writes: values, JSON objects, or a template in kcat's letters. No client here.

A template ends each record with a newline, unless it ends with \n or \0 itself.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from ottla.errors import ConfigurationError


class Readable(Protocol):
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


Render = Callable[[Readable], bytes]


class TemplateError(ConfigurationError):
    """A format that is none of the named ones and no template either."""


def _length(content: bytes | None) -> bytes:
    # As kcat does: null and empty differ.
    return b"-1" if content is None else b"%d" % len(content)


def _header_list(record: Readable) -> bytes:
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


def renderer(wanted: str) -> Render:
    """How each record is written: `value`, `raw`, `json`, or a template with % in it."""
    if wanted == "value":
        return lambda record: (record.value or b"") + b"\n"
    if wanted == "raw":
        return lambda record: record.value or b""
    if wanted == "json":
        return as_json
    if "%" not in wanted:
        raise TemplateError(
            f"--format {wanted}: expected value, raw, json, or a template such as '%k %v' with any of "
            + ", ".join(f"%{letter}" for letter in _LETTERS)
        )
    return _template(wanted)


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


def as_json(record: Readable) -> bytes:
    """One object in a line. What is UTF-8 stands as text, other bytes as base64 in `key_base64` and the like."""
    fields: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_content("key", record.key),
        **_content("value", record.value),
    }
    if headers := record.headers:
        fields["headers"] = [{"name": name, **_content("value", value)} for name, value in headers]
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _content(name: str, content: bytes | None) -> dict[str, object]:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}
