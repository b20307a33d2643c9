"""What a dump consists of: lines, each as text for people and as fields for machines, and the errors that end a file.

The text has the words and the order of Apache Kafka's DumpLogSegments where that prints the same thing. The fields
have the same names.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class DumpError(ValueError):
    """A file that cannot be read, or is of no kind that is known; nothing more of it is dumped."""


@dataclass(frozen=True, slots=True)
class DumpLine:
    """One line about one file."""

    kind: str
    """What it describes: batch, record, entry, file, log, problem."""
    text: str
    fields: Mapping[str, object] = field(default_factory=dict)
    is_problem: bool = False
    """The file is damaged there, or does not fit the file beside it."""

    def as_json(self, path: str) -> str:
        content = {"file": path, "kind": self.kind, **self.fields}
        # In ASCII, so that any output can take it, and whatever a damaged file calls text.
        return json.dumps(content, separators=(",", ":"))


def entry(**fields: object) -> DumpLine:
    """An entry of a file, as `name: value name: value`."""
    return DumpLine("entry", words(fields), fields)


def problem(text: str, **fields: object) -> DumpLine:
    return DumpLine("problem", text, {"problem": text, **fields}, is_problem=True)


def words(fields: Mapping[str, object]) -> str:
    return " ".join(f"{name}: {word(value)}" for name, value in fields.items())


def word(value: object) -> str:
    """As Java shows it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else _on_one_line(str(value))


def optional(value: int | None) -> str:
    """As Java shows an OptionalLong, which is how Kafka's tool shows what may be missing."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def shown(content: bytes) -> str:
    """Bytes as text on one line: UTF-8 as far as they are, with control characters escaped."""
    return _on_one_line(content.decode("utf-8", "replace"))


def _on_one_line(text: str) -> str:
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def plain(name: str, content: bytes | None) -> dict[str, object]:
    """Bytes as a field: text where they are UTF-8, `<name>_base64` else."""
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}
