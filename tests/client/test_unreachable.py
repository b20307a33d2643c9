"""When nobody can be reached, every call ends in time and says whom it has tried, and what came of it.

Time is virtual here, so that it can be measured: `default_api_timeout_ms` is all that is set.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

import ottla
from ottla import TopicPartition
from ottla.client.client import AsyncClient
from ottla.errors import ApiTimeoutError, DeliveryError, DeliveryTimeoutError, KafkaError
from ottla.hooks import Hook
from ottla.net.connection import Connection
from ottla.sim import SimRuntime
from ottla.wire.messages import MetadataRequest
from tests.client.connections.peers import PlayedBroker
from tests.client.worlds import World, in_simulation
from tests.net.peers import Recorder

LIMIT = 5.0
MARGIN = 0.3
P0 = TopicPartition("orders", 0)

Call = Callable[[AsyncClient], Awaitable[object]]


async def deliver(kafka: AsyncClient) -> None:
    await (await kafka.produce("orders", b"1"))


async def flush(kafka: AsyncClient) -> None:
    await kafka.produce("orders", b"1")
    await kafka.flush()


async def flush_for(kafka: AsyncClient) -> None:
    await kafka.produce("orders", b"1")
    await kafka.flush(LIMIT - 1)


async def iterate(kafka: AsyncClient) -> None:
    async for _ in kafka.consume("orders"):
        pass


async def read_to_the_end(kafka: AsyncClient) -> None:
    async for _ in kafka.consume("orders", stop="latest"):
        pass


async def read_a_pattern(kafka: AsyncClient) -> None:
    async for _ in kafka.consume(re.compile("ord.*"), stop="latest"):
        pass


async def read_a_partition(kafka: AsyncClient) -> None:
    async for _ in kafka.consume({P0: 3}):
        pass


async def read_batches(kafka: AsyncClient) -> None:
    async for _ in kafka.consume_batches("orders"):
        pass


class Rows:
    """A table with one row, for produce_batch."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        import pyarrow

        return pyarrow.table({"value": [b"1"]}).__arrow_c_stream__(requested_schema)


CALLS: dict[str, Call] = {
    "a delivery": deliver,
    "flush": flush,
    "flush with a timeout": flush_for,
    "produce_batch": lambda kafka: kafka.produce_batch("orders", Rows()),
    "iterate": iterate,
    "read to the end": read_to_the_end,
    "read a pattern": read_a_pattern,
    "read a partition": read_a_partition,
    "consume_batches": read_batches,
    "poll": lambda kafka: kafka.consume("orders").poll(),
    "position": lambda kafka: kafka.consume("orders").position(P0),
    "list_topics": lambda kafka: kafka.admin.list_topics(),
    "create_topic": lambda kafka: kafka.admin.create_topic("orders"),
    "delete_topic": lambda kafka: kafka.admin.delete_topic("orders"),
    "describe_topics": lambda kafka: kafka.admin.describe_topics(["orders"]),
    "describe_cluster": lambda kafka: kafka.admin.describe_cluster(),
    "describe_configs": lambda kafka: kafka.admin.describe_configs(topic="orders"),
    "describe_log_dirs": lambda kafka: kafka.admin.describe_log_dirs(),
    "list_offsets": lambda kafka: kafka.admin.list_offsets("orders"),
    "list_offsets of a partition": lambda kafka: kafka.admin.list_offsets(P0),
    "delete_records": lambda kafka: kafka.admin.delete_records({P0: 1}),
    "request": lambda kafka: kafka.request(MetadataRequest(topics=None)),
    "request to a broker": lambda kafka: kafka.request(MetadataRequest(topics=None), broker=1),
}


async def failure(world: World, kafka: AsyncClient, call: Call) -> tuple[KafkaError, float]:
    """What it ends with, and after how many seconds."""
    began = world.clock.monotonic()
    with pytest.raises(KafkaError) as caught:
        await asyncio.wait_for(call(kafka), 100 * LIMIT)
    seconds = world.clock.monotonic() - began
    return caught.value, seconds


@asynccontextmanager
async def hasty(world: World, servers: str) -> AsyncIterator[AsyncClient]:
    kafka = world.client(servers, default_api_timeout_ms=int(LIMIT * 1000))
    yield kafka
    kafka.abort_buffered()
    with suppress(DeliveryError):
        await kafka.close()


async def failures(world: World, servers: str) -> AsyncIterator[str]:
    """What each call ends with, of a client of its own."""
    for name, call in CALLS.items():
        async with hasty(world, servers) as kafka:
            error, seconds = await failure(world, kafka, call)
            assert isinstance(error, ApiTimeoutError | DeliveryTimeoutError | DeliveryError), name
            assert seconds <= LIMIT + MARGIN, name
            yield f"{name}: {error}"


def test_a_refused_connection_is_told_with_its_address() -> None:
    async def body(world: World) -> None:
        async for error in failures(world, "b1:9092,b2:9093"):
            assert re.search(r"\(b1:9092\): connection refused", error)
            assert re.search(r"\(b2:9093\): connection refused", error)

    in_simulation(body)


def test_addresses_that_do_not_answer_are_told() -> None:
    async def body(world: World) -> None:
        assert isinstance(world.runtime, SimRuntime)
        for host in ("b1", "b2"):
            world.runtime.network.cut("client", host)
        async for error in failures(world, "b1:9092,b2:9093"):
            for address in ("b1:9092", "b2:9093"):
                assert re.search(rf"\({address}\) has not answered the attempt to connect", error)

    in_simulation(body)


