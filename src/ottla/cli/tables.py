"""Rows for whoever reads them: a table on a terminal, tab-separated columns in a pipe, JSON on demand."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import typer

Cell = str | int | bool | None | Sequence[int]


def show(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, as_json: bool, title: str | None = None
) -> None:
    """Prints rows under the names of their columns. In a pipe there is no heading: every line is a row."""
    if as_json:
        for row in rows:
            typer.echo(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False))
    elif sys.stdout.isatty():
        _rich_table(columns, rows, title)
    else:
        for row in rows:
            typer.echo("\t".join(map(_text, row)))


def _rich_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]], title: str | None) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for index, name in enumerate(columns):
        numbers = bool(rows) and all(isinstance(row[index], int) for row in rows)
        table.add_column(name.replace("_", " "), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        # Text, for rich would take square brackets in a value for markup.
        table.add_row(*(Text(_text(cell)) for cell in row))
    Console().print(table)


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, str | int):
        return str(cell)
    return ",".join(map(str, cell)) or "-"
