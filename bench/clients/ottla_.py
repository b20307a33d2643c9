"""Ottla: the blocking client, and the one for asyncio on uvloop."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine
from typing import Any

import pyarrow
import uvloop

import ottla
from bench.clients import latency
from bench.clients.job import TABLE_ROWS, WARM_UP, Job, Measured, Stopwatch, values
from ottla.wire.records import Delivery


def run(bootstrap: str, job: Job) -> Measured:
    if job.case in _ASYNC:
        return uvloop.run(_ASYNC[job.case](bootstrap, job))
    return _CASES[job.case](bootstrap, job)


def _produce_loop(bootstrap: str, job: Job) -> Measured:
    some, watch = values(job), Stopwatch()
    with ottla.Client(bootstrap, compression_type=job.codec) as kafka:
        kafka.produce(job.topic, b"first").result()
        with watch.running():
            produce, topic, kinds = kafka.produce, job.topic, len(some)
            for number in range(job.count):
                produce(topic, some[number % kinds])
            kafka.flush()
    return watch.measured()


def _produce_arrow(bootstrap: str, job: Job) -> Measured:
    some, watch = values(job), Stopwatch()
    column = pyarrow.array([some[number % len(some)] for number in range(job.count)], pyarrow.binary())
    table = pyarrow.table({"value": column})
    with ottla.Client(bootstrap, compression_type=job.codec) as kafka:
        kafka.produce(job.topic, b"first").result()
        with watch.running():
            kafka.produce_batch(job.topic, table)
            kafka.flush()
    return watch.measured()


def _iterate(bootstrap: str, job: Job) -> Measured:
    watch = Stopwatch()
    seen = 0
    with ottla.Client(bootstrap) as kafka, watch.running():
        for record in kafka.consume(job.topic, start="earliest"):
            record.value  # noqa: B018 -- to read it is the work
            seen += 1
            if seen == job.count:
                break
    return watch.measured()


def _consume_arrow(bootstrap: str, job: Job) -> Measured:
    watch = Stopwatch()
    seen = 0
    with ottla.Client(bootstrap) as kafka, watch.running():
        for batch in kafka.consume_batches(job.topic, start="earliest"):
            seen += batch.num_rows
            if seen >= job.count:
                break
    return watch.measured()


def _produce_callback(bootstrap: str, job: Job) -> Measured:
    """A callback for each record, which looks whether the record was delivered."""
    some, watch = values(job), Stopwatch()
    delivered = 0

    def on_delivery(delivery: Delivery) -> None:
        nonlocal delivered
        if delivery.error is None:
            delivered += 1

    with ottla.Client(bootstrap, compression_type=job.codec) as kafka:
        kafka.produce(job.topic, b"first").result()
        with watch.running():
            produce, topic, kinds = kafka.produce, job.topic, len(some)
            for number in range(job.count):
                produce(topic, some[number % kinds]).add_done_callback(on_delivery)
            kafka.flush()
    if delivered != job.count:
        raise RuntimeError(f"{delivered} of {job.count} records were delivered")
    return watch.measured()


def _produce_small_tables(bootstrap: str, job: Job) -> Measured:
    some, watch = values(job), Stopwatch()
    rows = min(TABLE_ROWS, job.count)
    column = pyarrow.array([some[number % len(some)] for number in range(rows)], pyarrow.binary())
    partitions = pyarrow.array([number % job.partitions for number in range(rows)], pyarrow.int32())
    table = pyarrow.table({"value": column, "partition": partitions})
    with ottla.Client(bootstrap, compression_type=job.codec) as kafka:
        kafka.produce(job.topic, b"first").result()
        with watch.running():
            for _ in range(job.count // rows):
                kafka.produce_batch(job.topic, table)
            kafka.flush()
    return watch.measured()


def _transactions(bootstrap: str, job: Job) -> Measured:
    some, kinds = values(job), len(values(job))

    def commit(kafka: ottla.Client) -> None:
        with kafka.transaction():
            produce, topic = kafka.produce, job.topic
            for number in range(job.each):
                produce(topic, some[number % kinds])

    return _committed(bootstrap, job, commit)


def _transactions_arrow(bootstrap: str, job: Job) -> Measured:
    some = values(job)
    column = pyarrow.array([some[number % len(some)] for number in range(job.each)], pyarrow.binary())
    table = pyarrow.table({"value": column})

    def commit(kafka: ottla.Client) -> None:
        with kafka.transaction():
            kafka.produce_batch(job.topic, table)

    return _committed(bootstrap, job, commit)


def _committed(bootstrap: str, job: Job, commit: Callable[[ottla.Client], None]) -> Measured:
    watch = Stopwatch()
    with ottla.Client(bootstrap, transactional_id=f"bench-{uuid.uuid4().hex}") as kafka:
        for _ in range(WARM_UP):
            commit(kafka)
        with watch.running():
            for _ in range(job.count // job.each):
                commit(kafka)
    return watch.measured()


def _latency(bootstrap: str, job: Job) -> Measured:
    with (
        ottla.Client(bootstrap, linger_ms=0) as writer,
        ottla.Client(bootstrap) as reader,
        reader.consume(job.topic, start="latest") as consumer,
    ):
        writer.produce(job.topic, b"first").result()
        consumer.poll(timeout=0.5)
        return latency.write_and_read(
            job, lambda value: writer.produce(job.topic, value), lambda: _received(consumer)
        )


def _latency_write(bootstrap: str, job: Job) -> Measured:
    with ottla.Client(bootstrap, linger_ms=0) as writer:
        return latency.write(job, lambda value: writer.produce(job.topic, value))


def _latency_read(bootstrap: str, job: Job) -> Measured:
    with ottla.Client(bootstrap) as reader, reader.consume(job.topic, start="earliest") as consumer:
        return latency.read(job, lambda: _received(consumer))


def _received(consumer: ottla.Consumer) -> list[bytes]:
    return [record.value for record in consumer.poll(timeout=0.5)]


async def _async_latency(bootstrap: str, job: Job) -> Measured:
    async with (
        ottla.AsyncClient(bootstrap, linger_ms=0) as writer,
        ottla.AsyncClient(bootstrap) as reader,
        reader.consume(job.topic, start="latest") as consumer,
    ):
        await (await writer.produce(job.topic, b"first"))
        await consumer.poll(timeout=0.5)

        async def receive() -> list[bytes]:
            return [record.value for record in await consumer.poll(timeout=0.5)]

        return await latency.write_and_read_async(
            job, lambda value: writer.produce(job.topic, value), receive
        )


async def _async_produce(bootstrap: str, job: Job) -> Measured:
    some, watch = values(job), Stopwatch()
    async with ottla.AsyncClient(bootstrap, compression_type=job.codec) as kafka:
        await (await kafka.produce(job.topic, b"first"))
        with watch.running():
            produce, topic, kinds = kafka.produce, job.topic, len(some)
            for number in range(job.count):
                await produce(topic, some[number % kinds])
            await kafka.flush()
    return watch.measured()


async def _async_iterate(bootstrap: str, job: Job) -> Measured:
    watch = Stopwatch()
    seen = 0
    async with ottla.AsyncClient(bootstrap) as kafka:
        with watch.running():
            async for record in kafka.consume(job.topic, start="earliest"):
                record.value  # noqa: B018 -- to read it is the work
                seen += 1
                if seen == job.count:
                    break
    return watch.measured()


_CASES: dict[str, Callable[[str, Job], Measured]] = {
    "produce_loop": _produce_loop,
    "produce_arrow": _produce_arrow,
    "iterate": _iterate,
    "consume_arrow": _consume_arrow,
    "produce_callback": _produce_callback,
    "produce_small_tables": _produce_small_tables,
    "transactions": _transactions,
    "transactions_batch": _transactions_arrow,
    "latency": _latency,
    "latency_write": _latency_write,
    "latency_read": _latency_read,
}
_ASYNC: dict[str, Callable[[str, Job], Coroutine[Any, Any, Measured]]] = {
    "async_produce": _async_produce,
    "async_iterate": _async_iterate,
    "async_latency": _async_latency,
}
