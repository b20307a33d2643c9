"""kafka-python."""

from __future__ import annotations

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from bench.clients.job import DEADLINE, Job, Measured, Stopwatch, values


def run(bootstrap: str, job: Job) -> Measured:
    return _CASES[job.case](bootstrap, job)


def _produce_loop(bootstrap: str, job: Job) -> Measured:
    some, watch = values(job), Stopwatch()
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        acks="all",
        compression_type=None if job.codec == "none" else job.codec,
        linger_ms=10,
        batch_size=1_000_000,
    )
    producer.send(job.topic, b"first").get(DEADLINE)
    with watch.running():
        send, topic, kinds = producer.send, job.topic, len(some)
        for number in range(job.count):
            send(topic, some[number % kinds])
        producer.flush(DEADLINE)
    producer.close()
    return watch.measured()


def _iterate(bootstrap: str, job: Job) -> Measured:
    watch = Stopwatch()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    numbers = sorted(consumer.partitions_for_topic(job.topic) or ())
    consumer.assign([TopicPartition(job.topic, number) for number in numbers])
    seen = 0
    with watch.running():
        for record in consumer:
            record.value  # noqa: B018 -- to read it is the work
            seen += 1
            if seen == job.count:
                break
    consumer.close()
    return watch.measured()


_CASES = {"produce_loop": _produce_loop, "iterate": _iterate}
