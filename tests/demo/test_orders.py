"""The shop's orders."""

from __future__ import annotations

from demo.orders import COUNTRIES, CUSTOMERS, Order, Total, Window, order, revenue_from_json


def test_an_order_follows_from_its_number() -> None:
    assert order(7, at=5) == order(7, at=5)
    assert len({order(number, at=5).cents for number in range(100)}) > 50


def test_every_order_is_of_a_customer_and_costs_something() -> None:
    numbers = {number for number, _, _ in CUSTOMERS}
    placed = [order(number, at=0) for number in range(2_000)]
    assert {each.customer for each in placed} == numbers
    assert min(each.cents for each in placed) >= 100


def test_every_country_has_customers() -> None:
    assert {country for _, _, country in CUSTOMERS} == set(COUNTRIES)


def test_orders_come_back_from_json_as_they_were() -> None:
    placed = order(3, at=1_700_000_000_123)
    assert Order.from_json(placed.as_json()) == placed


def test_revenue_is_read_from_the_rows_that_the_job_writes() -> None:
    row = b'{"country":"Kenya","start":10000,"orders":3,"cents":450}'
    assert revenue_from_json(row) == (Window(10_000, "Kenya"), Total(3, 450))
