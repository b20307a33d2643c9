"""The process that places orders, so many a second, and says how many the brokers have acknowledged.

    {"event": "orders", "sent": 4100, "acked": 4050}      several times a second
    {"event": "placed", "orders": 60000, "malformed": 120}    its last words: every order is acknowledged

`sent` is said before the orders are handed to the client, so that no reader is ever ahead of it.
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Callable

import ottla
from demo.children import say
from demo.orders import ORDERS, is_malformed, order
from ottla._native.deliveries import Delivery

_STEP_S = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m demo.producer", description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--orders", type=int, required=True)
    parser.add_argument("--rate", type=int, required=True, help="orders a second")
    options = parser.parse_args()
    with ottla.Client(options.bootstrap, client_id="shop", acks="all") as kafka:
        malformed = place(kafka, options.orders, options.rate, _report)
    # Behind the `with`: every order has been acknowledged.
    say("placed", orders=options.orders, malformed=malformed)


def _report(sent: int, acked: int) -> None:
    say("orders", sent=sent, acked=acked)


def place(
    kafka: ottla.Client, count: int, rate: int, report: Callable[[int, int], None] = lambda sent, acked: None
) -> int:
    """Sends the orders at a steady pace; returns how many of them were malformed on purpose."""
    sent = acked = malformed = 0
    begin = time.monotonic()
    pending: deque[tuple[int, Delivery]] = deque()
    while acked < count:
        due = min(count, int((time.monotonic() - begin + _STEP_S) * rate))
        at = time.time_ns() // 1_000_000
        report(max(sent, due), acked)
        for number in range(sent, due):
            placed = order(number, at)
            malformed += is_malformed(number)
            pending.append((number, kafka.produce(ORDERS, placed.as_sent(), key=placed.key)))
        sent = max(sent, due)
        while pending and pending[0][1].done():
            number, delivery = pending.popleft()
            delivery.result(timeout=0)
            acked = number + 1
        time.sleep(_STEP_S)
    report(sent, acked)
    return malformed


if __name__ == "__main__":
    main()
