"""examples/revenue: orders that come out of order, some too late, some unreadable, and what they add up to.

A portion is of so short a time that whichever part of it a micro-batch leaves to the next is not late then.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from tests.interop.pipelines.example import Example, Feed, Row, interleaved

_START: Final = datetime(2026, 5, 1, 12, tzinfo=UTC)
_WINDOW_S: Final = 60
_DELAY_S: Final = 60
_COUNTRIES: Final = ("Austria", "Brazil", "Česko", "Kenya")
_CUSTOMERS: Final = 24
_DELETED: Final = (5, 17)
_UNHEARD_OF: Final = 99
_NEW: Final = 50
"""A customer that is there from the last portion on."""
_SPANS: Final = ((0, 300), (290, 330), (320, 360), (350, 390))
"""Of each portion, in seconds from the start. The first is read in one micro-batch."""
_ORDERS: Final = (400, 150, 150, 150)


class Order(NamedTuple):
    """`at` is in tenths of a second from the start."""

    id: int
    customer: int
    cents: int
    at: int

    def feed(self) -> Feed:
        at = (_START + timedelta(seconds=self.at / 10)).isoformat(timespec="milliseconds")
        return _record("orders", self.id, {**self._asdict(), "at": at.replace("+00:00", "Z")})


def _record(topic: str, key: int, value: object) -> Feed:
    text = None if value is None else json.dumps(value, ensure_ascii=False).encode()
    return Feed(topic, Row(b"%d" % key, text))


def example() -> Example:
    chance = random.Random(20260501)
    orders = [_orders(chance, portion) for portion in range(len(_SPANS))]
    unreadable = [list(_unreadable(chance, portion)) for portion in range(len(_SPANS))]
    # In windows that have come out in the first run: nothing is to be seen of them.
    late = [Order(9_000 + number, number, 1, number * 10) for number in range(3)]
    # An hour later, so that every window before it comes out; its own does not.
    closing = Order(9_999, 1, 1, 3_600 * 10)
    read = [
        list(interleaved(chance, [order.feed() for order in orders[number]], unreadable[number]))
        for number in range(len(_SPANS))
    ]
    newcomer = _record("customers", _NEW, {"customer": _NEW, "name": "new", "country": _COUNTRIES[0]})
    last = list(interleaved(chance, read[3], [order.feed() for order in late]))
    return Example(
        name="revenue",
        topics={"orders": 3, "customers": 1, "revenue": 2, "orders-dead": 1},
        portions=(
            (list(_customers()), read[0]),
            (read[1],),
            (read[2],),
            # No order is left to a later micro-batch than the one that makes it late.
            ([newcomer], last, [closing.feed()]),
        ),
        expected={
            "revenue": totals([order for portion in orders for order in portion]),
            "orders-dead": [feed.row for portion in unreadable for feed in portion],
        },
        in_order=False,
        dead_letters="orders-dead",
    )


def _customers() -> Iterator[Feed]:
    """Some have moved, some are deleted."""
    for number in range(_CUSTOMERS):
        if number % 3 == 0:
            yield _record("customers", number, {"customer": number, "name": "old", "country": "Atlantis"})
        value = {"customer": number, "name": f"customer {number}", "country": _country(number)}
        yield _record("customers", number, value)
    for number in _DELETED:
        yield _record("customers", number, None)


def _country(customer: int) -> str:
    if customer == _NEW:
        return _COUNTRIES[0]
    return _COUNTRIES[customer % 4] if customer in set(range(_CUSTOMERS)) - {*_DELETED} else "unknown"


def _orders(chance: random.Random, portion: int) -> list[Order]:
    begin, end = _SPANS[portion]
    customers = [*range(_CUSTOMERS), _UNHEARD_OF, *([_NEW] if portion == 3 else [])]
    return [
        Order(
            portion * 1_000 + number,
            chance.choice(customers),
            chance.randrange(-500, 20_000),
            chance.randrange(begin * 10, end * 10),
        )
        for number in range(_ORDERS[portion])
    ]


def _unreadable(chance: random.Random, portion: int) -> Iterator[Feed]:
    begin, end = _SPANS[portion]
    at = (_START + timedelta(seconds=chance.randrange(begin, end))).isoformat()
    values = (
        b"no JSON",
        b"\xff\xfe\x00",
        b'{"id": 1, "customer": 2, "cents": 3, "at"',
        json.dumps({"id": 1, "customer": 1, "cents": "a lot", "at": at}).encode(),
        json.dumps({"id": 1, "customer": [1], "cents": 5, "at": at}).encode(),
        # Its time can be read, and would close every window.
        b'{"id": "one", "customer": 1, "cents": 5, "at": "2999-01-01T00:00:00Z"}',
    )
    for number, value in enumerate(values):
        yield Feed("orders", Row(b"unreadable-%d-%d" % (portion, number), value))


def totals(orders: Sequence[Order]) -> list[Row]:
    """A row for each country and window; all orders are in time for theirs."""
    count, cents = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    for order in orders:
        window = _country(order.customer), order.at // 10 // _WINDOW_S
        count[window] += 1
        cents[window] += order.cents
    return [
        _total(country, window, count[country, window], cents[country, window]) for country, window in count
    ]


def _total(country: str, window: int, orders: int, cents: int) -> Row:
    start = (_START + timedelta(seconds=window * _WINDOW_S)).isoformat(timespec="milliseconds")
    value = {"country": country, "start": start.replace("+00:00", "Z"), "orders": orders, "cents": cents}
    return Row(country.encode(), json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())
