"""The tree of docs/architecture.md is the tree of src/ottla: a newcomer finds every room there, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "ottla"
_ROOM = re.compile(r"    ( *)([\w.]+/|\w+\.py) +(\+ )?\S")


def rooms() -> Iterator[tuple[str, bool]]:
    """Each room by its path, and whether it is to come."""
    document = (ROOT / "docs" / "architecture.md").read_text()
    _, _, section = document.partition("\n## The tree\n")
    above: list[str] = []
    for line in section.partition("\nBeside `src/ottla`")[0].splitlines():
        found = _ROOM.match(line)
        if found is not None:
            indent, name, mark = found.groups()
            above[len(indent) // 2 :] = [name]
            yield "".join(above), mark is not None


def test_every_package_is_in_the_tree() -> None:
    packages = {f"{init.parent.relative_to(SOURCES)}/" for init in SOURCES.rglob("*/__init__.py")}
    assert packages - {name for name, _ in rooms()} == set()


def test_a_room_exists_unless_it_is_marked_as_one_to_come() -> None:
    wrong = [name for name, is_to_come in rooms() if (SOURCES / name).exists() is is_to_come]
    assert wrong == []


def test_every_module_that_the_page_names_exists() -> None:
    document = (ROOT / "docs" / "architecture.md").read_text()
    named = dict.fromkeys(re.findall(r"`([\w/]+\.pyx?)`", document))
    files = [
        f"/{path.relative_to(ROOT)}"
        for top in ("src", "tests", "tools")
        for path in (ROOT / top).rglob("*.py*")
    ]
    assert [name for name in named if not any(file.endswith(f"/{name}") for file in files)] == []
