"""The syntax of .properties files, as java.util.Properties reads it: comments, escapes, continued lines.

One difference: the text is UTF-8 and not Latin-1, which is the same for every file that keeps to ASCII.
What the names mean is java.py's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.errors import ConfigurationError

_BLANK: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
# A name ends at the first blank, = or : that no backslash stands before.
_NAME: Final = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_SEPARATOR: Final = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    line: int
    name: str
    value: str


def read_properties(path: str | os.PathLike[str]) -> list[Property]:
    """Every name and value in a file."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            return list(parse_properties(file.read()))
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"the file is not UTF-8: {error}") from error


def parse_properties(text: str) -> Iterator[Property]:
    """Every name and value of the text, in its order, with the line each begins on."""
    for line, content in _logical_lines(text):
        name = _NAME.match(content)
        assert name is not None, "the pattern matches the empty text too"
        separator = _SEPARATOR.match(content, name.end())
        assert separator is not None, "the pattern matches the empty text too"
        yield Property(line, _unescaped(name[0], line), _unescaped(content[separator.end() :], line))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments and blanks, each joined with those that continue it."""
    begun, parts = 0, list[str]()
    for number, line in enumerate(_LINE_END.split(text), start=1):
        content = line.lstrip(_BLANK)
        if not parts:
            if not content or content[0] in "#!":
                continue
            begun = number
        continues = _ends_in_backslash(content)
        parts.append(content[:-1] if continues else content)
        if not continues:
            yield begun, "".join(parts)
            parts = []
    if any(parts):
        yield begun, "".join(parts)


def _ends_in_backslash(line: str) -> bool:
    """Whether the last backslash escapes the end of the line, and not itself the one before it."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str, line: int) -> str:
    if "\\" not in text:
        return text

    def replaced(match: re.Match[str]) -> str:
        escape = match[1]
        if escape == "u":
            raise ConfigurationError(f"line {line}: \\u is not followed by four hexadecimal digits")
        return chr(int(escape[1:], 16)) if len(escape) > 1 else _CONTROL.get(escape, escape)

    units = _ESCAPE.sub(replaced, text)
    # Java writes a character beyond U+FFFF as two escapes; only UTF-16 knows that they are one.
    try:
        return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise ConfigurationError(
            f"line {line}: \\u escapes half a character, its other half is missing"
        ) from None
