"""docs/guarantees.md: what it names as shown by a test or a target is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")


def test_every_test_that_is_named_exists() -> None:
    named = re.findall(r"`(tests/[\w/.]+)`", PAGE)
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_target_that_is_named_exists() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    named = re.findall(r"`make ([a-z-]+)`", PAGE)
    assert named
    assert set(named) - set(targets) == set()


def test_every_promise_says_what_shows_it() -> None:
    heads = ("what holds", "---", "step")
    rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
    promises = [cells for cells in rows if len(cells) == 2 and not cells[0].startswith(heads)]
    assert len(promises) > 20
    assert [cells[0] for cells in promises if "`" not in cells[1]] == []


def test_every_page_and_heading_that_is_linked_exists() -> None:
    for page, anchor in re.findall(r"\]\(([\w-]+\.md)(?:#([\w-]+))?\)", PAGE):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        headings = {
            re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        }
        assert not anchor or anchor in headings, f"{page}#{anchor}"
