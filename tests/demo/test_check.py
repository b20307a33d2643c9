"""The check finds whatever does not add up."""

from __future__ import annotations

import json

import pytest

import ottla
from demo.check import Verdict, check, differences, expected
from demo.orders import CUSTOMERS, ORDERS, REVENUE, Order, Total, Window, order
from ottla.broker import Cluster

PLACED = [order(number, at=1_000 * number) for number in range(50)]
SUM = sum(each.cents for each in PLACED)

pytestmark = pytest.mark.kafka_cluster(topics={ORDERS: 3, REVENUE: 2})


def fill(kafka: Cluster, totals: list[tuple[Window, Total]], orders: list[Order] = PLACED) -> None:
    with ottla.Client(kafka.bootstrap) as client:
        for each in orders:
            client.produce(ORDERS, each.as_json(), key=str(each.customer).encode())
        for window, total in totals:
            row = {
                "country": window.country,
                "start": window.start,
                "orders": total.orders,
                "cents": total.cents,
            }
            key = f"{window.country} {window.start}".encode()
            client.produce(REVENUE, json.dumps(row).encode(), key=key)


def test_totals_that_agree_pass_and_of_a_key_the_last_one_counts(kafka: Cluster) -> None:
    right = expected(iter(PLACED))
    early = [(window, Total(0, 0)) for window in right]
    fill(kafka, [*early, *right.items()])
    assert check(kafka.bootstrap, len(PLACED), SUM) == Verdict(len(PLACED), SUM, len(right), [])


def test_an_order_that_was_lost_on_its_way_in_is_found(kafka: Cluster) -> None:
    arrived = PLACED[:-1]
    fill(kafka, list(expected(iter(arrived)).items()), arrived)
    (problem,) = check(kafka.bootstrap, len(PLACED), SUM).problems
    assert "50 orders" in problem


def test_an_order_that_was_summed_twice_is_found(kafka: Cluster) -> None:
    fill(kafka, list(expected(iter([*PLACED, PLACED[0]])).items()))
    (problem,) = check(kafka.bootstrap, len(PLACED), SUM).problems
    assert "Window(start=0, " in problem


def test_nothing_in_the_output_is_no_agreement(kafka: Cluster) -> None:
    fill(kafka, [])
    assert check(kafka.bootstrap, len(PLACED), SUM).problems


def test_windows_begin_at_whole_tens_of_seconds() -> None:
    country = CUSTOMERS[0][2]
    orders = [Order(1, 0, 5, 9_999), Order(2, 0, 7, 10_000), Order(3, 0, 1, 19_999)]
    assert expected(iter(orders)) == {Window(0, country): Total(1, 5), Window(10_000, country): Total(2, 8)}


def test_of_many_differences_the_first_few_are_shown() -> None:
    wanted = {Window(start, "Kenya"): Total(1, 1) for start in range(20)}
    told = differences(wanted, {})
    assert len(told) == 6
    assert told[0].startswith("Window(start=0, country='Kenya'): nothing is in 'revenue'")
    assert told[-1] == "and 15 more"
