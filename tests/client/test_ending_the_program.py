"""What a program's own code raises to end it, in a callback, a hook or an interceptor on the client's loop.

It reaches the thread that runs the loop, between two callbacks: the client is as usable as before, every other
receipt has its outcome, and nothing waits for what was interrupted.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow
import pytest

import ottla
from ottla.broker import AsyncCluster, Cluster
from ottla.hooks import HOOK_NAMES, ProducerInterceptor
from tests.client.test_closing import program

Raise = Callable[..., None]

# Called by the thread that produces or reads, to which it is raised at once; or behind the end.
NOT_ON_THE_LOOP = {"on_record_buffered", "on_fetch_taken", "on_client_closed"}
# Nothing in these tests makes it happen.
NOT_SEEN = {"on_broker_throttle", "on_batch_failed", "on_position_reset", "on_broker_disconnect"} | {
    # A group's, which none of these programs has.
    "on_partitions_assigned",
    "on_partitions_revoked",
    "on_offsets_committed",
}
HOOKS = [name for name in HOOK_NAMES if name not in NOT_ON_THE_LOOP | NOT_SEEN]
PLACES = ["delivery", "table", "interceptor", *HOOKS]
OTHERS = [KeyboardInterrupt, asyncio.CancelledError, ValueError]
CASES: list[tuple[str, type[BaseException]]] = [
    *((place, SystemExit) for place in PLACES),
    *(
        (place, kind)
        for kind in OTHERS
        for place in ("delivery", "table", "interceptor", "on_batch_acknowledged")
    ),
]


class Once:
    """Raises the first time that it is called."""

    def __init__(self, error: BaseException) -> None:
        self._error: BaseException | None = error
        self.was_called = threading.Event()

    def __call__(self, *_: object) -> None:
        error, self._error = self._error, None
        if error is not None:
            self.was_called.set()
            raise error


class Intercepts(ProducerInterceptor):
    def __init__(self, function: Once) -> None:
        self._function = function

    def on_acknowledgement(self, delivery: object) -> None:
        self._function()


class Listens:
    def __init__(self, name: str, function: Once) -> None:
        setattr(self, name, function)


def options(place: str, once: Once) -> dict[str, Any]:
    given: dict[str, Any] = {"linger_ms": 0, "retry_backoff_ms": 1}
    if place == "interceptor":
        given["interceptors"] = [Intercepts(once)]
    elif place.startswith("on_"):
        given["hooks"] = [Listens(place, once)]
    return given


def ends_programs(error: BaseException) -> bool:
    return isinstance(error, SystemExit | KeyboardInterrupt)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(topics={"orders": 3}) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a receipt's callback raises is told here, and would fail the test."""
    monkeypatch.setattr("sys.unraisablehook", lambda _: None)


@pytest.mark.parametrize(("place", "kind"), CASES)
def test_a_blocking_client_raises_it_once_and_goes_on(
    cluster: Cluster, place: str, kind: type[BaseException]
) -> None:
    error = kind(3)
    once = Once(error)
    raised: list[BaseException] = []

    def until_done(call: Callable[[], Any]) -> Any:
        while True:
            try:
                return call()
            except (SystemExit, KeyboardInterrupt) as caught:
                raised.append(caught)

    kafka: ottla.Client = until_done(lambda: ottla.Client(cluster.bootstrap, **options(place, once)))
    deliveries: list[Any] = []
    for number in range(6):
        try:
            deliveries.append(kafka.produce("orders", b"%d" % number, partition=number % 3))
        except (SystemExit, KeyboardInterrupt) as caught:
            # It has been appended: what was raised came behind that.
            raised.append(caught)
        if place == "delivery" and number == 0:
            deliveries[0].add_done_callback(once)
    if place == "table":
        # At once, if it is done already.
        table = kafka.produce_batch("orders", pyarrow.table({"value": [b"row"]}))
        deliveries.append(table)
        try:
            table.add_done_callback(once)
        except (SystemExit, KeyboardInterrupt) as caught:
            raised.append(caught)
    until_done(lambda: kafka.flush(timeout=30))
    assert all(each.done() and each.error is None for each in deliveries)
    consumer = until_done(lambda: kafka.consume("orders", start="earliest"))
    read: list[Any] = []
    while len(read) < 6 + (place == "table"):
        read += until_done(lambda: consumer.poll(timeout=30))
    until_done(consumer.close)
    try:
        kafka.close()
    except (SystemExit, KeyboardInterrupt) as caught:
        raised.append(caught)
    assert once.was_called.is_set()
    assert raised == ([error] if ends_programs(error) else [])
    assert len(cluster.dump("orders")) == len(read)


