"""The comparison that the examples are judged by finds what it is there to find, through a broker too."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.interop.brokers import Broker
from tests.interop.confluent import produce_transactions
from tests.interop.pipelines import changes, revenue
from tests.interop.pipelines.comparison import differences
from tests.interop.pipelines.example import Example, Row
from tests.interop.pipelines.runs import read

EXAMPLES = [revenue.example(), changes.example()]
Damage = Callable[[list[Row]], list[Row]]

DAMAGES: dict[str, tuple[Damage, set[str]]] = {
    "lost": (lambda rows: rows[1:], {"lost"}),
    "doubled": (lambda rows: [*rows, rows[0]], {"doubled"}),
    "micro-batch doubled": (lambda rows: [*rows, *rows[len(rows) // 2 :]], {"doubled"}),
    "micro-batch lost": (lambda rows: rows[: len(rows) // 2], {"lost"}),
    "wrong value": (lambda rows: [Row(rows[0].key, b"wrong"), *rows[1:]], {"lost", "foreign"}),
    "no value": (lambda rows: [Row(rows[0].key, None), *rows[1:]], {"lost", "foreign"}),
    "wrong key": (lambda rows: [Row(b"wrong", rows[0].value), *rows[1:]], {"lost", "foreign"}),
    "all lost": (lambda rows: [], {"lost"}),
}


def faults(told: Sequence[str]) -> set[str]:
    return {each.split(": ")[1] for each in told}


def found_in(example: Example, topic: str, damage: Damage) -> list[str]:
    found = {name: list(rows) for name, rows in example.expected.items()}
    found[topic] = damage(found[topic])
    return differences(example.expected, found, in_order=example.in_order)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.name)
def test_what_had_to_come_out_is_no_difference(example: Example) -> None:
    assert differences(example.expected, example.expected, in_order=example.in_order) == []


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.name)
def test_damage_is_found_in_every_topic_that_an_example_writes_to(example: Example, damage: str) -> None:
    do, named = DAMAGES[damage]
    for topic in example.expected:
        told = found_in(example, topic, do)
        assert faults(told) == named
        assert all(each.startswith(f"{topic}: ") for each in told)


def test_two_changes_of_an_account_in_the_wrong_order_are_found() -> None:
    example = changes.example()

    def swapped(rows: list[Row]) -> list[Row]:
        other = next(number for number, row in enumerate(rows) if number and row.key == rows[0].key)
        rows[0], rows[other] = rows[other], rows[0]
        return rows

    assert faults(found_in(example, "changes-once", swapped)) == {"out of order"}


def test_the_order_of_different_keys_is_no_difference() -> None:
    example = changes.example()
    by_account = sorted(example.expected["changes-once"], key=lambda row: row.key or b"")
    assert found_in(example, "changes-once", lambda rows: by_account) == []


def test_a_topic_that_was_not_read_is_no_topic_without_a_difference() -> None:
    example = revenue.example()
    with pytest.raises(AssertionError):
        differences(example.expected, {"revenue": example.expected["revenue"]}, in_order=False)


def test_rows_of_aborted_transactions_do_not_count_and_those_of_a_second_commit_do(broker: Broker) -> None:
    topic = broker.create_topic()
    transactions = [([b"1", b"2"], True), ([b"2", b"3"], False), ([b"2"], True)]
    produce_transactions(broker.bootstrap, topic, transactions)
    due = {topic: [Row(None, value) for value in (b"1", b"2", b"3")]}
    told = differences(due, read(broker.bootstrap, [topic]), in_order=False)
    assert told == [
        f"{topic}: lost: {Row(None, b'3')} (1 times)",
        f"{topic}: doubled: {Row(None, b'2')} (1 times)",
    ]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.name)
def test_an_example_is_no_easy_one(example: Example) -> None:
    """Every portion has something to read, and more goes in than comes out."""
    assert all(sum(map(len, portion)) > 100 for portion in example.portions)
    assert all(len(rows) > 20 for rows in example.expected.values())
