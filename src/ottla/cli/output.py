"""What a command prints: rows for people and programs, and an error as one line.

Rows are a table on a terminal, tab-separated columns in a pipe, JSON on demand. An error is the line that says most,
with the closest name for what was not found.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

import typer

from ottla import errors

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


def error_line(error: BaseException) -> str:
    """What went wrong, in one line: the error that says most, with its notes."""
    shown = _most_telling(error)
    text = (
        _os_text(shown)
        if isinstance(shown, OSError) and not isinstance(shown, errors.KafkaError)
        else str(shown)
    )
    notes = [
        *getattr(shown, "__notes__", ()),
        *(getattr(error, "__notes__", ()) if shown is not error else ()),
    ]
    joined = "; ".join(each for each in (text or type(shown).__name__, *notes) if each)
    return " ".join(joined.split())


def unknown_topic(name: str, existing: Iterable[str]) -> errors.KafkaError:
    """There is no such topic, and what may have been meant."""
    names = sorted(existing)
    nothing = f"the cluster has none; `ottla topic create {name}` makes it"
    return errors.KafkaError(
        f"there is no topic {name}: {_advice(name, names, 'topic') if names else nothing}"
    )


def unknown_group(name: str, existing: Iterable[str]) -> errors.KafkaError:
    """There is no such group, and what may have been meant."""
    names = sorted(existing)
    advice = _advice(name, names, "group") if names else "the cluster has none"
    return errors.KafkaError(f"there is no group {name}: {advice}")


def unknown_transaction(name: str, existing: Iterable[str]) -> errors.KafkaError:
    """There is no such transactional id, and what may have been meant."""
    names = sorted(existing)
    advice = _advice(name, names, "txn") if names else "the cluster has none"
    return errors.KafkaError(f"there is no transactional id {name}: {advice}")


def _advice(name: str, names: Sequence[str], kind: str) -> str:
    if close := get_close_matches(name, names, n=3):
        return f"did you mean {' or '.join(close)}?"
    return f"`ottla {kind} list` shows those that exist"


def _most_telling(error: BaseException) -> BaseException:
    """A timeout says that something took too long; its cause says what that was."""
    for cause in _causes(error):
        if isinstance(cause, errors.NoBrokersError | errors.ConnectionFailedError):
            return cause
    if isinstance(error, errors.DeliveryError) and error.__cause__ is not None:
        return error.__cause__
    return error


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _os_text(error: OSError) -> str:
    if error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)