@pytest.mark.parametrize(("place", "kind"), CASES)
def test_an_asynchronous_client_raises_it_out_of_the_loop_which_can_be_run_again(
    place: str, kind: type[BaseException]
) -> None:
    error = kind(3)
    once = Once(error)

    async def body() -> None:
        async with (
            AsyncCluster(topics={"orders": 3}) as cluster,
            ottla.AsyncClient(cluster.bootstrap, **options(place, once)) as kafka,
        ):
            deliveries: list[Any] = []
            for number in range(6):
                delivery = await kafka.produce("orders", b"%d" % number, partition=number % 3)
                if place == "delivery" and number == 0:
                    delivery.add_done_callback(once)
                deliveries.append(delivery)
            if place == "table":
                table = await kafka.produce_batch("orders", pyarrow.table({"value": [b"row"]}))
                table.add_done_callback(once)
                deliveries.append(table)
            await kafka.flush(timeout=30)
            assert all(each.done() and each.error is None for each in deliveries)
            async with kafka.consume("orders", start="earliest", stop="latest") as consumer:
                assert len([record async for record in consumer]) == len(deliveries)

    raised: list[BaseException] = []
    loop = asyncio.new_event_loop()
    try:
        task = loop.create_task(body())
        while not task.done():
            try:
                loop.run_until_complete(task)
            except (SystemExit, KeyboardInterrupt) as caught:
                raised.append(caught)
    finally:
        loop.close()
    assert once.was_called.is_set()
    assert raised == ([error] if ends_programs(error) else [])


def test_a_callback_for_what_is_done_already_raises_to_whoever_gives_it(cluster: Cluster) -> None:
    with ottla.Client(cluster.bootstrap) as kafka:
        delivery = kafka.produce("orders", b"1").result(timeout=30)
        table = kafka.produce_batch("orders", pyarrow.table({"value": [b"2"]})).result(timeout=30)
        with pytest.raises(SystemExit):
            delivery.add_done_callback(Once(SystemExit(3)))
        with pytest.raises(SystemExit):
            table.add_done_callback(Once(SystemExit(3)))


def test_what_other_callbacks_wait_for_comes_behind_one_that_ends_the_program(cluster: Cluster) -> None:
    """All callbacks of a batch, and of every batch of an answer, are called."""
    called: list[int] = []
    with ottla.Client(cluster.bootstrap, linger_ms=60_000) as kafka:
        deliveries = [kafka.produce("orders", b"%d" % number, partition=number % 3) for number in range(9)]
        deliveries[0].add_done_callback(Once(SystemExit(3)))
        for number, delivery in enumerate(deliveries):
            delivery.add_done_callback(partial(_append, called, number))
        with pytest.raises(SystemExit):
            kafka.flush(timeout=30)
        kafka.flush(timeout=30)
    assert sorted(called) == list(range(9))


def _append(called: list[int], number: int, _: object) -> None:
    called.append(number)


BEGIN = """
        cluster = Cluster(topics=["orders"])
        cluster.start()

        def ends(_):
            called.set()
            sys.exit(3)

        called = threading.Event()
"""


@pytest.mark.parametrize(
    "rest",
    [
        """
        with ottla.Client(cluster.bootstrap) as kafka:
            kafka.produce("orders", b"1").add_done_callback(ends)
            kafka.flush()
            print("not reached")
        """,
        """
        with ottla.Client(cluster.bootstrap) as kafka:
            kafka.produce("orders", b"1").add_done_callback(ends)
            assert called.wait(30)
            kafka.produce("orders", b"2")
        print("not reached")
        """,
        """
        kafka = ottla.Client(cluster.bootstrap)
        kafka.produce("orders", b"1").add_done_callback(ends)
        for record in kafka.consume("orders"):
            print("not reached")
        """,
        """
        async def main():
            async with ottla.AsyncClient(cluster.bootstrap) as kafka:
                (await kafka.produce("orders", b"1")).add_done_callback(ends)
                await asyncio.Event().wait()

        asyncio.run(main())
        print("not reached")
        """,
    ],
    ids=["in a call", "in the background", "in an iteration", "asyncio"],
)
def test_a_program_ends_with_the_code_that_a_callback_gave(rest: str) -> None:
    done = program(BEGIN + rest)
    assert (done.returncode, done.stdout) == (3, "")
