"""The shop: its customers, its orders, and what its topics and pipelines are called.

Orders follow from their number alone, and money is whole cents, so that two programs that add them up in different
orders must agree to the last cent. Every `MALFORMED_EVERY`th order is cut off in the middle of its JSON: no pipeline
may stop at it, and none may lose it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ORDERS = "orders"
CUSTOMERS = "customers"
ENRICHED = "enriched"
DEAD = "orders-dead"
REVENUE = "revenue"
TOPICS = {ORDERS: 4, CUSTOMERS: 1, ENRICHED: 4, DEAD: 1, REVENUE: 2}
"""And how many partitions each has."""
PIPELINES = tuple(Path(__file__).with_name(f"{name}.toml") for name in ("enrich", "revenue"))
"""From orders to enriched ones, and from those to revenue."""
WINDOW_MS = 10_000
MALFORMED_EVERY = 500

COUNTRIES = ("Austria", "Brazil", "Canada", "France", "Germany", "Italy", "Japan", "Kenya")
_FIRST = (
    *("Ada", "Bruno", "Chen", "Dora", "Emil", "Fatima", "Goran", "Hana", "Ivan", "Jin"),
    *("Kofi", "Lea", "Mina", "Noor", "Olga", "Pablo", "Rosa", "Sven", "Tara", "Uma"),
)
_LAST = ("Abe", "Berg", "Costa", "Diaz", "Evans", "Ferrari", "Gruber", "Haas", "Ito", "Juma")


@dataclass(frozen=True, slots=True)
class Customer:
    """One of the rows of the topic that orders are joined with."""

    customer: int
    name: str
    country: str

    def as_json(self) -> bytes:
        return json.dumps({"customer": self.customer, "name": self.name, "country": self.country}).encode()


# Shared out unevenly: the first countries have more customers than the last.
_COUNTRY_OF = [country for place, country in enumerate(COUNTRIES) for _ in range(len(COUNTRIES) - place)]
SHOP = tuple(
    Customer(number, f"{first} {last}", _COUNTRY_OF[number * 7 % len(_COUNTRY_OF)])
    for number, (first, last) in enumerate((first, last) for first in _FIRST for last in _LAST)
)
"""All customers, by their numbers."""


@dataclass(frozen=True, slots=True)
class Order:
    """`at` is when it was placed, in milliseconds since 1970."""

    id: int
    customer: int
    cents: int
    at: int

    @property
    def key(self) -> bytes:
        return str(self.customer).encode()

    def as_json(self) -> bytes:
        at = datetime.fromtimestamp(self.at / 1000, UTC).isoformat(timespec="milliseconds")
        row = {"id": self.id, "customer": self.customer, "cents": self.cents, "at": at.replace("+00:00", "Z")}
        return json.dumps(row).encode()

    def as_sent(self) -> bytes:
        """What the producer makes of it: its JSON, or the beginning of that."""
        whole = self.as_json()
        return whole[: len(whole) // 2] if is_malformed(self.id) else whole

    @classmethod
    def from_json(cls, value: bytes) -> Order:
        """ValueError if it is cut off."""
        row = json.loads(value)
        return cls(row["id"], row["customer"], row["cents"], milliseconds(row["at"]))


def order(number: int, at: int) -> Order:
    scattered = number * 2_654_435_761 % 2**32
    return Order(number, scattered % len(SHOP), 100 + scattered // 7 % 20_000, at)


def is_malformed(number: int) -> bool:
    return number % MALFORMED_EVERY == MALFORMED_EVERY - 1


def milliseconds(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


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

    @classmethod
    def of(cls, order: Order) -> Window:
        return cls(order.at - order.at % WINDOW_MS, SHOP[order.customer].country)


def revenue_from_json(value: bytes) -> tuple[Window, Total]:
    row = json.loads(value)
    return Window(milliseconds(row["start"]), row["country"]), Total(row["orders"], row["cents"])


def money(cents: int) -> str:
    return f"€{cents / 100:,.2f}"
