"""A client that is closed is let go, whatever it was used for; and one that nobody closed goes with its loop."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import ottla
from ottla.broker import Cluster
from ottla.broker.cluster.cluster import AsyncCluster
from ottla.client.produce.producer import Producer
from ottla.errors import KafkaError
from ottla.hooks import Hook, ProducerInterceptor, ProducerRecord
from ottla.wire.records import Accumulator, EncodedBatch, RecordBuffer
from tests.interop.waiting import eventually


class Seen(ProducerInterceptor, Hook):
    """Interceptor and hook in one, which leads back to whatever it is given."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record

    def on_record_buffered(self, delivery: Any) -> None:
        self.kept.append(delivery)


# What a blocking client may have been used for; each gets a list that outlives the client.


def produce(kafka: ottla.Client, kept: list[Any]) -> None:
    kafka.produce("orders", b"1").result(timeout=60)


def produce_and_keep_the_receipts(kafka: ottla.Client, kept: list[Any]) -> None:
    kept += [kafka.produce("orders", b"%d" % number) for number in range(10)]


def produce_with_callbacks(kafka: ottla.Client, kept: list[Any]) -> None:
    kafka.produce("orders", b"1").add_done_callback(lambda _: kafka.config)
    kafka.flush()


def fail_to_produce(kafka: ottla.Client, kept: list[Any]) -> None:
    kept.append(kafka.produce("missing", b"1"))
    kafka.abort_buffered()


def read(kafka: ottla.Client, kept: list[Any]) -> None:
    kafka.produce("orders", b"1").result(timeout=60)
    kept += [record.value for record in kafka.consume("orders", start="earliest", stop="latest")]


def leave_an_iteration(kafka: ottla.Client, kept: list[Any]) -> None:
    kafka.produce("orders", b"1").result(timeout=60)
    consumer = kafka.consume("orders", start="earliest")
    for record in consumer:
        kept.append(record)
        break


def administer(kafka: ottla.Client, kept: list[Any]) -> None:
    kafka.admin.list_topics()
    with pytest.raises(KafkaError):
        kafka.admin.describe_topics(["missing"])


USES = [
    produce,
    produce_and_keep_the_receipts,
    produce_with_callbacks,
    fail_to_produce,
    read,
    leave_an_iteration,
    administer,
]


def cycle(use: Callable[[ottla.Client, list[Any]], None], bootstrap: str, kept: list[Any]) -> list[Any]:
    """A client comes and goes; references to it that do not keep it."""
    seen = Seen()
    kafka = ottla.Client(bootstrap, hooks=[seen], interceptors=[seen])
    seen.kept.append(kafka)
    use(kafka, kept)
    try:
        kafka.close()
    except KafkaError as error:
        kept.append(str(error))
    return [weakref.ref(each) for each in (kafka, kafka._client, kafka._producer)]


def assert_let_go(gone: list[Any]) -> None:
    """Nothing is collected at the first try if the cluster's thread is collecting just then."""
    eventually(lambda: gc.collect() >= 0 and not any(each() for each in gone), "the client to be let go")


@pytest.mark.parametrize("use", USES)
def test_a_blocking_client_is_let_go_when_it_is_closed(
    use: Callable[[ottla.Client, list[Any]], None],
) -> None:
    kept: list[Any] = []
    with Cluster(topics={"orders": 1}) as cluster:
        assert_let_go(cycle(use, cluster.bootstrap, kept))


def test_nothing_is_left_of_two_hundred_clients() -> None:
    def left() -> Counter[str]:
        gc.collect()
        kinds = (ottla.Client, ottla.AsyncClient, Producer, Accumulator, RecordBuffer, EncodedBatch)
        found = gc.get_objects()
        return Counter({kind.__name__: sum(isinstance(each, kind) for each in found) for kind in kinds})

    with Cluster(topics={"orders": 1}) as cluster:
        produce_once(cluster.bootstrap)
        before = left()
        for _ in range(200):
            produce_once(cluster.bootstrap)
        eventually(lambda: left() <= before, f"no more of them than {before}")


def produce_once(bootstrap: str) -> None:
    with ottla.Client(bootstrap) as kafka:
        kafka.produce("orders", b"1")


async def produce_async(kafka: ottla.AsyncClient, kept: list[Any]) -> None:
    receipt = await kafka.produce("orders", b"1")
    receipt.add_done_callback(lambda _: kafka.config)
    kept.append(await receipt)


async def leave_an_iteration_async(kafka: ottla.AsyncClient, kept: list[Any]) -> None:
    await produce_async(kafka, kept)
    async for record in kafka.consume("orders", start="earliest"):
        kept.append(record)
        break


async def cancel_calls(kafka: ottla.AsyncClient, kept: list[Any]) -> None:
    await produce_async(kafka, kept)
    consumer = kafka.consume("orders", start="latest")
    calls = [asyncio.ensure_future(consumer.poll(timeout=60)), asyncio.ensure_future(kafka.flush())]
    await asyncio.sleep(0)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def administer_async(kafka: ottla.AsyncClient, kept: list[Any]) -> None:
    await kafka.admin.list_topics()


ASYNC_USES = [produce_async, leave_an_iteration_async, cancel_calls, administer_async]


@pytest.mark.parametrize("use", ASYNC_USES)
def test_an_async_client_is_let_go_when_it_is_closed(
    use: Callable[[ottla.AsyncClient, list[Any]], Any],
) -> None:
    kept: list[Any] = []

    async def come_and_go(bootstrap: str) -> list[Any]:
        async with ottla.AsyncClient(bootstrap) as kafka:
            await use(kafka, kept)
            assert kafka._core is not None
            return [weakref.ref(kafka), weakref.ref(kafka._core.producer)]

    async def main() -> None:
        async with AsyncCluster(1, topics={"orders": 1}) as cluster:
            gone = await come_and_go(cluster.bootstrap)
            # What was closed last has its callbacks yet to come.
            await asyncio.sleep(0)
            gc.collect()
            assert [each() for each in gone] == [None, None]

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore:Exception ignored.*:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_an_async_client_that_nobody_closed_is_let_go_with_its_loop() -> None:
    kept: list[Any] = []

    async def come(bootstrap: str) -> list[Any]:
        kafka = ottla.AsyncClient(bootstrap)
        await produce_async(kafka, kept)
        await kafka.produce("orders", b"2")
        assert kafka._core is not None
        return [weakref.ref(kafka), weakref.ref(kafka._core.producer)]

    with Cluster(topics={"orders": 1}) as cluster:
        gone = asyncio.run(come(cluster.bootstrap))
        kept.clear()
        assert_let_go(gone)
