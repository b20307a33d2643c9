"""On which line of a TOML text each key is; `tomllib` tells what it holds, and not where.

Only for text that tomllib has accepted: nothing is checked here, and keys are decoded by tomllib itself.

Invariant: every key and every element of an array in what tomllib returns has a line, the one that it begins on.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Final, TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]
"""Names of keys, and positions in arrays."""

_BLANK: Final = " \t\n"
_ENDS_OF_SCALARS: Final = ",]}#\n"


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line of each key, from 1.

    >>> key_lines("[kafka]\\nacks = 1")
    {('kafka',): 1, ('kafka', 'acks'): 2}
    """
    scanner = _Scanner(text.replace("\r\n", "\n"))
    scanner.document()
    return scanner.lines


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.lines: dict[KeyPath, int] = {}
        # Arrays of tables, and how many tables each has so far.
        self._lengths: dict[KeyPath, int] = {}

    def document(self) -> None:
        table: KeyPath = ()
        while self._skip_blank():
            if self._text.startswith("[[", self._at):
                table = self._header(2)
            elif self._text[self._at] == "[":
                table = self._header(1)
            else:
                self._pair(table)

    def _header(self, brackets: int) -> KeyPath:
        line = self._line()
        self._at += brackets
        names = self._key("]")
        self._at += brackets
        path: KeyPath = ()
        for position, name in enumerate(names):
            path = (*path, name)
            self.lines.setdefault(path, line)
            is_last = position == len(names) - 1
            if is_last and brackets == 2:
                self._lengths[path] = self._lengths.get(path, 0) + 1
            if path in self._lengths:
                # A name in a header stands for the newest table of an array.
                path = (*path, self._lengths[path] - 1)
                self.lines.setdefault(path, line)
        # The header itself, where a table below it was named before.
        self.lines[path] = line
        return path

    def _pair(self, table: KeyPath) -> None:
        line = self._line()
        for name in self._key("="):
            table = (*table, name)
            self.lines.setdefault(table, line)
        self._at += 1
        self._value(table)

    def _key(self, end: str) -> tuple[str, ...]:
        """The names of a dotted key, up to `end`."""
        begin = self._at
        while self._text[self._at] != end:
            if self._text[self._at] in "\"'":
                self._string()
            else:
                self._at += 1
        return _names(tomllib.loads(f"{self._text[begin : self._at].strip()} = 0"))

    def _value(self, path: KeyPath) -> None:
        self._skip_blank()
        match self._text[self._at]:
            case '"' | "'":
                self._string()
            case "[":
                self._array(path)
            case "{":
                self._inline_table(path)
            case _:
                while self._at < len(self._text) and self._text[self._at] not in _ENDS_OF_SCALARS:
                    self._at += 1

    def _array(self, path: KeyPath) -> None:
        self._at += 1
        position = 0
        while self._next_of("]"):
            self.lines[*path, position] = self._line()
            self._value((*path, position))
            position += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        while self._next_of("}"):
            self._pair(path)

    def _next_of(self, end: str) -> bool:
        """Whether there is one more between the brackets; behind the closing one if not."""
        self._skip_blank()
        if self._text[self._at] == ",":
            self._at += 1
            self._skip_blank()
        if self._text[self._at] == end:
            self._at += 1
            return False
        return True

    def _string(self) -> None:
        quote = self._text[self._at]
        long = self._text.startswith(quote * 3, self._at)
        end = quote * 3 if long else quote
        self._at += len(end)
        while not self._text.startswith(end, self._at):
            self._at += 2 if quote == '"' and self._text[self._at] == "\\" else 1
        self._at += len(end)
        # One or two quotes may stand before the three that end it.
        while long and self._text.startswith(quote, self._at):
            self._at += 1

    def _skip_blank(self) -> bool:
        """Over blanks, line ends and comments; False at the end of the text."""
        while self._at < len(self._text):
            if self._text[self._at] == "#":
                self._at = self._end_of_line()
            elif self._text[self._at] in _BLANK:
                self._at += 1
            else:
                return True
        return False

    def _end_of_line(self) -> int:
        end = self._text.find("\n", self._at)
        return len(self._text) if end < 0 else end

    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1


def _names(nested: Mapping[str, object]) -> tuple[str, ...]:
    """The keys of tables that have one key each, from the outside in."""
    ((name, below),) = nested.items()
    return (name, *_names(below)) if isinstance(below, Mapping) else (name,)
