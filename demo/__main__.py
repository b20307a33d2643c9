"""Runs the demo: starts the processes, shows what they do, breaks some of it, and has the result proved.

The exit code is 0 only when the proof holds, and every fault has hit.
"""

from __future__ import annotations

import argparse
import io
import logging
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import ottla
from demo.check import CheckError, check
from demo.children import Child, ChildError, child
from demo.conductor import Conductor
from demo.frame import Frame, Mood, State
from demo.orders import CUSTOMERS, SHOP
from demo.revenue import RevenueReader, reading
from demo.view import View, conclude, opened
from ottla.errors import KafkaError
from tools.preflight import check_java

_PACE_S = 0.125
_LIMIT_S = 300.0
"""No phase takes as long by itself, beyond the time that the orders need."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__.partition("\n")[0])
    parser.add_argument("--orders", type=int, default=45_000, help="how many (default: 45,000)")
    parser.add_argument("--rate", type=int, default=1_500, help="orders a second (default: 1,500)")
    parser.add_argument("--no-faults", action="store_true", help="kill nothing")
    options = parser.parse_args()
    if options.orders < 1 or options.rate < 1:
        parser.error("--orders and --rate must be at least 1")
    if (problem := check_java()) is not None:
        print(f"demo: {problem}", file=sys.stderr)
        return 1
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a sum of money is no reason to fail
    # What the demo's own clients have to say of a broker that is gone would be written across the screen.
    logging.getLogger("ottla").addHandler(logging.NullHandler())
    logging.getLogger("ottla").propagate = False
    # As Ctrl-C: what was started is ended on the way out, also when the terminal is closed.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        return run(options.orders, options.rate, faults=not options.no_faults)
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except (ChildError, CheckError, KafkaError, TimeoutError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def run(orders: int, rate: int, *, faults: bool) -> int:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-demo-")))
        # The screen is left before processes are ended, which takes a moment.
        with opened() as view:
            last = Demo(stack, folder, view, State(orders, rate, faults)).run()
        conclude(last)
    return 0 if last.phase == "passed" else 1


class Demo:
    """One run; what it starts is ended by `stack`."""

    def __init__(self, stack: ExitStack, folder: Path, view: View, state: State) -> None:
        self._stack = stack
        self._folder = folder
        self._view = view
        self._state = state
        self._conductor = Conductor(state.of, state.rate, faults=state.faults)
        self._children: dict[str, Child] = {}
        self._revenue: RevenueReader | None = None
        self._began = time.monotonic()

    def run(self) -> Frame:
        bootstrap = self._start_cluster()
        self._start_spark(bootstrap)
        self._let_orders_flow(bootstrap)
        self._let_spark_finish()
        return self._check(bootstrap)

    def _start_cluster(self) -> str:
        self._note("three brokers and Spark are started")
        self._show()
        self._start("job", f"--folder={self._folder / 'spark'}")
        self._start("cluster", f"--data-dir={self._folder / 'brokers'}")
        self._until(lambda: len(self._state.nodes) > 0, "the brokers")
        bootstrap = self._state.bootstrap
        with ottla.Client(bootstrap) as kafka:
            for customer in SHOP:
                kafka.produce(CUSTOMERS, customer.as_json(), key=str(customer.customer).encode())
        self._note("three brokers run: three replicas of each record, two have to have it")
        return bootstrap

    def _start_spark(self, bootstrap: str) -> None:
        began, waiting_for = self._state.began, self._state.waiting_for
        self._state.enter("spark", began)
        self._state.waiting_for = waiting_for
        self._children["job"].tell(f"start {bootstrap}")
        self._until(lambda: self._state.ready, "Spark's first micro-batches")
        self._note(f"Spark is ready after {self._now:.0f} s: orders begin to flow", "mended")

    def _let_orders_flow(self, bootstrap: str) -> None:
        self._state.enter("flow", self._now)
        self._revenue = self._stack.enter_context(reading(bootstrap))
        sizes = (f"--orders={self._state.of}", f"--rate={self._state.rate}")
        self._start("producer", f"--bootstrap={bootstrap}", *sizes)
        self._until(lambda: self._state.placed, "all orders to be acknowledged")
        self._note(f"all {self._state.of:,} orders are acknowledged")

    def _let_spark_finish(self) -> None:
        self._state.enter("finish", self._now)
        self._until(lambda: self._conductor.is_done, "the last fault to be mended")
        self._until(lambda: self._state.all_is_written(self._now), "Spark to write all that came in")
        job = self._children["job"]
        job.finish()
        self._until(lambda: not job.running(), "Spark to end")
        self._note("Spark has written all that came in, and has ended")

    def _check(self, bootstrap: str) -> Frame:
        state = self._state
        state.enter("check", self._now)

        def report(records: int) -> None:
            state.checked = records

        with ThreadPoolExecutor(1) as pool:
            checking = pool.submit(check, bootstrap, range(state.of), report)
            self._until(checking.done, "the check")
        verdict = checking.result()
        if self._conductor.missed:
            verdict = replace(verdict, problems=(*verdict.problems, "a fault has hit nothing"))
        state.verdict = verdict
        state.enter("failed" if verdict.problems else "passed", self._now)
        return self._show()

    # The loop

    def _start(self, name: str, *arguments: str) -> Child:
        started = self._stack.enter_context(child(self._folder, f"demo.{name}", *arguments))
        self._children[name] = started
        return started

    def _until(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = self._now + _LIMIT_S + 3 * self._state.of / self._state.rate
        while not is_so():
            if self._now > deadline:
                raise TimeoutError(f"{what} did not come within {_LIMIT_S:.0f} s: {self._state.counts}")
            self._turn()
            time.sleep(_PACE_S)
        self._turn()

    def _turn(self) -> None:
        for each in self._children.values():
            for message in each.news():
                if message["event"] == "failed":
                    raise ChildError(message["why"])
                self._state.hear(message, self._now)
                self._conductor.hear(message, self._state, self._now)
        for command in self._conductor.advance(self._state, self._now):
            self._children[command.child].tell(command.text)
        if self._revenue is not None:
            self._state.revenue = self._revenue.by_country()
        self._show()

    def _show(self) -> Frame:
        frame = self._state.frame(self._now)
        self._view.show(frame)
        return frame

    def _note(self, text: str, mood: Mood = "plain") -> None:
        self._state.note(self._now, text, mood)

    @property
    def _now(self) -> float:
        return time.monotonic() - self._began


if __name__ == "__main__":
    sys.exit(main())
