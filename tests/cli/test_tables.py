"""Rows for whoever reads them."""

from __future__ import annotations

import io
import json
import sys

import pytest

from ottla.cli.tables import Cell, show

COLUMNS = ("topic", "first_offset", "isr")
ROWS: list[tuple[Cell, ...]] = [("orders", 1, (1, 2)), ("[bold]x", None, ())]


def test_a_pipe_gets_columns_without_a_heading(capsys: pytest.CaptureFixture[str]) -> None:
    show(COLUMNS, ROWS, as_json=False)
    assert capsys.readouterr().out == "orders\t1\t1,2\n[bold]x\t-\t-\n"


def test_json_is_an_object_per_row(capsys: pytest.CaptureFixture[str]) -> None:
    show(COLUMNS, ROWS, as_json=True)
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {"topic": "orders", "first_offset": 1, "isr": [1, 2]}
    assert second["first_offset"] is None


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_table_with_words_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "dumb")
    show(COLUMNS, ROWS, as_json=False)
    shown = terminal.getvalue()
    assert "first offset" in shown
    assert "[bold]x" in shown
