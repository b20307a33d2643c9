"""Rows for people and programs, and errors in one line."""

from __future__ import annotations

import io
import json
import sys

import pytest

from ottla.cli.output import Cell, error_line, show, unknown_group, unknown_topic
from ottla.errors import ApiTimeoutError, ConfigurationError, KafkaError, NoBrokersError

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


def test_an_error_and_its_notes_are_one_line() -> None:
    error = ConfigurationError("linger.ms is x:\nexpected a number")
    error.add_note("in client.properties, line 3")
    assert error_line(error) == "linger.ms is x: expected a number; in client.properties, line 3"


def test_a_timeout_names_the_brokers_that_could_not_be_reached() -> None:
    error = ApiTimeoutError("listing topics took longer than 10 s")
    error.__cause__ = NoBrokersError("none of localhost:1 could be reached: refused")
    assert error_line(error) == "none of localhost:1 could be reached: refused"


def test_a_file_is_named() -> None:
    assert (
        error_line(FileNotFoundError(2, "No such file or directory", "x.txt"))
        == "x.txt: No such file or directory"
    )


def test_an_error_without_words_has_its_name() -> None:
    assert error_line(KafkaError()) == "KafkaError"


def test_a_misspelt_topic_is_an_error_with_the_closest() -> None:
    assert (
        str(unknown_topic("order", ["orders", "payments"])) == "there is no topic order: did you mean orders?"
    )


def test_a_topic_like_no_other_is_an_error_with_how_to_see_them() -> None:
    assert "`ottla topic list`" in str(unknown_topic("zzz", ["orders"]))
    assert "`ottla topic create zzz`" in str(unknown_topic("zzz", []))


def test_a_misspelt_group_is_an_error_with_the_closest_or_how_to_see_them() -> None:
    assert str(unknown_group("biling", ["billing"])) == "there is no group biling: did you mean billing?"
    assert "`ottla group list`" in str(unknown_group("zzz", ["billing"]))
    assert str(unknown_group("zzz", [])) == "there is no group zzz: the cluster has none"
