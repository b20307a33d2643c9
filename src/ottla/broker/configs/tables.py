"""The configs of each kind of resource, read from kafka.configs.

Reading is lazy: a section is split into lines when its table is first used, and a line is parsed when its
config is first looked up.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Final

from ottla.broker.configs import values
from ottla.broker.configs.definitions import Definition, Value, parse_definition


class ConfigTable(Mapping[str, Definition]):
    """The definitions of one kind of resource by name, in the order in which Kafka looks at their values."""

    def __init__(self, section: str) -> None:
        self._section = section
        self._parsed: dict[str, Definition] = {}
        self._defaults: dict[str, Value] = {}

    def __getitem__(self, name: str) -> Definition:
        found = self._parsed.get(name)
        if found is None:
            found = self._parsed[name] = parse_definition(self._lines[name])
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def names(self) -> tuple[str, ...]:
        """All names, sorted; those of internal configs too."""
        return tuple(sorted(self._lines))

    def parse(self, name: str, text: str) -> Value:
        """The value that a text stands for; ConfigError for one that the config may not have."""
        return values.parse(self[name], text)

    def default(self, name: str) -> Value:
        """What holds where nothing is set."""
        if name not in self._defaults:
            text = self[name].default
            self._defaults[name] = None if text is None else self.parse(name, text)
        return self._defaults[name]

    def nearest(self, name: str) -> str | None:
        """The name that was meant, perhaps."""
        return next(iter(difflib.get_close_matches(name, self._lines, 1)), None)

    @cached_property
    def _lines(self) -> Mapping[str, str]:
        lines = _sections()[self._section].splitlines()
        return {line.partition(" ")[0]: line for line in lines}


@cache
def _sections() -> Mapping[str, str]:
    text = Path(__file__).with_name("kafka.configs").read_text("utf-8")
    blocks = text.strip("\n").split("\n\n")[1:]
    return {heading.strip("[]"): lines for heading, _, lines in (block.partition("\n") for block in blocks)}


TOPIC: Final = ConfigTable("topic")
BROKER: Final = ConfigTable("broker")
GROUP: Final = ConfigTable("group")
CLIENT_METRICS: Final = ConfigTable("client-metrics")
