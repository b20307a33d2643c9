"""`Client`: the blocking twin. Threads, Ctrl-C, a loop around it, and the receipts' own way to wait."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow
import pytest

import ottla
from ottla.broker import Cluster, error, never
from ottla.errors import (
    ApiTimeoutError,
    BufferFullError,
    ClientClosedError,
    DeliveryError,
    MessageTooLargeError,
)
from ottla.wire.messages import MetadataRequest, MetadataResponse


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(topics={"orders": 3, "single": 1}) as cluster:
        yield cluster


def stored(cluster: Cluster, topic: str = "single") -> list[bytes | None]:
    return [record.value for record in cluster.dump(topic)]


def test_the_example_of_the_docstring_works(cluster: Cluster) -> None:
    with ottla.Client(cluster.bootstrap) as kafka:
        kafka.produce("orders", b"...", key=b"42")
        kafka.flush()
        for record in kafka.consume("orders", start="earliest"):
            assert (record.key, record.value) == (b"42", b"...")
            break


def test_every_method_does_what_its_twin_does(cluster: Cluster) -> None:
    with ottla.Client(cluster.bootstrap) as kafka:
        delivery = kafka.produce("single", b"1", headers={"a": b"b"}, timestamp=17)
        assert delivery.result(timeout=30) is delivery
        assert (delivery.partition, delivery.offset, delivery.timestamp) == (0, 0, 17)
        table = pyarrow.table({"value": [b"2", b"3"]})
        assert kafka.produce_batch("single", table).result(timeout=30).offsets() == {0: [(1, 2)]}
        kafka.flush(timeout=30)
        assert [record.value for record in kafka.consume("single", start=1, stop="latest")] == [b"2", b"3"]
        batches = list(kafka.consume_batches("single", start="earliest", stop="latest"))
        assert sum(batch.num_rows for batch in batches) == 3
        answer = kafka.request(MetadataRequest(topics=None), timeout=30)
        assert isinstance(answer, MetadataResponse)
        assert len(kafka.request_sharded(MetadataRequest(topics=None))) >= 1
        assert sorted(kafka.admin.list_topics()) == ["orders", "single"]
        assert kafka.metrics() is not None
        assert kafka.abort_buffered() == 0
        assert kafka.config.bootstrap_servers == tuple(cluster.bootstrap.split(","))


def test_mistakes_in_options_leave_no_thread_behind() -> None:
    before = threading.active_count()
    with pytest.raises(TypeError, match="no hook"):
        ottla.Client("one:1", hooks=[object()])
    with pytest.raises(ValueError, match="linger_ms"):
        ottla.Client("one:1", linger_mss=5)  # type: ignore[call-arg]
    assert threading.active_count() <= before


# Receipts


def test_result_does_not_wait_for_linger(cluster: Cluster) -> None:
    with ottla.Client(cluster.bootstrap, linger_ms=60_000) as kafka:
        assert kafka.produce("single", b"1").result(timeout=60).offset == 0


def test_result_with_a_timeout_says_that_the_record_is_under_way(cluster: Cluster) -> None:
    with ottla.Client(cluster.bootstrap) as kafka:
        kafka.produce("single", b"1").result(timeout=30)
        cluster.pause_node(1)
        delivery = kafka.produce("single", b"2")
        begin = time.monotonic()
        with pytest.raises(
            TimeoutError, match=r"single-0 was not delivered within 0.2 s; it is still under way"
        ):
            delivery.result(timeout=0.2)
        assert 0.2 <= time.monotonic() - begin < 60
        batch = kafka.produce_batch("single", pyarrow.table({"value": [b"3"]}))
        with pytest.raises(TimeoutError, match="the table for single was not delivered within 0 s"):
            batch.result(timeout=0)
        with pytest.raises(ApiTimeoutError):
            kafka.flush(timeout=0.1)
        cluster.resume_node(1)
        assert delivery.result(timeout=30).offset == 1
        batch.result(timeout=30)


def test_a_callback_is_called_and_errors_reach_result_and_flush(cluster: Cluster) -> None:
    with ottla.Client(cluster.bootstrap) as kafka:
        called = threading.Event()
        kafka.produce("single", b"1").add_done_callback(lambda _: called.set())
        assert called.wait(30)
        cluster.faults.add(api="Produce", action=error("MESSAGE_TOO_LARGE"), count=1)
        with pytest.raises(MessageTooLargeError):
            kafka.produce("single", b"2").result(timeout=30)
        with pytest.raises(DeliveryError, match="1 records") as caught:
            kafka.flush()
        assert isinstance(caught.value.__cause__, MessageTooLargeError)
        kafka.flush()


def test_a_callback_that_would_wait_for_itself_is_told(cluster: Cluster) -> None:
    with ottla.Client(cluster.bootstrap) as kafka:
        raised: list[BaseException] = []

        def flushes(_: object) -> None:
            try:
                kafka.flush()
            except RuntimeError as error:
                raised.append(error)

        kafka.produce("single", b"1").add_done_callback(flushes)
        kafka.flush()
        assert "wait for itself" in str(raised[0])


def test_a_callback_may_produce(cluster: Cluster) -> None:
    with ottla.Client(cluster.bootstrap) as kafka:
        kafka.produce("single", b"1").add_done_callback(lambda _: kafka.produce("single", b"2"))
        assert [record.value for record in cluster.wait_for_records("single", 2)] == [b"1", b"2"]


# Back-pressure


@pytest.mark.parametrize(
    ("limits", "name"),
    [({"max_buffered_records": 3}, "max_buffered_records"), ({"buffer_memory": 100_000}, "buffer_memory")],
)
def test_a_full_buffer_is_an_error_that_names_the_limit(
    cluster: Cluster, limits: dict[str, Any], name: str
) -> None:
    with ottla.Client(cluster.bootstrap, max_block_ms=300, batch_size=50_000, **limits) as kafka:
        kafka.produce("single", b"first").result(timeout=30)
        cluster.pause_node(1)
        for _ in range(3):
            kafka.produce("single", bytes(30_000))
        begin = time.monotonic()
        with pytest.raises(BufferFullError, match=name) as caught:
            kafka.produce("single", bytes(30_000))
        assert caught.value.limit == name
        assert 0.3 <= time.monotonic() - begin < 60
        cluster.resume_node(1)
        kafka.flush(timeout=30)
        kafka.produce("single", b"last").result(timeout=30)
        assert stored(cluster)[-1] == b"last"


def test_a_produce_that_waits_goes_on_when_there_is_room(cluster: Cluster) -> None:
    with ottla.Client(cluster.bootstrap, max_buffered_records=2, value_serializer="str") as kafka:
        for number in range(100):
            kafka.produce("single", str(number))
        kafka.flush()
        assert stored(cluster) == [b"%d" % number for number in range(100)]


# Threads


def test_many_threads_produce_and_consume_with_one_client(cluster: Cluster) -> None:
    threads, each = 6, 300
    failures: list[BaseException] = []
    with ottla.Client(cluster.bootstrap) as kafka:

        def produces(base: int) -> None:
            for number in range(base, base + each):
                delivery = kafka.produce("orders", b"%d" % number)
                if number % 100 == 0:
                    delivery.result(timeout=60)
            kafka.flush()

        seen: list[list[int]] = [[], []]

        def consumes(mine: list[int]) -> None:
            with kafka.consume("orders", start="earliest") as consumer:
                for record in consumer:
                    mine.append(int(record.value))
                    if len(mine) == threads * each:
                        break

        work = [_guarded(failures, produces, number * each) for number in range(threads)]
        work += [_guarded(failures, consumes, mine) for mine in seen]
        for one in work:
            one.start()
        for one in work:
            one.join(100)
        assert failures == []
        for mine in seen:
            assert sorted(mine) == list(range(threads * each))


def _guarded(failures: list[BaseException], function: Callable[..., object], *args: Any) -> threading.Thread:
    def run() -> None:
        try:
            function(*args)
        except BaseException as failure:  # noqa: BLE001  told in the main thread
            failures.append(failure)

    return threading.Thread(target=run, daemon=True)


def test_a_coroutine_may_use_it_though_it_blocks(cluster: Cluster) -> None:
    async def main() -> None:
        with ottla.Client(cluster.bootstrap) as kafka:
            kafka.produce("single", b"1").result(timeout=30)
            delivery = await kafka.produce("single", b"2")
            assert delivery.offset == 1
            kafka.flush()
            consumer = kafka.consume("single", start="earliest", stop="latest")
            assert [record.value for record in consumer] == [b"1", b"2"]

    asyncio.run(main())


# Ctrl-C


@contextmanager
def ctrl_c(after: float = 0.2) -> Iterator[None]:
    """Somebody loses patience; at least that long after, and at the most once the body is done."""
    timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
        assert time.monotonic() - begin < 60
    finally:
        timer.join()


def stuck(kafka: ottla.Client, cluster: Cluster) -> dict[str, Callable[[], object]]:
    """The calls that wait, once the cluster does not answer."""
    consumer = kafka.consume("single", start="latest")
    consumer.poll(timeout=0.1)
    kafka.produce("single", b"1").result(timeout=30)
    consumer.poll(timeout=30)
    cluster.pause_node(1)
    delivery = kafka.produce("single", b"2")

    def fills() -> None:
        while True:
            kafka.produce("single", bytes(1000))

    return {
        "produce": fills,
        "produce_batch": lambda: [
            kafka.produce_batch("single", pyarrow.table({"value": [bytes(100_000)] * 20})) for _ in range(100)
        ],
        "result": delivery.result,
        "flush": kafka.flush,
        "iterate": lambda: next(iter(consumer)),
        "batches": lambda: next(iter(consumer.batches())),
        "poll": consumer.poll,
        "admin": kafka.admin.list_topics,
        "request": lambda: kafka.request(MetadataRequest(topics=None)),
        "consumer": lambda: list(kafka.consume("orders", start="earliest", stop="latest")),
    }


@pytest.mark.parametrize(
    "call",
    [
        "produce",
        "produce_batch",
        "result",
        "flush",
        "iterate",
        "batches",
        "poll",
        "admin",
        "request",
        "consumer",
    ],
)
def test_ctrl_c_ends_every_call_and_the_client_goes_on(cluster: Cluster, call: str) -> None:
    with ottla.Client(cluster.bootstrap, buffer_memory=1_000_000) as kafka:
        waits = stuck(kafka, cluster)[call]
        with ctrl_c():
            waits()
        cluster.resume_node(1)
        kafka.flush(timeout=60)
        assert kafka.produce("single", b"last").result(timeout=60).offset > 1
        assert "single" in kafka.admin.list_topics()


def test_ctrl_c_ends_closing_and_everything_is_closed(cluster: Cluster) -> None:
    kafka = ottla.Client(cluster.bootstrap)
    kafka.produce("single", b"1").result(timeout=30)
    cluster.pause_node(1)
    delivery = kafka.produce("single", b"2")
    with ctrl_c():
        kafka.close()
    kafka.close()
    assert delivery.done()
    with pytest.raises(ClientClosedError):
        kafka.produce("single", b"3")


def test_ctrl_c_ends_a_call_while_another_thread_runs_the_loop(cluster: Cluster) -> None:
    with ottla.Client(cluster.bootstrap, request_timeout_ms=1_000) as kafka:
        started = threading.Event()

        def reads() -> None:
            with pytest.raises(ClientClosedError):
                for _ in kafka.consume("orders"):
                    pass

        kafka.produce("orders", b"1").add_done_callback(lambda _: started.set())
        other = threading.Thread(target=reads)
        other.start()
        assert started.wait(30)
        cluster.faults.add(api="Metadata", action=never)
        with ctrl_c():
            kafka.request(MetadataRequest(topics=None))
        cluster.faults.clear()
        kafka.produce("single", b"1").result(timeout=60)
        kafka.close()
        other.join(30)
        assert not other.is_alive()


@pytest.mark.filterwarnings(
    "ignore:coroutine .* was never awaited"
)  # interrupted before anything could begin
def test_ctrl_c_at_any_moment_harms_nothing(cluster: Cluster) -> None:
    """Hundreds of them while records are produced and waited for: none is lost, none comes twice, no lock stays."""
    with ottla.Client(cluster.bootstrap, linger_ms=0) as kafka, losing_patience() as armed:
        kafka.produce("single", b"first").result(timeout=30)
        produced = interrupts = 0
        while interrupts < 300:
            try:
                armed.append(None)
                kafka.produce("single", b"%d" % produced)
                produced += 1
                if produced % 10 == 0:
                    kafka.flush()
                armed.clear()
            except KeyboardInterrupt:
                interrupts += 1
        kafka.flush(timeout=60)
        numbers = [int(value or b"") for value in stored(cluster)[1:]]
        # One whose produce was interrupted may be stored, and the loop above makes it once more.
        assert sorted(set(numbers)) == list(range(max(numbers) + 1))
        assert max(numbers) in (produced - 1, produced)
        assert numbers == sorted(numbers)
        assert len(numbers) <= produced + interrupts


@contextmanager
def losing_patience() -> Iterator[list[None]]:
    """Ctrl-C every few milliseconds, once each time that the list is not empty."""
    armed: list[None] = []

    def strike(number: int, frame: object) -> None:
        if armed:
            armed.clear()
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGALRM, strike)
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.0023)
    try:
        yield armed
    finally:
        armed.clear()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
