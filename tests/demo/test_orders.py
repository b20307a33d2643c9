"""The shop's orders."""

from __future__ import annotations

import pytest

from demo.orders import (
    COUNTRIES,
    MALFORMED_EVERY,
    SHOP,
    Customer,
    Order,
    Total,
    Window,
    is_malformed,
    order,
    revenue_from_json,
)


def test_an_order_follows_from_its_number() -> None:
    assert order(7, at=5) == order(7, at=5)
    assert len({order(number, at=5).cents for number in range(100)}) > 50


def test_every_order_is_of_a_customer_and_costs_something() -> None:
    placed = [order(number, at=0) for number in range(2_000)]
    assert {each.customer for each in placed} == {each.customer for each in SHOP}
    assert min(each.cents for each in placed) >= 100


def test_every_country_has_customers_and_the_first_has_most() -> None:
    customers = [sum(each.country == country for each in SHOP) for country in COUNTRIES]
    assert customers == sorted(customers, reverse=True)
    assert customers[-1] > 0


def test_customers_have_names_of_their_own() -> None:
    assert len({each.name for each in SHOP}) == len(SHOP)
    assert [each.customer for each in SHOP] == list(range(len(SHOP)))
    assert (
        Customer(3, "Ada Abe", "Kenya").as_json() == b'{"customer": 3, "name": "Ada Abe", "country": "Kenya"}'
    )


def test_orders_come_back_from_json_as_they_were() -> None:
    placed = order(3, at=1_700_000_000_123)
    assert Order.from_json(placed.as_json()) == placed


def test_some_orders_are_cut_off() -> None:
    assert [number for number in range(2 * MALFORMED_EVERY) if is_malformed(number)] == [
        MALFORMED_EVERY - 1,
        2 * MALFORMED_EVERY - 1,
    ]
    placed = order(MALFORMED_EVERY - 1, at=1_700_000_000_123)
    assert placed.as_json().startswith(placed.as_sent())
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        Order.from_json(placed.as_sent())


def test_revenue_is_read_from_the_rows_that_the_pipeline_writes() -> None:
    row = b'{"country":"Kenya","start":"1970-01-01T00:00:10.000Z","orders":3,"cents":450}'
    assert revenue_from_json(row) == (Window(10_000, "Kenya"), Total(3, 450))
