"""The process that places orders: so many a second, for so long. Its last words are what it has sent."""

from __future__ import annotations

import argparse
import json
import time

import ottla
from demo.orders import ORDERS, order

_STEP_S = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m demo.producer", description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--orders", type=int, required=True)
    parser.add_argument("--rate", type=int, required=True, help="orders a second")
    options = parser.parse_args()
    with ottla.Client(options.bootstrap, client_id="shop") as kafka:
        cents = place(kafka, options.orders, options.rate)
    # Behind the `with`: every order has been acknowledged.
    print(json.dumps({"orders": options.orders, "cents": cents}), flush=True)


def place(kafka: ottla.Client, count: int, rate: int) -> int:
    """Sends the orders at a steady pace, and returns what they come to."""
    cents = sent = 0
    begin = time.monotonic()
    while sent < count:
        due = min(count, int((time.monotonic() - begin + _STEP_S) * rate))
        at = time.time_ns() // 1_000_000
        for number in range(sent, due):
            placed = order(number, at)
            cents += placed.cents
            kafka.produce(ORDERS, placed.as_json(), key=str(placed.customer).encode())
        sent = max(sent, due)
        time.sleep(_STEP_S)
    return cents


if __name__ == "__main__":
    main()
