"""`ottla txn`: how it reads what it is given. On brokers with transactions: tests/interop/transactions."""

from __future__ import annotations

import pytest
import typer

from ottla.broker import Cluster
from ottla.cli.txn import parse_duration
from tests.cli.conftest import Ottla


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("15m", 900), ("1h", 3600), ("2d", 172_800)]
)
def test_a_time_is_a_number_with_or_without_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text, "--older-than") == seconds


@pytest.mark.parametrize("text", ["", "m", "-1", "1w", "1.5h"])
def test_what_is_no_time_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="15m"):
        parse_duration(text, "--older-than")


def test_where_nothing_is_open_there_is_nothing_to_show(cluster: Cluster, ottla: Ottla) -> None:
    assert ottla("txn", "producers", "orders").stdout == ""
    assert ottla("txn", "find-hanging").stdout == ""
    assert ottla("txn", "find-hanging", "--topic", "orders:1", "--broker", "1", "--json").stdout == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["list", "--state", "open"], "PrepareCommit"),
        (["list", "--older-than", "soon"], "--older-than"),
        (["find-hanging", "--max-timeout", "x"], "--max-timeout"),
        (["producers", "orders:one"], "TOPIC:PARTITION"),
        (["abort"], "--start-offset"),
        (["abort", "--topic", "orders:0"], "--start-offset"),
        (["abort", "--id", "billing", "--topic", "orders:0"], "instead"),
        (["abort", "--topic", "orders", "--start-offset", "1", "--yes"], "TOPIC:PARTITION"),
        (["abort", "--topic", "orders:0", "--start-offset", "1"], "--yes"),
        (["abort", "--topic", "orders:0", "--start-offset", "1", "--yes"], "none is open"),
    ],
    ids=" ".join,
)
def test_a_mistake_is_named(ottla: Ottla, arguments: list[str], said: str) -> None:
    assert said in ottla("txn", *arguments, code=2).stderr


def test_an_unknown_topic_is_named_with_the_one_that_was_meant(ottla: Ottla) -> None:
    result = ottla("txn", "producers", "ordres", code=1)
    assert "did you mean orders?" in result.stderr
