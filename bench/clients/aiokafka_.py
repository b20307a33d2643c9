"""aiokafka, on uvloop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import uvloop
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from bench.clients import latency
from bench.clients.job import Job, Measured, Stopwatch, values


def run(bootstrap: str, job: Job) -> Measured:
    return uvloop.run(_CASES[job.case](bootstrap, job))


async def _produce(bootstrap: str, job: Job) -> Measured:
    some, watch = values(job), Stopwatch()
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        acks="all",
        compression_type=None if job.codec == "none" else job.codec,
        linger_ms=10,
        max_batch_size=1_000_000,
    )
    await producer.start()
    await producer.send_and_wait(job.topic, b"first")
    with watch.running():
        send, topic, kinds = producer.send, job.topic, len(some)
        for number in range(job.count):
            await send(topic, some[number % kinds])
        await producer.flush()
    await producer.stop()
    return watch.measured()


async def _iterate(bootstrap: str, job: Job) -> Measured:
    watch = Stopwatch()
    consumer = await _consumer(bootstrap, job, "earliest")
    seen = 0
    with watch.running():
        async for record in consumer:
            record.value  # noqa: B018 -- to read it is the work
            seen += 1
            if seen == job.count:
                break
    await consumer.stop()
    return watch.measured()


async def _latency(bootstrap: str, job: Job) -> Measured:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=0)
    await producer.start()
    await producer.send_and_wait(job.topic, b"first")
    consumer = await _consumer(bootstrap, job, "latest")
    await consumer.seek_to_end()
    await consumer.getmany(timeout_ms=500)

    async def receive() -> list[bytes]:
        return [(await consumer.getone()).value]

    try:
        return await latency.write_and_read_async(job, lambda value: producer.send(job.topic, value), receive)
    finally:
        await consumer.stop()
        await producer.stop()


async def _consumer(bootstrap: str, job: Job, start: str) -> AIOKafkaConsumer:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset=start, group_id=None)
    await consumer.start()
    # By hand: without a group, a subscription waits for the next round of metadata.
    await consumer._client.force_metadata_update()
    consumer._client.add_topic(job.topic)
    await consumer._client.force_metadata_update()
    numbers = sorted(consumer.partitions_for_topic(job.topic) or ())
    consumer.assign([TopicPartition(job.topic, number) for number in numbers])
    return consumer


_CASES: dict[str, Callable[[str, Job], Coroutine[Any, Any, Measured]]] = {
    "async_produce": _produce,
    "async_iterate": _iterate,
    "async_latency": _latency,
}
