"""The tables of a TOML document, read by the type that each key has; a value of another type is a mistake.

Invariant: no key is passed over. What was not read when a table is closed is unknown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from ottla.spark.pipeline.document import Document
from ottla.spark.pipeline.lines import KeyPath
from ottla.spark.pipeline.mistakes import Where
from ottla.spark.pipeline.texts import alternatives, nearest

PIPELINE_KEYS: Final = (
    "name",
    "checkpoint",
    "trigger",
    "mode",
    "delivery",
    "kafka",
    "sources",
    "transform",
    "sinks",
    "spark",
)
_PLACES_TO_BEGIN: Final[Mapping[object, int]] = {"earliest": -2, "latest": -1}


class Table:
    """A table of the text; `path` is where it is there, `where` is what a pipeline calls it."""

    def __init__(
        self, document: Document, data: Mapping[str, Any], path: KeyPath = (), where: Where = ()
    ) -> None:
        self._document = document
        self._data = data
        self._path = path
        self._where = where
        self._read: list[str] = []
        # What a pipeline calls keys of other names; an empty one is the table's own.
        self._names = {"dead-letter": "dead_letter"}

    def has(self, key: str) -> bool:
        return key in self._data

    def mistake(self, what: str, key: str | None = None) -> None:
        if key is not None and self.has(key):
            self._place(key)
        self._document.mistake(self._where if key is None else self._called_at(key), what)

    def text(self, key: str) -> str | None:
        value = self._take(key)
        if value is None or isinstance(value, str):
            return None if value is None else self._filled_in(key, value)
        self.mistake(f"it is {_kind(value)}; write text, in quotes", key)
        return None

    def flag(self, key: str) -> bool | None:
        value = self._take(key)
        if value is None or isinstance(value, bool):
            return value
        self.mistake(f"it is {_kind(value)}; write true or false, without quotes", key)
        return None

    def texts(self, key: str) -> tuple[str, ...] | None:
        value = self._take(key)
        if value is None:
            return None
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(text for each in value if (text := self._filled_in(key, each)) is not None)
        self.mistake(f'it is {_kind(value)}; write a list of texts, ["...", "..."]', key)
        return None

    def one_or_more(self, one: str, more: str) -> tuple[str, ...] | None:
        """The texts of either key, which a pipeline knows by the second name."""
        self._names[one] = more
        if self.has(one) and self.has(more):
            self._read += (one, more)
            self.mistake(f"{more} are named too; leave out one of the two", one)
            return None
        if not self.has(one):
            self._read.append(one)
            return self.texts(more)
        self._read.append(more)
        text = self.text(one)
        return None if text is None else (text,)

    def either(
        self,
        readers: Mapping[str, Callable[[str], Any]],
        *,
        called: str | None = None,
        required: bool = False,
    ) -> Any:
        """The value of the one key that is there.

        A pipeline calls it as the first of them, or `called`; where that is empty, as the table.
        """
        there = [key for key in readers if self.has(key)]
        self._read += readers
        self._names |= dict.fromkeys(readers, next(iter(readers)) if called is None else called)
        if len(there) > 1:
            self.mistake(f"{', '.join(there[:-1])} is there too; leave out one of the two", there[-1])
            return None
        if not there:
            if required and not self._data:
                self.mistake(f"it is empty; write one of {alternatives(readers)}")
            return None
        return readers[there[0]](there[0])

    def contents(self, key: str) -> str | None:
        """The text of the file that is named."""
        name = self.text(key)
        if name is None:
            return None
        path = self._document.folder / name
        try:
            return path.read_text(encoding="utf-8")
        except FileNotFoundError:
            self.mistake(f"there is no file {path}; paths are relative to the pipeline's file", key)
        except (OSError, ValueError) as error:  # no UTF-8; no name of a file
            self.mistake(f"{path} cannot be read: {error}", key)
        return None

    def table(self, key: str, advice: str) -> Table | None:
        value = self._take(key)
        if value is None:
            return None
        where = self._place(key, shown=f"[{_dotted((*self._path, key))}]")
        if isinstance(value, dict):
            return Table(self._document, value, (*self._path, key), where)
        self.mistake(f"it is {_kind(value)}; {advice}", key)
        return None

    def tables(self, key: str) -> Iterator[tuple[str, Table]]:
        """The tables in a table, by their names."""
        above = self.table(key, f"write [{key}.NAME], with a name of your own for each")
        if above is None:
            return
        for name in above._data:
            below = above.table(name, f"write [{key}.NAME], and keys below it")
            if below is not None:
                yield name, below

    def properties(self, key: str) -> dict[str, str]:
        """Texts by dotted names, whether they are nested or in quotes."""
        table = self.table(key, f"write [{_dotted((*self._path, key))}], and names below it")
        found: dict[str, str] = {}
        if table is not None:
            for path, value in _leaves(table._data, ()):
                name = ".".join(path)
                self._property(table, name, path, value, found)
        return found

    def _property(
        self, table: Table, name: str, path: tuple[str, ...], value: object, found: dict[str, str]
    ) -> None:
        document = self._document
        where = (*table._where, name)
        document.place(where, (*table._path, *path), f"[{_dotted(table._path)}] {name}")
        text = _as_text(value)
        if name in PIPELINE_KEYS:
            document.mistake(where, _MISPLACED)
        elif name in found:
            document.mistake(where, "it is there twice; leave one out")
        elif text is None:
            document.mistake(where, f"it is {_kind(value)}; write text, a number, true or false")
        elif (filled := document.filled_in(where, text)) is not None:
            found[name] = filled

    def offsets(self, key: str) -> str | None:
        """A text, or offsets by topic and partition, as the connector's JSON."""
        value = self._data.get(key)
        if not isinstance(value, dict):
            if value is None or isinstance(value, str):
                return self.text(key)
            self._take(key)
            self.mistake(
                f'it is {_kind(value)}; write "earliest", "latest" or offsets, {{ orders = {{ 0 = 23 }} }}',
                key,
            )
            return None
        self._take(key)
        by_topic: dict[str, dict[str, int]] = {}
        for topic, partitions in value.items():
            if not isinstance(partitions, dict):
                self.mistake(
                    f"there is no partition for {topic}; write offsets as {{ {topic} = {{ 0 = 23 }} }}", key
                )
                return None
            for partition, offset in partitions.items():
                number = _PLACES_TO_BEGIN.get(offset, offset) if isinstance(offset, str | int) else offset
                if isinstance(number, bool) or not isinstance(number, int) or not partition.isdecimal():
                    self.mistake(
                        f"partition {partition} of {topic} has {offset!r}; write the number of a partition, and "
                        'its offset, or "earliest" or "latest"',
                        key,
                    )
                    return None
                by_topic.setdefault(topic, {})[partition] = number
        return json.dumps(by_topic, separators=(",", ":"))

    def close(self, known: Iterable[str] = ()) -> None:
        """Everything that was not read is unknown."""
        known = dict.fromkeys([*known, *self._read])
        for key in self._data:
            if key in known:
                continue
            if self._path and key in PIPELINE_KEYS:
                self.mistake(_MISPLACED, key)
            else:
                near = nearest(key, known)
                advice = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
                self.mistake(f"there is no such key; {advice}", key)
                if near is not None:
                    self._document.unread.add(self._called_at(near))

    def _take(self, key: str) -> Any:
        self._read.append(key)
        if key not in self._data:
            return None
        self._place(key)
        return self._data[key]

    def _called_at(self, key: str) -> Where:
        """What a pipeline calls the key."""
        name = self._names.get(key, key)
        return (*self._where, name) if name else self._where

    def _place(self, key: str, *, shown: str | None = None) -> Where:
        where = self._called_at(key)
        if shown is None:
            shown = f"[{_dotted(self._path)}] {key}" if self._path else key
        self._document.place(where, (*self._path, key), shown)
        return where

    def _filled_in(self, key: str, text: str) -> str | None:
        return self._document.filled_in(self._called_at(key), text)


_MISPLACED: Final = "it is a key of the pipeline; write it above the first [table]"


def _leaves(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value


def _as_text(value: object) -> str | None:
    """As Spark's own writers of options have it."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return value
        case int() | float():
            return str(value)
        case list():
            texts = [_as_text(each) for each in value]
            return None if None in texts else ",".join(filter(None, texts))
    return None


def _dotted(path: KeyPath) -> str:
    return ".".join(map(str, path))


def _kind(value: object) -> str:
    match value:
        case bool():
            return f"{str(value).lower()} without quotes"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "a table"
    return "a date or a time"
