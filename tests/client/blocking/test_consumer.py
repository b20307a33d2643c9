"""`Consumer`, the blocking one: iteration, poll, positions, errors, its end, in the thread that reads."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import ottla
from ottla.broker import Cluster, drop
from ottla.errors import ApiTimeoutError, ClientClosedError, DeserializationError
from ottla.hooks import ConsumerInterceptor, Hook

ORDERS = ottla.TopicPartition("orders", 0)
NUMBERS = [b"%d" % number for number in range(100)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(topics=["orders"]) as cluster:
        yield cluster


@pytest.fixture
def kafka(cluster: Cluster) -> Iterator[ottla.Client]:
    with ottla.Client(cluster.bootstrap) as kafka:
        yield kafka


def values(records: Any) -> list[Any]:
    return [record.value for record in records]


def test_iteration_ends_at_its_stop_and_a_broken_off_one_goes_on(
    cluster: Cluster, kafka: ottla.Client
) -> None:
    cluster.seed("orders", NUMBERS)
    consumer = kafka.consume("orders", start="earliest", stop="latest")
    seen = []
    for record in consumer:
        seen.append(record.value)
        if len(seen) == 30:
            break
    assert consumer.position(ORDERS, timeout=30) == 30
    seen += values(consumer)
    assert seen == NUMBERS
    assert values(consumer) == []


def test_poll_gives_what_is_there_and_means_its_timeout(cluster: Cluster, kafka: ottla.Client) -> None:
    with kafka.consume("orders", start="earliest") as consumer:
        begin = time.monotonic()
        assert consumer.poll(timeout=0.2) == []
        assert 0.2 <= time.monotonic() - begin < 60
        cluster.seed("orders", NUMBERS)
        assert values(consumer.poll(max_records=10, timeout=30)) == NUMBERS[:10]
        assert values(consumer.poll(timeout=30)) == NUMBERS[10:]
        with pytest.raises(ValueError, match="max_records"):
            consumer.poll(max_records=0)


def test_parts_are_decoded_records_up_to_the_stop_and_silence_is_an_error(
    cluster: Cluster, kafka: ottla.Client
) -> None:
    cluster.seed("orders", [b"%d" % number for number in range(10)])
    start = {ORDERS: 2}
    parts = list(kafka.consume(start, stop=7).parts())
    assert [record.offset for records, rows in parts for record in list(records)[:rows]] == [2, 3, 4, 5, 6]
    silent = kafka.consume({ORDERS: 10}).parts(timeout=0.05)
    with pytest.raises(ApiTimeoutError, match=r"nothing could be read for 0\.05 s"):
        next(silent)


def test_pause_seek_and_lag_work_from_the_thread_that_reads(cluster: Cluster, kafka: ottla.Client) -> None:
    cluster.seed("orders", NUMBERS)
    with kafka.consume("orders", start="earliest") as consumer:
        assert len(consumer.poll(max_records=10, timeout=30)) == 10
        assert consumer.assignment() == [ORDERS]
        assert consumer.lag() == {ORDERS: 90}
        consumer.pause()
        assert consumer.paused() == [ORDERS]
        assert consumer.poll(timeout=0.1) == []
        consumer.resume()
        assert consumer.poll(max_records=1, timeout=30)[0].offset == 10
        consumer.seek(ORDERS, 95)
        assert values(consumer.poll(timeout=30)) == NUMBERS[95:]
        consumer.seek(ORDERS, "earliest")
        assert consumer.poll(max_records=1, timeout=30)[0].offset == 0
        with pytest.raises(ValueError, match="not read by this consumer"):
            consumer.seek(ottla.TopicPartition("other", 0), 0)


def test_starts_are_names_offsets_times_and_mappings(cluster: Cluster, kafka: ottla.Client) -> None:
    cluster.seed("orders", NUMBERS)
    assert len(values(kafka.consume(ORDERS, start=90, stop="latest"))) == 10
    assert len(values(kafka.consume({ORDERS: 95}, stop="latest"))) == 5
    past = datetime(2001, 1, 1, tzinfo=UTC)
    assert len(values(kafka.consume(re.compile("ord.*"), start=past, stop="latest"))) == 100
    assert values(kafka.consume("orders", start="latest", stop="latest")) == []


def test_two_consumers_of_a_client_do_not_disturb_each_other(cluster: Cluster, kafka: ottla.Client) -> None:
    cluster.seed("orders", NUMBERS)
    one = kafka.consume("orders", start="earliest", stop="latest")
    two = kafka.consume("orders", start="earliest", stop="latest")
    pairs = [(first.value, second.value) for first, second in zip(one, two, strict=True)]
    assert pairs == [(value, value) for value in NUMBERS]


# Errors

BAD = [b'{"a":1}', b"no json", b'{"a":2}']


def test_a_record_that_cannot_be_deserialized_is_raised_until_it_is_skipped(
    cluster: Cluster, kafka: ottla.Client
) -> None:
    cluster.seed("orders", BAD)
    consumer = kafka.consume("orders", start="earliest", stop="latest", value_deserializer="json")
    assert values(consumer.poll(timeout=30)) == [{"a": 1}]
    with pytest.raises(DeserializationError):
        next(iter(consumer))
    with pytest.raises(DeserializationError) as caught:
        consumer.poll(timeout=30)
    assert caught.value.offset == 1
    consumer.skip(caught.value)
    assert values(consumer) == [{"a": 2}]


def test_dead_letters_are_sent_by_the_client_or_by_another_one(cluster: Cluster) -> None:
    cluster.seed("orders", BAD)
    cluster.create_topic("dead")
    options: Any = {"value_serializer": "json", "value_deserializer": "json"}
    with ottla.Client(cluster.bootstrap, **options) as kafka, ottla.Client(cluster.bootstrap) as plain:
        for letters in (ottla.DeadLetters("dead"), ottla.DeadLetters("dead", plain)):
            read = kafka.consume("orders", start="earliest", stop="latest", on_error=letters)
            assert values(read) == [{"a": 1}, {"a": 2}]
            polled = kafka.consume("orders", start="earliest", on_error=letters)
            assert values(polled.poll(timeout=30)) == [{"a": 1}]
            assert values(polled.poll(timeout=30)) == [{"a": 2}]
            polled.close()
    assert values(cluster.dump("dead")) == [b"no json"] * 4


def test_skipping_and_interceptors_work_in_the_thread_that_reads(cluster: Cluster) -> None:
    cluster.seed("orders", BAD)
    threads: list[threading.Thread] = []

    class Sees(ConsumerInterceptor):
        def on_consume(self, records: list[Any]) -> list[Any]:
            threads.append(threading.current_thread())
            return records[:1]

    with ottla.Client(cluster.bootstrap, interceptors=[Sees()]) as kafka:
        read = kafka.consume(
            "orders", start="earliest", stop="latest", value_deserializer="json", on_error="skip"
        )
        assert values(read) == [{"a": 1}]
    assert threads == [threading.current_thread()]


def test_a_topic_that_is_not_there_is_an_error_after_its_time(cluster: Cluster) -> None:
    options: Any = {"default_api_timeout_ms": 3_000, "request_timeout_ms": 3_000, "fetch_max_wait_ms": 100}
    with ottla.Client(cluster.bootstrap, allow_auto_create_topics=False, **options) as kafka:
        with pytest.raises(ottla.KafkaError, match="nowhere"):
            kafka.consume("nowhere").poll(timeout=30)
        with pytest.raises(ApiTimeoutError):
            kafka.consume("nowhere").position(ottla.TopicPartition("nowhere", 0), timeout=0.1)


def test_lost_connections_are_not_seen(cluster: Cluster, kafka: ottla.Client) -> None:
    cluster.faults.add(api="Fetch", action=drop, count=2)
    cluster.faults.add(api="ListOffsets", action=drop, count=1)
    cluster.seed("orders", NUMBERS)
    assert values(kafka.consume("orders", start="earliest", stop="latest")) == NUMBERS


# The end


def test_a_closed_consumer_says_so_and_closes_twice(cluster: Cluster, kafka: ottla.Client) -> None:
    cluster.seed("orders", NUMBERS)
    with kafka.consume("orders", start="earliest") as consumer:
        assert len(consumer.poll(max_records=1, timeout=30)) == 1
    consumer.close()
    with pytest.raises(ClientClosedError, match="consumer is closed"):
        consumer.poll(timeout=30)
    kafka.close()
    consumer.close()
    with pytest.raises(ClientClosedError, match="client is closed"):
        next(iter(consumer))
    with pytest.raises(ClientClosedError):
        next(consumer.batches())


@pytest.mark.parametrize("closes", ["consumer", "client"])
def test_closing_in_another_thread_ends_an_iteration_that_waits(cluster: Cluster, closes: str) -> None:
    with ottla.Client(cluster.bootstrap) as kafka:
        consumer = kafka.consume("orders", start="earliest")
        cluster.seed("orders", [b"1"])
        started, ended = threading.Event(), []

        def reads() -> None:
            try:
                for _ in consumer:
                    started.set()
            except ClientClosedError as error:
                ended.append(error)

        thread = threading.Thread(target=reads)
        thread.start()
        assert started.wait(30)
        (consumer if closes == "consumer" else kafka).close()
        thread.join(30)
        assert not thread.is_alive()
        assert len(ended) == 1


class Sessions(Hook):
    """Knows when the last session of the client has ended."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def on_session_stopped(self) -> None:
        self.ended.set()


def leaves(kafka: ottla.Client) -> Any:
    for record in kafka.consume("orders", start="earliest"):
        return record


def leaves_batches(kafka: ottla.Client) -> Any:
    for batch in kafka.consume_batches("orders", start="earliest"):
        return batch


def reads_to_the_end(kafka: ottla.Client) -> Any:
    return list(kafka.consume("orders", start="earliest", stop="latest"))


@pytest.mark.parametrize("reads", [leaves, leaves_batches, reads_to_the_end])
def test_a_consumer_that_nobody_has_any_more_is_closed(
    cluster: Cluster, reads: Callable[[ottla.Client], Any]
) -> None:
    cluster.seed("orders", NUMBERS)
    sessions = Sessions()
    with ottla.Client(cluster.bootstrap, hooks=[sessions]) as kafka:
        assert reads(kafka)
        assert sessions.ended.wait(30)


def test_what_a_consumer_gave_can_be_read_when_it_is_gone(cluster: Cluster) -> None:
    cluster.seed("orders", NUMBERS)
    sessions = Sessions()
    with ottla.Client(cluster.bootstrap, hooks=[sessions]) as kafka:
        record = leaves(kafka)
        assert sessions.ended.wait(30)
        assert record.value == NUMBERS[0]
