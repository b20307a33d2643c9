"""`ottla txn`: what it says is so, and what it does is done. What hangs is in tests/interop/transactions."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import typer

from ottla.broker import Cluster
from ottla.cli.txn import parse_duration
from ottla.client.blocking.client import Client
from tests.cli.conftest import Ottla


@pytest.fixture
def billing(cluster: Cluster) -> Iterator[Client]:
    """A client whose transaction has a record in the last partition."""
    with Client(cluster.bootstrap, transactional_id="billing-1") as client:
        client.begin_transaction()
        client.produce("orders", b"1", partition=2)
        client.flush()
        yield client


def rows(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


def test_transactions_are_listed_in_columns_or_as_json(billing: Client, ottla: Ottla) -> None:
    (row,) = rows(ottla("txn", "list", "--state", "ongoing").stdout)
    assert row[:2] == ["billing-1", "Ongoing"]
    assert row[3] in ("1", "2")
    listed = json.loads(ottla("txn", "list", "--pattern", "billing-.*", "--json").stdout)
    assert (listed["id"], listed["state"], str(listed["producer_id"])) == ("billing-1", "Ongoing", row[2])
    assert ottla("txn", "list", "--older-than", "1h").stdout == ""
    assert ottla("txn", "list", "--producer-id", "999999").stdout == ""


def test_a_transaction_is_described_with_its_producer_and_partitions(billing: Client, ottla: Ottla) -> None:
    (row,) = rows(ottla("txn", "describe", "billing-1").stdout)
    assert row[:2] + row[3:4] + row[7:] == ["billing-1", "Ongoing", "0", "orders:2"]
    (producer,) = rows(ottla("txn", "producers", "orders", "--open").stdout)
    assert producer[:5] + producer[6:] == ["orders", "2", row[2], "0", "0", "-", "0"]
    assert ottla("txn", "find-hanging", "--max-timeout", "0").stdout == "", "its coordinator knows it"
    said = ottla("txn", "describe", "billing", code=1).stderr
    assert "there is no transactional id billing: did you mean billing-1?" in said


def test_a_transaction_is_aborted_by_its_id_once_that_is_confirmed(billing: Client, ottla: Ottla) -> None:
    assert "--yes" in ottla("txn", "abort", "--id", "billing-1", code=2).output
    assert rows(ottla("txn", "list").stdout)[0][1] == "Ongoing"
    assert ottla("txn", "abort", "--id", "billing-1", "--yes").stderr == "aborted billing-1\n"
    assert rows(ottla("txn", "list").stdout)[0][1] == "Empty"
    assert ottla("txn", "producers", "orders", "--open").stdout == ""
    assert "there is no transactional id" in ottla("txn", "abort", "--id", "other", "--yes", code=1).stderr


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


def test_an_unknown_broker_is_named_with_those_that_there_are(ottla: Ottla) -> None:
    for command in (("producers", "orders"), ("find-hanging",), ("find-hanging", "--topic", "orders")):
        assert "no broker with id 9 is" in ottla("txn", *command, "--broker", "9", code=1).stderr


def test_an_unknown_topic_is_named_with_the_one_that_was_meant(ottla: Ottla) -> None:
    result = ottla("txn", "producers", "ordres", code=1)
    assert "did you mean orders?" in result.stderr
