"""A TOML document as a pipeline is read from it: what it holds, on which lines, and what is wrong with it.

Keys that are read are remembered with their places, so that what is found wrong with them later is shown there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ottla.spark.pipeline.lines import KeyPath
from ottla.spark.pipeline.mistakes import Mistake, PipelineError, Where

_VARIABLE: Final = re.compile(r"\$\$\{|\$\{([^}]*)\}|\$\{")
_NAMED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)

# Keys by other names than a pipeline's.
_SPELLED: Final = {"topics": "topic", "dead_letter": "dead-letter"}


@dataclass(frozen=True, slots=True)
class Found:
    """A mistake with its place; without a line where the value does not come from the file."""

    where: Where
    what: str
    line: int | None
    shown: str

    def text(self, file: str) -> str:
        place = file if self.line is None else f"{file}:{self.line}"
        return f"{place}: {self.shown}: {self.what}" if self.shown else f"{place}: {self.what}"


@dataclass
class Document:
    """A whole text: what it holds, where, and what is wrong with it."""

    data: dict[str, Any]
    lines: Mapping[KeyPath, int]
    environment: Mapping[str, str]
    folder: Path
    mistakes: list[Found] = field(default_factory=list)
    unread: set[Where] = field(default_factory=set)
    """Keys that are there under names that are misspelt."""
    # A key of the pipeline -> its path in the text, and how it is shown.
    _places: dict[Where, tuple[KeyPath, str]] = field(default_factory=dict)
    _overridden: set[KeyPath] = field(default_factory=set)

    def override(self, path: tuple[str, ...], value: str) -> None:
        """As if the text had it."""
        *tables, key = path
        inside = self.data
        for name in tables:
            below = inside.setdefault(name, {})
            if not isinstance(below, dict):
                return
            inside = below
        _remove_dotted(inside, key)
        # Variables are for what stands in the file.
        inside[key] = value.replace("${", "$${")
        self._overridden.add(path)

    def error(self, file: str) -> PipelineError:
        """Everything that was found, in the order of the text."""
        found = sorted(self.mistakes, key=lambda each: each.line or 0)
        lines = dict.fromkeys(each.text(file) for each in found)
        return PipelineError([Mistake(each.where, each.what) for each in found], "\n".join(lines))

    def place(self, where: Where, path: KeyPath, shown: str) -> None:
        self._places[where] = (path, shown)

    def mistake(self, where: Where, what: str) -> None:
        """At the key, or at the table that it is missing in."""
        known = where
        while known and known not in self._places:
            known = known[:-1]
        path, shown = self._places.get(known, ((), ""))
        if known != where:
            shown = _below(shown, where[len(known) :])
        line = None if path in self._overridden else self.lines.get(path, 1)
        if line is None:
            shown += ", as given in place of the file's"
        self.mistakes.append(Found(where, what, line, shown))

    def filled_in(self, where: Where, text: str) -> str | None:
        """With ${NAME} and ${NAME:-default} from the environment; None, and a mistake, if one is not there."""
        wrong: list[str] = []

        def value(found: re.Match[str]) -> str:
            if found[0] == "$${":
                return "${"
            named = None if found[1] is None else _NAMED.fullmatch(found[1])
            if named is None:
                wrong.append(
                    "'${' begins a variable, ${NAME} or ${NAME:-default}; write '$${' for the characters"
                )
                return ""
            given = self.environment.get(named[1])
            # As in a shell, an empty one counts as none where there is a default.
            if given is not None and (given or named[2] is None):
                return given
            if named[2] is None:
                wrong.append(
                    f"the environment has no variable {named[1]}; set it, or write ${{{named[1]}:-default}}"
                )
            return named[2] or ""

        filled = _VARIABLE.sub(value, text)
        for what in wrong[:1]:
            self.mistake(where, what)
        return None if wrong else filled

    def adopt(self, mistakes: Iterable[Mistake]) -> None:
        """What was found of the pipeline, without what only follows from a value that could not be read."""
        unread = self.unread | {_table_of(found.where) for found in self.mistakes}
        if any(table[:1] == ("sources",) and len(table) < 3 for table in unread):
            # Names of sources mean nothing to it now.
            unread.add(("transform",))
        for where, what in mistakes:
            if not any(where[: len(table)] == table[: len(where)] for table in unread):
                self.mistake(where, what)


def _table_of(where: Where) -> Where:
    """What is looked at as a whole: one source, one sink, the properties of Kafka; else a key by itself."""
    if where[:1] in (("sources",), ("sinks",)):
        return where[:2]
    return where[:1]


def _below(shown: str, keys: Where) -> str:
    """A key that is not there, below a table that may be."""
    *tables, key = (_SPELLED.get(each, each) for each in keys)
    if not shown:
        return f"[{'.'.join(tables)}] {key}" if tables else key
    return " ".join([shown, ".".join([*tables, key])])


def _remove_dotted(table: dict[str, Any], name: str) -> None:
    """Out of tables in tables, as a dotted name is nested."""
    table.pop(name, None)
    first, dot, rest = name.partition(".")
    while dot:
        if isinstance(below := table.get(first), dict):
            _remove_dotted(below, rest)
        more, dot, rest = rest.partition(".")
        first = f"{first}.{more}"
