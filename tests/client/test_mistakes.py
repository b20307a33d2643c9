"""What people write at first: each mistake is answered with what to write instead."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ottla
from ottla import TopicPartition
from ottla.broker import Cluster
from ottla.errors import ClientClosedError, ConfigurationError

P0 = TopicPartition("orders", 0)

Mistake = Callable[[Any], object]

ANYTHING: dict[str, Any] = {"TopicPartition": TopicPartition, "Timestamp": ottla.Timestamp}
"""Without the types that would keep a checked program from such mistakes."""


@pytest.fixture(scope="module")
def kafka() -> Iterator[ottla.Client]:
    with (
        Cluster(brokers=1, topics={"orders": 2}) as cluster,
        ottla.Client(cluster.bootstrap, default_api_timeout_ms=60_000) as client,
    ):
        client.produce("orders", b"1").result(timeout=60)
        yield client


PRODUCING: list[tuple[Mistake, type[Exception], str]] = [
    (lambda k: k.produce("orders", "1"), TypeError, "not str: encode it, or give .* a value_serializer"),
    (lambda k: k.produce("orders", 1), TypeError, "not int: encode it, or give .* a value_serializer"),
    (lambda k: k.produce("orders", {"a": 1}), TypeError, "not dict: encode it, .* a value_serializer"),
    (lambda k: k.produce("orders", b"1", key="k"), TypeError, "key must be .* a key_serializer"),
    (lambda k: k.produce(None, b"1"), TypeError, "topic must be a str, not NoneType"),
    (lambda k: k.produce(["orders"], b"1"), TypeError, "topic must be a str, not list"),
    (lambda k: k.produce(b"orders", b"1"), TypeError, "topic must be a str, not bytes"),
    (lambda k: k.produce("orders", b"1", headers={"a": "b"}), TypeError, r"headers\[0\]: .*: encode it$"),
    (lambda k: k.produce("orders", b"1", headers=["a"]), TypeError, "a pair of key and value"),
    (lambda k: k.produce("orders", b"1", partition="0"), TypeError, "partition must be an int"),
    (lambda k: k.produce("orders", b"1", timestamp=1.5), TypeError, "an int .milliseconds."),
    (lambda k: k.produce("orders", b"1").result(-1), ValueError, "a timeout is 0 seconds or more, not -1"),
    (lambda k: k.produce("orders", b"1").result("5"), TypeError, "a timeout is a number of seconds"),
    (lambda k: k.flush(-1), ValueError, "a timeout is 0 seconds or more"),
    (lambda k: k.flush("5"), TypeError, "a timeout is a number of seconds"),
    (lambda k: k.close(-1), ValueError, "a timeout is 0 seconds or more"),
]

CONSUMING: list[tuple[Mistake, type[Exception], str]] = [
    (lambda k: k.consume(None), ConfigurationError, "name topics"),
    (lambda k: k.consume({"orders": "earliest"}), ConfigurationError, "the key 'orders' .* TopicPartition"),
    (lambda k: k.consume(ANYTHING["TopicPartition"]("orders", "0")), ConfigurationError, "a str and an int"),
    (lambda k: k.consume("orders", start=1.5), ConfigurationError, "an offset from 0, .* a Timestamp"),
    (lambda k: k.consume("orders", stop="end"), ConfigurationError, "'latest'"),
    (lambda k: ANYTHING["Timestamp"]("5"), TypeError, "whole milliseconds since 1970"),
    (lambda k: ANYTHING["Timestamp"](1.5), TypeError, "whole milliseconds since 1970"),
    (lambda k: k.consume("orders").poll(timeout=-1), ValueError, "leave it out to wait without one"),
    (lambda k: k.consume("orders").poll(timeout="1"), TypeError, "a timeout is a number of seconds"),
    (lambda k: k.consume("orders").seek("orders", 0), TypeError, r"TopicPartition\('orders', 0\)"),
    (lambda k: k.consume("orders").pause("orders"), TypeError, r"TopicPartition\('orders', 0\)"),
    (lambda k: k.consume("orders").resume("orders"), TypeError, r"TopicPartition\('orders', 0\)"),
    (lambda k: k.consume("orders").position("orders"), TypeError, r"TopicPartition\('orders', 0\)"),
    (lambda k: k.consume("orders").position(P0, -1), ValueError, "a timeout is 0 seconds or more"),
]

ADMINISTERING: list[tuple[Mistake, type[Exception], str]] = [
    (lambda k: k.admin.list_offsets(None), TypeError, "a partition is meant"),
    (lambda k: k.admin.list_offsets(("orders", 0)), TypeError, r"TopicPartition\('orders', 0\), not 0"),
    (lambda k: k.admin.list_offsets("orders", {"orders": "latest"}), TypeError, "not 'orders'"),
    (lambda k: k.admin.list_offsets("orders", isolation="committed"), ValueError, "'read_committed'"),
    (lambda k: k.admin.list_offsets("orders", timeout="5"), TypeError, "a timeout is a number of seconds"),
    (lambda k: k.admin.delete_records({"orders": 5}), TypeError, "a partition is meant.* not 'orders'"),
    (lambda k: k.admin.list_topics(timeout=-1), ValueError, "a timeout is 0 seconds or more"),
    (lambda k: k.admin.create_topic("x", timeout=-1), ValueError, "a timeout is 0 seconds or more"),
    (lambda k: k.request("Metadata"), TypeError, "an object of ottla.wire.messages"),
]


@pytest.mark.parametrize(("mistake", "kind", "words"), [*PRODUCING, *CONSUMING, *ADMINISTERING])
def test_a_mistake_is_answered_with_what_to_write(
    mistake: Mistake, kind: type[Exception], words: str, kafka: ottla.Client
) -> None:
    with pytest.raises(kind, match=words):
        mistake(kafka)


@pytest.mark.parametrize(
    ("servers", "words"),
    [
        ("localhost", "write localhost:9092"),
        ("https://localhost:9092", "begins with a scheme: leave it out"),
        ("a:1;b:2", "no comma between servers"),
        ("a:1 b:2", "no comma between servers"),
        (("localhost", 9092), "such as 'localhost:9092'"),
        (9092, "such as 'localhost:9092'"),
        (b"localhost:9092", "such as 'localhost:9092'"),
        ("::1:9092", r"in brackets, \[::1\]:9092"),
    ],
)
def test_servers_that_are_none_are_answered_with_how_to_write_them(servers: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        ottla.Client(servers)


def test_a_timeout_of_the_client_has_another_name() -> None:
    options: dict[str, Any] = {"timeout": 5}
    with pytest.raises(ConfigurationError, match="write default_api_timeout_ms"):
        ottla.Client("localhost:9092", **options)


def test_a_closed_client_says_so_whatever_is_asked() -> None:
    with Cluster(brokers=1) as cluster:
        kafka = ottla.Client(cluster.bootstrap)
        kafka.close()
    calls: list[Callable[[], object]] = [
        lambda: kafka.produce("orders", b"1"),
        lambda: kafka.consume("orders"),
        kafka.flush,
        kafka.admin.list_topics,
    ]
    for call in calls:
        with pytest.raises(ClientClosedError, match="closed"):
            call()


def test_an_async_client_outside_a_loop_says_where_it_belongs() -> None:
    with pytest.raises(RuntimeError, match=re.escape("asyncio.run() runs, or use ottla.Client")):
        ottla.AsyncClient("localhost:9092").consume("orders")

    async def inside() -> None:
        async with ottla.AsyncClient("localhost:9092") as kafka:
            kafka.consume("orders")

    asyncio.run(inside())
