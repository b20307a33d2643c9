"""The table of differences as docs/fidelity.md shows it: `python -m tests.interop.comparison.document` writes it."""

from __future__ import annotations

from pathlib import Path

from tests.interop.comparison.differences import DIFFERENCES, Difference

FILE = Path(__file__).parents[3] / "docs" / "fidelity.md"
HEAD = "| steps | fields | difference | reason |\n| --- | --- | --- | --- |\n"


def table() -> str:
    return HEAD + "".join(_row(entry) for entry in DIFFERENCES)


def write() -> None:
    text = FILE.read_text()
    FILE.write_text(text[: text.index(HEAD)] + table())


def _row(entry: Difference) -> str:
    fields = ", ".join(f"`{path}`" for path in entry.paths)
    return f"| `{entry.steps}` | {fields} | {entry.difference} | {entry.reason} |\n"


if __name__ == "__main__":
    write()
