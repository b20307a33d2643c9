"""The table of differences as the docs show it: `python -m tests.interop.spark.document` writes it."""

from __future__ import annotations

from pathlib import Path

from tests.interop.spark.differences import DIFFERENCES, Difference

FILE = Path(__file__).parents[3] / "docs" / "spark-differences.md"
HEAD = "| the JVM connector | Ottla | reason | shown by |\n| --- | --- | --- | --- |\n"


def table() -> str:
    return HEAD + "".join(_row(entry) for entry in DIFFERENCES)


def written() -> str:
    """The table that the document has: it is the last thing in it."""
    text = FILE.read_text()
    return text[text.index(HEAD) :]


def write() -> None:
    text = FILE.read_text()
    FILE.write_text(text[: text.index(HEAD)] + table())


def _row(entry: Difference) -> str:
    cases = ", ".join(f"`{case}`" for case in entry.cases)
    return f"| {entry.jvm} | {entry.ottla} | {entry.reason} | {cases} |\n"


if __name__ == "__main__":
    write()
