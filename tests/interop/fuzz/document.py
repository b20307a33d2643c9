"""What the fuzzer masks, as docs/fidelity.md shows it: `python -m tests.interop.fuzz.document` writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.interop.fuzz.masks import KNOWN, MASKED, NOT_ASKED

FILE: Final = Path(__file__).parents[3] / "docs" / "fidelity.md"
BEGIN: Final = "<!-- begin: what the fuzzer masks -->\n"
END: Final = "<!-- end: what the fuzzer masks -->\n"


def tables() -> str:
    masked = [(_code(each.fields), each.compared, each.reason) for each in MASKED]
    asked = [(each.what, each.reason) for each in NOT_ASKED]
    known = [(f"`{each.steps}`", _code(each.paths), each.difference, each.reason) for each in KNOWN]
    return "\n".join(
        [
            _table(("fields", "what is compared", "reason"), masked),
            _table(("what it does not ask", "reason"), asked),
            _table(("steps", "fields", "known difference", "reason"), known),
        ]
    )


def shown() -> str:
    """What the document has now."""
    text = FILE.read_text()
    return text[text.index(BEGIN) + len(BEGIN) : text.index(END)]


def write() -> None:
    text = FILE.read_text()
    FILE.write_text(text[: text.index(BEGIN) + len(BEGIN)] + tables() + text[text.index(END) :])


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _code(fields: tuple[str, ...]) -> str:
    return ", ".join(f"`{field}`" for field in fields)


if __name__ == "__main__":
    write()
