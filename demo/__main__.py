"""Runs the demo: starts the processes, shows what they do, has the result checked, and ends them.

The exit code is 0 only when the check has found that everything agrees.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import ottla
from demo.check import check
from demo.children import Child, ChildError, child
from demo.orders import ORDERS, REVENUE, revenue_from_json
from demo.view import State, View, money, opened
from ottla.errors import KafkaError
from tools.preflight import check_java

_START_S = 60.0
_LIMIT_S = 600.0
"""A pipeline that is not through by then never will be."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__.partition("\n")[0])
    parser.add_argument("--orders", type=int, default=60_000, help="how many (default: 60,000)")
    parser.add_argument("--rate", type=int, default=1_500, help="orders a second (default: 1,500)")
    options = parser.parse_args()
    if options.orders < 1 or options.rate < 1:
        parser.error("--orders and --rate must be at least 1")
    if (problem := check_java()) is not None:
        print(f"demo: {problem}", file=sys.stderr)
        return 1
    # As Ctrl-C: what was started is ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        return run(options.orders, options.rate)
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except (ChildError, KafkaError, TimeoutError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def run(orders: int, rate: int) -> int:
    began = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-demo-")))
        bootstrap = _start_broker(stack, folder)
        print(f"demo: a Kafka of its own at {bootstrap}; {orders:,} orders, {rate:,} a second", flush=True)
        where = f"--bootstrap={bootstrap}"
        job = stack.enter_context(child(folder, "demo.job", where, f"--checkpoint={folder / 'checkpoint'}"))
        shop = stack.enter_context(
            child(folder, "demo.producer", where, f"--orders={orders}", f"--rate={rate}")
        )
        with opened() as view:
            _watch(bootstrap, shop, job, State(of=orders), view)
        passed = _judge(bootstrap, json.loads(shop.lines[-1]))
    print(f"demo: {'passed' if passed else 'FAILED'}, after {time.monotonic() - began:.0f} s")
    return 0 if passed else 1


def _start_broker(stack: ExitStack, folder: Path) -> str:
    topics = ("--topic", f"{ORDERS}:4", "--topic", f"{REVENUE}:2")
    broker = stack.enter_context(child(folder, "ottla.broker", "--port", "0", *topics))
    return broker.first_line(_START_S)


def _watch(bootstrap: str, shop: Child, job: Child, state: State, view: View) -> None:
    """Shows what is in the topics until both processes are done: the producer first, then Spark with the rest."""
    deadline = time.monotonic() + _LIMIT_S
    with ottla.Client(bootstrap) as kafka, kafka.consume(REVENUE, start="earliest") as revenue:
        while job.running():
            if not shop.running():
                job.finish()
            for record in revenue.poll(max_records=10_000, timeout=0.2):
                state.totals.update([revenue_from_json(record.value)])
            state.orders = sum(end.offset or 0 for end in kafka.admin.list_offsets(ORDERS).values())
            if job.lines:
                state.batches, state.batch_ms = len(job.lines), json.loads(job.lines[-1])["ms"]
            view.show(state)
            if time.monotonic() > deadline:
                raise TimeoutError(f"not done after {_LIMIT_S:.0f} s: {state}")
        for record in kafka.consume(REVENUE, start="earliest", stop="latest"):
            state.totals.update([revenue_from_json(record.value)])
        view.show(state, final=True)


def _judge(bootstrap: str, sent: dict[str, int]) -> bool:
    verdict = check(bootstrap, sent["orders"], sent["cents"])
    for problem in verdict.problems:
        print(f"check: {problem}")
    if not verdict.problems:
        print(
            f"check: confluent-kafka read {verdict.orders:,} orders of {money(verdict.cents)} and "
            f"{verdict.totals} totals: they agree to the cent"
        )
    return not verdict.problems


if __name__ == "__main__":
    sys.exit(main())