def test_a_connection_that_is_closed_instead_of_answered_is_told() -> None:
    async def body(world: World) -> None:
        peer = Recorder(on_frame=lambda connection, _: connection.close())
        listener = await world.runtime.at("peer").listen("127.0.0.1", 0, lambda: Connection(peer))
        address = f"127.0.0.1:{listener.port}"
        async for error in failures(world, address):
            assert f"({address}) closed the connection instead of answering ApiVersions" in error
        await listener.close()

    in_simulation(body)


def test_a_server_that_accepts_and_says_nothing_is_told() -> None:
    async def body(world: World) -> None:
        peer = Recorder(on_frame=lambda connection, frame: None)
        listener = await world.runtime.at("peer").listen("127.0.0.1", 0, lambda: Connection(peer))
        async for error in failures(world, f"127.0.0.1:{listener.port}"):
            assert re.search(
                rf"\(127.0.0.1:{listener.port}\)[^;]*(did|has) not answer(ed)? ApiVersions", error
            )
        await listener.close()

    in_simulation(body)


def test_a_broker_that_answers_nothing_but_apiversions_is_told() -> None:
    async def body(world: World) -> None:
        played = await PlayedBroker().listen(world)
        async for error in failures(world, played.bootstrap):
            assert re.search(rf"\({played.bootstrap}\)[^;]*(did|has) not answer", error)
        await played.close()

    in_simulation(body)


class NoNames(SimRuntime):
    """A network without names."""

    async def connect(self, *_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def test_a_name_that_is_not_known_is_told() -> None:
    async def body(world: World) -> None:
        world.runtime.__class__ = NoNames
        async for error in failures(world, "kafak:9092"):
            assert re.search(r"\(kafak:9092\): .*Name or service not known", error)

    in_simulation(body)


def test_when_everybody_is_gone_after_a_while_that_is_told_too() -> None:
    async def body(world: World) -> None:
        for name, call in CALLS.items():
            async with world.cluster(topics=["orders"]) as cluster:
                address = cluster.bootstrap
                async with hasty(world, address) as kafka:
                    await kafka.admin.describe_topics(["orders"])
                    await cluster.stop_node(1)
                    error, seconds = await failure(world, kafka, call)
            assert f"({address}): connection refused" in str(error), name
            assert seconds <= LIMIT + MARGIN, name

    in_simulation(body)


@pytest.mark.parametrize("name", ["a delivery", "produce_batch", "read to the end", "list_topics", "request"])
def test_servers_that_do_not_answer_leave_time_for_the_others(name: str) -> None:
    """With a timeout that is shorter than an attempt to connect may take, too."""

    async def body(world: World) -> None:
        assert isinstance(world.runtime, SimRuntime)
        for host in ("b1", "b2"):
            world.runtime.network.cut("client", host)
        async with (
            world.cluster(topics=["orders"]) as cluster,
            hasty(world, f"b1:9092,b2:9092,{cluster.bootstrap}") as kafka,
        ):
            began = world.clock.monotonic()
            await CALLS[name](kafka)
            assert world.clock.monotonic() - began <= LIMIT

    for seed in range(3):
        in_simulation(body, seed)


def test_a_refusal_is_logged_once_for_each_address_and_outage(caplog: pytest.LogCaptureFixture) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            address = cluster.bootstrap
            async with hasty(world, address) as kafka:
                for _ in range(2):
                    await kafka.admin.list_topics()
                    caplog.clear()
                    await cluster.stop_node(1)
                    for _ in range(3):
                        await failure(world, kafka, CALLS["list_topics"])
                        await failure(world, kafka, CALLS["request"])
                    assert re.findall(r"\((.*?)\): connection refused", warned(caplog)) == [address]
                    await cluster.start_node(1)

    in_simulation(body)


def test_the_first_refusal_is_logged_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async def body(world: World) -> None:
        async with hasty(world, "b1:9092,b2:9093") as kafka:
            await kafka.produce("orders", b"1")
            await world.clock.sleep(0.5)
            refused = re.findall(r"\((.*?)\): connection refused", warned(caplog))
            assert sorted(refused) == ["b1:9092", "b2:9093"]

    in_simulation(body)


def warned(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.WARNING and record.name == "ottla.client.connections"
    )


def test_the_blocking_client_says_the_same() -> None:
    # Bound and not listening: nobody else can listen there meanwhile.
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    port = bound.getsockname()[1]
    refused = threading.Event()

    class Watch(Hook):
        def on_broker_connect(self, *_: object) -> None:
            refused.set()

    kafka = ottla.Client(f"127.0.0.1:{port}", default_api_timeout_ms=150, hooks=[Watch()])
    kafka.produce("orders", b"1")
    assert refused.wait(60)
    kafka.abort_buffered()
    with pytest.raises(DeliveryError):
        kafka.flush()
    told = rf"\(127.0.0.1:{port}\): connection refused"
    waiting: list[Callable[[], object]] = [
        lambda: next(iter(kafka.consume("orders"))),
        lambda: next(iter(kafka.consume_batches("orders"))),
        lambda: kafka.consume("orders").position(P0),
        lambda: kafka.admin.list_topics(),
        lambda: kafka.admin.list_offsets("orders"),
        lambda: kafka.request(MetadataRequest(topics=None)),
        lambda: kafka.produce_batch("orders", Rows()),
        lambda: kafka.produce("orders", b"1").result(timeout=0.05),
        lambda: kafka.flush(timeout=0.05),
        lambda: kafka.produce("orders", b"1").result(),
        lambda: kafka.flush(),
    ]
    for call in waiting:
        with pytest.raises(KafkaError, match=told):
            call()
    with suppress(DeliveryError):
        kafka.close()
    bound.close()
