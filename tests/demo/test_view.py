"""What is shown of the pipeline, with and without a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from demo.orders import Total, Window
from demo.view import Lines, State, opened, table

STATE = State(
    orders=90,
    of=100,
    totals={
        Window(0, "Kenya"): Total(30, 12_345),
        Window(10_000, "Kenya"): Total(20, 155),
        Window(0, "Italy"): Total(10, 100),
    },
    batches=3,
    batch_ms=412,
)


def test_a_line_has_what_went_in_and_what_came_out() -> None:
    assert str(STATE) == (
        "orders in: 90 of 100; summed by Spark: 60, revenue €126.00; 3 micro-batches, the last in 412 ms"
    )
    assert str(State(of=100)).endswith("Spark is starting")


def test_windows_of_a_country_are_added_up() -> None:
    assert STATE.by_country() == {"Italy": Total(10, 100), "Kenya": Total(50, 12_500)}


def test_the_table_has_a_row_for_each_country() -> None:
    out = io.StringIO()
    Console(file=out, width=120).print(table(STATE))
    assert "Kenya" in out.getvalue()
    assert "€125.00" in out.getvalue()


def test_a_table_of_nothing_can_be_shown() -> None:
    Console(file=io.StringIO()).print(table(State()))


def test_lines_do_not_repeat_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    lines.show(STATE)
    lines.show(STATE)
    assert capsys.readouterr().out.count("orders in") == 1


def test_without_a_terminal_there_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with opened() as view:
        view.show(STATE)
    assert capsys.readouterr().out == f"demo: {STATE}\n"
