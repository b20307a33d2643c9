"""The shop: its customers, its orders, and what the topics are called.

Orders follow from their number alone, and money is whole cents, so that two programs that add them up in different
orders must agree to the last cent.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

ORDERS = "orders"
REVENUE = "revenue"
ORDER_COLUMNS = "id bigint, customer int, cents bigint, at bigint"
WINDOW_MS = 10_000

COUNTRIES = ("Austria", "Brazil", "Canada", "France", "Germany", "Italy", "Japan", "Kenya")
CUSTOMERS = [(number, f"customer {number}", COUNTRIES[number * 7 % 8]) for number in range(200)]
"""Number, name and country; a few countries in a shop have more customers than others, but not here."""


@dataclass(frozen=True, slots=True)
class Order:
    """`at` is when it was placed, in milliseconds since 1970."""

    id: int
    customer: int
    cents: int
    at: int

    def as_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, value: bytes) -> Order:
        return cls(**json.loads(value))


def order(number: int, at: int) -> Order:
    scattered = number * 2_654_435_761 % 2**32
    return Order(number, scattered % len(CUSTOMERS), 100 + scattered // 7 % 20_000, at)


@dataclass(frozen=True, slots=True)
class Total:
    """What was sold in one window, to customers of one country."""

    orders: int
    cents: int

    def plus(self, cents: int) -> Total:
        return Total(self.orders + 1, self.cents + cents)


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """Where a total belongs; `start` is in milliseconds since 1970."""

    start: int
    country: str


def revenue_from_json(value: bytes) -> tuple[Window, Total]:
    row = json.loads(value)
    return Window(row["start"], row["country"]), Total(row["orders"], row["cents"])
