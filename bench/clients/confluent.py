"""confluent-kafka, with its defaults and tuned for throughput as its documents advise."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pyarrow
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)

from bench.clients import latency
from bench.clients.job import DEADLINE, TABLE_ROWS, WARM_UP, Job, Measured, Stopwatch, values

_CHUNK = 10_000


def run(bootstrap: str, job: Job) -> Measured:
    measured: Measured = _CASES[job.case](bootstrap, job)
    return measured


def _producer(bootstrap: str, job: Job, **settings: Any) -> Producer:
    tuned = {"linger.ms": 10, "batch.size": 1_000_000, "batch.num.messages": 100_000} if job.tuned else {}
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "acks": "all",
            "compression.type": job.codec,
            "queue.buffering.max.messages": 2 * job.count,
            "queue.buffering.max.kbytes": 2_000_000,
            **tuned,
            **settings,
        }
    )


def _produce_loop(bootstrap: str, job: Job) -> Measured:
    producer, watch = _producer(bootstrap, job), Stopwatch()
    some = values(job)
    _warm_up(producer, job)
    with watch.running():
        produce, topic, kinds = producer.produce, job.topic, len(some)
        for number in range(job.count):
            produce(topic, some[number % kinds])
        _flush(producer)
    return watch.measured()


def _produce_batch(bootstrap: str, job: Job) -> Measured:
    """The messages are made beforehand: only what the client itself does is counted."""
    producer, watch = _producer(bootstrap, job), Stopwatch()
    some = values(job)
    chunks = [
        [{"value": some[number % len(some)]} for number in range(start, min(start + _CHUNK, job.count))]
        for start in range(0, job.count, _CHUNK)
    ]
    _warm_up(producer, job)
    with watch.running():
        for chunk in chunks:
            producer.produce_batch(job.topic, chunk)
        _flush(producer)
    return watch.measured()


def _produce_callback(bootstrap: str, job: Job) -> Measured:
    """Callbacks run in `poll`, which is called now and then, as often as costs least."""
    producer, watch = _producer(bootstrap, job), Stopwatch()
    some = values(job)
    delivered = 0

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        nonlocal delivered
        if error is None:
            delivered += 1

    _warm_up(producer, job)
    with watch.running():
        produce, topic, kinds = producer.produce, job.topic, len(some)
        for number in range(job.count):
            produce(topic, some[number % kinds], on_delivery=on_delivery)
            if number % 1000 == 0:
                producer.poll(0)
        _flush(producer)
    if delivered != job.count:
        raise RuntimeError(f"{delivered} of {job.count} records were delivered")
    return watch.measured()


def _produce_small_tables(bootstrap: str, job: Job) -> Measured:
    """As many rows at a time, each with its partition; made beforehand."""
    producer, watch = _producer(bootstrap, job), Stopwatch()
    some = values(job)
    rows = min(TABLE_ROWS, job.count)
    chunks = [
        [{"value": some[number % len(some)], "partition": number % job.partitions} for number in range(rows)]
        for _ in range(job.count // rows)
    ]
    _warm_up(producer, job)
    with watch.running():
        for chunk in chunks:
            producer.produce_batch(job.topic, chunk)
        _flush(producer)
    return watch.measured()


def _transactions(bootstrap: str, job: Job) -> Measured:
    some, kinds = values(job), len(values(job))

    def fill(producer: Producer) -> None:
        produce, topic = producer.produce, job.topic
        for number in range(job.each):
            produce(topic, some[number % kinds])

    return _committed(bootstrap, job, fill)


def _transactions_batch(bootstrap: str, job: Job) -> Measured:
    """The messages are made beforehand, as a table is."""
    some = values(job)
    messages = [{"value": some[number % len(some)]} for number in range(job.each)]

    def fill(producer: Producer) -> None:
        taken = producer.produce_batch(job.topic, messages)
        if taken != job.each:
            raise RuntimeError(f"{taken} of {job.each} records were taken")

    return _committed(bootstrap, job, fill)


def _committed(bootstrap: str, job: Job, fill: Callable[[Producer], None]) -> Measured:
    """To commit is to flush as well; it raises if a record was not delivered."""
    settings: dict[str, Any] = {"transactional.id": f"bench-{uuid.uuid4().hex}"}
    if job.linger_ms is not None:
        settings["linger.ms"] = job.linger_ms
    producer, watch = _producer(bootstrap, job, **settings), Stopwatch()
    producer.init_transactions(DEADLINE)

    def commit() -> None:
        producer.begin_transaction()
        fill(producer)
        producer.commit_transaction(DEADLINE)

    for _ in range(WARM_UP):
        commit()
    with watch.running():
        for _ in range(job.count // job.each):
            commit()
    return watch.measured()


def _warm_up(producer: Producer, job: Job) -> None:
    producer.produce(job.topic, b"first")
    _flush(producer)


def _flush(producer: Producer) -> None:
    left = producer.flush(DEADLINE)
    if left:
        raise TimeoutError(f"{left} records were not acknowledged")


def _consumer(bootstrap: str, job: Job, offset: int = OFFSET_BEGINNING) -> Consumer:
    tuned = {"queued.min.messages": 1_000_000, "fetch.message.max.bytes": 1_048_576} if job.tuned else {}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 1,
            **tuned,
        }
    )
    partitions = consumer.list_topics(job.topic, timeout=DEADLINE).topics[job.topic].partitions
    consumer.assign([TopicPartition(job.topic, number, offset) for number in sorted(partitions)])
    return consumer


def _iterate(bootstrap: str, job: Job) -> Measured:
    consumer, watch = _consumer(bootstrap, job), Stopwatch()
    seen = 0
    with watch.running():
        while seen < job.count:
            messages = consumer.consume(_CHUNK, timeout=1)
            for message in messages:
                message.value()
            seen += len(messages)
    consumer.close()
    return watch.measured()


def _consume_arrow(bootstrap: str, job: Job) -> Measured:
    consumer, watch = _consumer(bootstrap, job), Stopwatch()
    seen = 0
    with watch.running():
        while seen < job.count:
            messages = consumer.consume(_CHUNK, timeout=1)
            if messages:
                seen += _to_arrow(messages).num_rows
    consumer.close()
    return watch.measured()


def _to_arrow(messages: list[Message]) -> pyarrow.RecordBatch:
    """The columns that ours has, but for the headers."""
    return pyarrow.record_batch(
        {
            "offset": pyarrow.array([message.offset() for message in messages], pyarrow.int64()),
            "timestamp": pyarrow.array([message.timestamp()[1] for message in messages], pyarrow.int64()),
            "key": pyarrow.array([message.key() for message in messages], pyarrow.binary()),
            "value": pyarrow.array([message.value() for message in messages], pyarrow.binary()),
        }
    )


def _latency(bootstrap: str, job: Job) -> Measured:
    producer = _producer(bootstrap, job, **{"linger.ms": 0})
    _warm_up(producer, job)
    consumer = _consumer(bootstrap, job, OFFSET_END)
    while consumer.poll(0.5) is not None:
        """Until it has found the end."""
    try:
        return latency.write_and_read(
            job, lambda value: _produced(producer, job, value), lambda: _received(consumer)
        )
    finally:
        consumer.close()


def _latency_write(bootstrap: str, job: Job) -> Measured:
    producer = _producer(bootstrap, job, **{"linger.ms": 0})
    measured = latency.write(job, lambda value: _produced(producer, job, value))
    _flush(producer)
    return measured


def _latency_read(bootstrap: str, job: Job) -> Measured:
    consumer = _consumer(bootstrap, job)
    try:
        return latency.read(job, lambda: _received(consumer))
    finally:
        consumer.close()


def _produced(producer: Producer, job: Job, value: bytes) -> None:
    producer.produce(job.topic, value)
    producer.poll(0)


def _received(consumer: Consumer) -> list[bytes]:
    message = consumer.poll(0.5)
    value = message.value() if message is not None else None
    return [value] if isinstance(value, bytes) else []


_CASES = {
    "produce_loop": _produce_loop,
    "produce_arrow": _produce_batch,
    "iterate": _iterate,
    "consume_arrow": _consume_arrow,
    "produce_callback": _produce_callback,
    "produce_small_tables": _produce_small_tables,
    "transactions": _transactions,
    "transactions_batch": _transactions_batch,
    "latency": _latency,
    "latency_write": _latency_write,
    "latency_read": _latency_read,
}
