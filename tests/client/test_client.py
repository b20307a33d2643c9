"""`AsyncClient`: every method, every kind of option, and what its receipts and errors say."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pyarrow
import pytest

import ottla
from ottla.broker import Cluster, error
from ottla.broker.cluster.cluster import AsyncCluster
from ottla.client.topic_partition import TopicPartition
from ottla.errors import (
    ApiTimeoutError,
    BufferFullError,
    ClientClosedError,
    ConfigurationError,
    DeliveryError,
    DeliveryTimeoutError,
    DeserializationError,
    MessageTooLargeError,
    SerializationError,
)
from ottla.hooks import HOOK_NAMES, ConsumerInterceptor, Hook, ProducerInterceptor, ProducerRecord
from ottla.wire.messages import MetadataRequest, MetadataResponse
from tests.client.worlds import Body, World, in_simulation

Run = Callable[[Body], object]


def stored(cluster: AsyncCluster, topic: str = "orders") -> list[bytes | None]:
    return [record.value for record in cluster.dump(topic)]


async def read(kafka: ottla.AsyncClient, *topics: Any, **options: Any) -> list[Any]:
    """What is there."""
    return [record async for record in kafka.consume(*topics, start="earliest", stop="latest", **options)]


# Producing and consuming


def test_what_is_produced_is_consumed_with_everything_it_had(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 3}) as cluster, world.client(cluster) as kafka:
            delivery = await kafka.produce(
                "orders",
                b"five",
                key=b"42",
                headers=[("trace", b"1"), ("none", None)],
                partition=2,
                timestamp=17,
            )
            assert await delivery is delivery
            assert (delivery.topic, delivery.partition, delivery.offset, delivery.timestamp) == (
                "orders",
                2,
                0,
                17,
            )
            (record,) = await read(kafka, "orders")
            assert (record.topic, record.partition, record.offset) == ("orders", 2, 0)
            assert (record.key, record.value, record.timestamp) == (b"42", b"five", 17)
            assert list(record.headers) == [("trace", b"1"), ("none", None)]

    run(body)


@pytest.mark.parametrize(
    "headers", [[("a", b"1"), ("b", None)], {"a": b"1", "b": None}, (("a", b"1"), ("b", None))]
)
@pytest.mark.parametrize("serializer", ["bytes", "str"])
def test_headers_are_pairs_or_a_dict(headers: Any, serializer: str) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(topics=["orders"]) as cluster,
            world.client(cluster, key_serializer=serializer) as kafka,
        ):
            await (await kafka.produce("orders", b"five", headers=headers))
            (record,) = await read(kafka, "orders")
            assert list(record.headers) == [("a", b"1"), ("b", None)]

    in_simulation(body)


def test_a_table_is_produced_and_comes_back_as_one(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 2}) as cluster, world.client(cluster) as kafka:
            table = pyarrow.table({"key": [b"a", b"b", b"c"], "value": [b"1", b"2", b"3"]})
            delivery = await (await kafka.produce_batch("orders", table))
            assert delivery.count == 3
            await kafka.produce_batch("orders", pyarrow.table({"value": [b"4"]}), partition=1)
            await kafka.flush()
            rows: dict[bytes, bytes] = {}
            async for batch in kafka.consume_batches("orders", start="earliest", stop="latest"):
                rows |= dict(
                    zip(batch.column("value").to_pylist(), batch.column("key").to_pylist(), strict=True)
                )
            assert rows == {b"1": b"a", b"2": b"b", b"3": b"c", b"4": None}

    run(body)


@pytest.mark.parametrize(
    ("spec", "value", "raw"),
    [
        ("str", "fünf", "fünf".encode()),
        ("json", {"n": [5, None]}, b'{"n":[5,null]}'),
        ("int32", 5, b"\0\0\0\5"),
        ("int64", -1, b"\xff" * 8),
        ("bytes", b"five", b"five"),
        ("json", None, None),
    ],
)
def test_values_and_keys_go_through_serializers_and_back(spec: str, value: Any, raw: bytes | None) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            kinds = ("key_serializer", "value_serializer", "key_deserializer", "value_deserializer")
            async with world.client(cluster, **dict.fromkeys(kinds, spec)) as kafka:
                await (await kafka.produce("orders", value, key=value))
                (record,) = await read(kafka, "orders")
                assert (record.key, record.value) == (value, value)
                (raw_record,) = await read(
                    kafka, "orders", key_deserializer="bytes", value_deserializer="bytes"
                )
                assert (raw_record.key, raw_record.value) == (raw, raw)

    in_simulation(body)


def test_serializers_may_be_callables_and_their_errors_are_the_callers() -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            options = {"value_serializer": lambda value: value.to_bytes(2, "big"), "value_deserializer": len}
            async with world.client(cluster, **options) as kafka:
                await (await kafka.produce("orders", 5))
                with pytest.raises(SerializationError, match="orders"):
                    await kafka.produce("orders", "five")
                assert [record.value for record in await read(kafka, "orders")] == [2]
                assert stored(cluster) == [b"\0\5"]

    in_simulation(body)


# What cannot be deserialized

BAD = [b'{"a":1}', b"no json", b'{"a":2}']


def test_a_record_that_cannot_be_deserialized_is_raised_and_can_be_skipped(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster, world.client(cluster) as kafka:
            cluster.seed("orders", BAD)
            consumer = kafka.consume("orders", start="earliest", stop="latest", value_deserializer="json")
            assert [record.value for record in await consumer.poll(timeout=60)] == [{"a": 1}]
            with pytest.raises(DeserializationError) as caught:
                await consumer.poll(timeout=60)
            failed = caught.value
            assert (failed.topic, failed.partition, failed.offset) == ("orders", 0, 1)
            assert failed.value == b"no json"
            consumer.skip(failed)
            assert [record.value async for record in consumer] == [{"a": 2}]

    run(body)


def test_records_that_cannot_be_deserialized_are_skipped_on_demand() -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster, world.client(cluster) as kafka:
            cluster.seed("orders", BAD)
            records = await read(kafka, "orders", value_deserializer="json", on_error="skip")
            assert [record.value for record in records] == [{"a": 1}, {"a": 2}]

    in_simulation(body)


@pytest.mark.parametrize("serializer", ["bytes", "json"])
def test_dead_letters_go_out_as_they_came_whatever_the_client_serializes(run: Run, serializer: str) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders", "dead"]) as cluster:
            options = {"value_serializer": serializer, "value_deserializer": "json"}
            async with world.client(cluster, **options) as kafka:
                cluster.seed("orders", BAD)
                records = await read(kafka, "orders", on_error=ottla.DeadLetters("dead"))
                assert [record.value for record in records] == [{"a": 1}, {"a": 2}]
                (letter,) = cluster.dump("dead")
                assert letter.value == b"no json"
                told = dict(letter.headers)
                assert told["ottla.dead_letter.topic"] == b"orders"
                assert told["ottla.dead_letter.offset"] == b"1"

    run(body)


# Interceptors and hooks


class Stamps(ProducerInterceptor):
    def __init__(self) -> None:
        self.sent = 0
        self.acknowledged: list[int | None] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.sent += 1
        record.headers.append(("stamp", b"%d" % self.sent))
        return record

    def on_acknowledgement(self, delivery: Any) -> None:
        self.acknowledged.append(delivery.offset)


class OnlyTables(ProducerInterceptor):
    def on_send_batch(self, topic: str, table: Any) -> Any:
        return table.slice(1)


class Drops(ConsumerInterceptor):
    def on_consume(self, records: list[Any]) -> list[Any]:
        return [record for record in records if record.value != b"2"]


def test_interceptors_take_part_in_both_directions(run: Run) -> None:
    async def body(world: World) -> None:
        stamps = Stamps()
        async with (
            world.cluster(topics=["orders"]) as cluster,
            world.client(cluster, interceptors=[stamps, Drops()]) as kafka,
        ):
            for value in (b"1", b"2", b"3"):
                await kafka.produce("orders", value)
            await kafka.flush()
            records = await read(kafka, "orders")
            assert [(record.value, dict(record.headers)) for record in records] == [
                (b"1", {"stamp": b"1"}),
                (b"3", {"stamp": b"3"}),
            ]
            assert stamps.acknowledged == [0, 1, 2]

    run(body)


def test_interceptors_of_records_make_tables_go_row_by_row_with_a_warning() -> None:
    async def body(world: World) -> None:
        stamps = Stamps()
        async with (
            world.cluster(topics=["orders"]) as cluster,
            world.client(cluster, interceptors=[stamps]) as kafka,
        ):
            table = pyarrow.table({"value": [b"1", b"2"]})
            with pytest.warns(RuntimeWarning, match="row by row"):
                await (await kafka.produce_batch("orders", table))
            await (await kafka.produce_batch("orders", table))  # and only once
            assert stored(cluster) == [b"1", b"2"] * 2
            assert stamps.sent == 4

    in_simulation(body)


def test_interceptors_of_tables_get_them_whole() -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(topics=["orders"]) as cluster,
            world.client(cluster, interceptors=[OnlyTables()]) as kafka,
        ):
            await (await kafka.produce_batch("orders", pyarrow.table({"value": [b"1", b"2"]})))
            assert stored(cluster) == [b"2"]

    in_simulation(body)


class Listens:
    """Every hook, and how often it was called."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}

    def __getattr__(self, name: str) -> Callable[..., None]:
        raise AttributeError(name)


def _listening(name: str) -> Callable[..., None]:
    def told(self: Listens, *_: object) -> None:
        self.calls[name] = self.calls.get(name, 0) + 1

    return told


for _name in HOOK_NAMES:
    setattr(Listens, _name, _listening(_name))


def test_every_hook_is_called(run: Run) -> None:
    async def body(world: World) -> None:
        heard = Listens()
        options = {"hooks": [heard], "auto_offset_reset": "earliest"}
        async with world.cluster(topics=["orders"]) as cluster, world.client(cluster, **options) as kafka:
            await (await kafka.produce("orders", b"1"))
            await read(kafka, "orders")
            # An offset that is out of range, and a record that the broker refuses.
            consumer = kafka.consume({TopicPartition("orders", 0): 100})
            cluster.faults.add(api="Produce", action=error("MESSAGE_TOO_LARGE"), count=1)
            with pytest.raises(MessageTooLargeError):
                await (await kafka.produce("orders", b"2"))
            assert await consumer.poll(timeout=60) != []
            await consumer.close()
            with pytest.raises(DeliveryError):
                await kafka.flush()
            async with kafka.consume("orders", group="billing") as member:
                assert await member.poll(timeout=60) != []
                await member.commit()
        # A throttle needs a quota, which is the connections' own test.
        assert [name for name in HOOK_NAMES if name not in heard.calls] == ["on_broker_throttle"]
        assert heard.calls["on_client_closed"] == 1

    run(body)


# Receipts


def test_a_receipt_is_awaited_or_calls_back_and_is_one_after_the_other(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster, world.client(cluster) as kafka:
            first = await kafka.produce("orders", b"1")
            called: list[int] = []
            first.add_done_callback(lambda delivery: called.append(delivery.offset))
            assert not first.done()
            await first
            assert (called, first.done(), first.error) == ([0], True, None)

    run(body)


def test_awaiting_a_receipt_does_not_wait_for_linger() -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(topics=["orders"]) as cluster,
            world.client(cluster, linger_ms=60_000) as kafka,
        ):
            begin = world.clock.monotonic()
            await (await kafka.produce("orders", b"1"))
            assert world.clock.monotonic() - begin < 10

    in_simulation(body)


def test_flush_tells_of_receipts_that_nobody_looked_at(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster, world.client(cluster) as kafka:
            cluster.faults.add(api="Produce", action=error("MESSAGE_TOO_LARGE"), count=1)
            for value in (b"1", b"2", b"3"):
                await kafka.produce("orders", value)
            # A batch of several is split; single records are what is refused for good.
            await kafka.flush()
            cluster.faults.add(api="Produce", action=error("MESSAGE_TOO_LARGE"), count=1)
            await kafka.produce("orders", b"4")
            with pytest.raises(DeliveryError) as caught:
                await kafka.flush()
            assert caught.value.failed == 1
            assert isinstance(caught.value.__cause__, MessageTooLargeError)
            await kafka.flush()  # told once
            assert stored(cluster) == [b"1", b"2", b"3"]

    run(body)


@pytest.mark.parametrize("kind", [ottla.Client, ottla.AsyncClient])
@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ([{"bootstrap.servers": "a:1", "linger.ms": 5}], {}, "bootstrap.servers is a name of Kafka's"),
        ([], {"bootstrap.servers": "a:1", "linger.ms": 5}, "bootstrap.servers is a name of Kafka's"),
        (["a:1"], {"acks": 1, "linger.ms": 5}, "linger.ms is a name of Kafka's"),
        ([], {"config": {"bootstrap.servers": "a:1"}}, "bootstrap.servers is a name of Kafka's"),
        ([{"bootstrap_servers": "a:1"}], {}, r"Client\(\*\*options\)"),
        ([], {"config": "client.properties"}, "ClientConfig.from_file"),
    ],
)
def test_settings_that_come_as_other_clients_take_them_are_told_the_way(
    kind: Any, arguments: list[Any], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        kind(*arguments, **options)
    if "Kafka's" in words:
        assert "Client(config=ottla.ClientConfig.from_properties({...}))" in str(caught.value)


def test_a_delivery_timeout_ends_at_its_time(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            options = {"delivery_timeout_ms": 2_000, "request_timeout_ms": 600, "linger_ms": 0}
            async with world.client(cluster, **options) as kafka:
                await (await kafka.produce("orders", b"1"))
                cluster.faults.add(api="Produce", action=error("NOT_ENOUGH_REPLICAS"))
                begin = world.clock.monotonic()
                with pytest.raises(DeliveryTimeoutError, match="delivery_timeout_ms"):
                    await (await kafka.produce("orders", b"2"))
                assert 2.0 <= world.clock.monotonic() - begin < (4.0 if world.simulated else 60.0)
                with pytest.raises(DeliveryError):
                    await kafka.flush()
                cluster.faults.clear()

    run(body)


def test_flush_with_a_timeout_leaves_the_rest_to_go_on(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster, world.client(cluster) as kafka:
            await (await kafka.produce("orders", b"1"))
            cluster.pause_node(1)
            delivery = await kafka.produce("orders", b"2")
            with pytest.raises(ApiTimeoutError):
                await kafka.flush(timeout=0.2)
            assert not delivery.done()
            cluster.resume_node(1)
            assert (await delivery).offset == 1

    run(body)


# Back-pressure


@pytest.mark.parametrize(
    ("limits", "name"),
    [({"max_buffered_records": 3}, "max_buffered_records"), ({"buffer_memory": 100_000}, "buffer_memory")],
)
def test_a_full_buffer_is_an_error_that_names_the_limit(run: Run, limits: dict[str, int], name: str) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(topics=["orders"]) as cluster,
            world.client(cluster, max_block_ms=300, batch_size=50_000, **limits) as kafka,
        ):
            await (await kafka.produce("orders", b"first"))
            cluster.pause_node(1)
            for _ in range(3):
                await kafka.produce("orders", bytes(30_000))
            begin = world.clock.monotonic()
            with pytest.raises(BufferFullError, match=name) as caught:
                await kafka.produce("orders", bytes(30_000))
            assert caught.value.limit == name
            assert 0.25 <= world.clock.monotonic() - begin < (5.0 if world.simulated else 60.0)
            cluster.resume_node(1)
            await kafka.flush()
            await (await kafka.produce("orders", b"last"))
            assert stored(cluster)[-1] == b"last"

    run(body)


def test_a_produce_that_waits_goes_on_when_there_is_room_and_is_made_once(run: Run) -> None:
    async def body(world: World) -> None:
        stamps = Stamps()
        async with world.cluster(topics=["orders"]) as cluster:
            options = {"max_buffered_records": 2, "interceptors": [stamps], "value_serializer": "str"}
            async with world.client(cluster, **options) as kafka:
                await (await kafka.produce("orders", "0"))
                paused = asyncio.get_running_loop().create_task(_many(kafka, 20))
                await (await paused)
                await kafka.flush()
                assert stored(cluster) == [b"%d" % number for number in range(21)]
                assert stamps.sent == 21
                assert [dict(record.headers)["stamp"] for record in cluster.dump("orders")] == [
                    b"%d" % number for number in range(1, 22)
                ]

    run(body)


async def _many(kafka: ottla.AsyncClient, count: int) -> Any:
    for number in range(1, count):
        await kafka.produce("orders", str(number))
    return await kafka.produce("orders", str(count))


def test_aborting_gives_up_what_was_not_sent(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(topics=["orders"]) as cluster,
            world.client(cluster, linger_ms=60_000) as kafka,
        ):
            await (await kafka.produce("orders", b"1"))
            await kafka.produce("orders", b"2")
            assert kafka.abort_buffered() == 1
            with pytest.raises(DeliveryError):
                await kafka.flush()
            assert stored(cluster) == [b"1"]

    run(body)


# Everything else


def test_requests_metrics_and_admin_are_there(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(2, topics={"orders": 2}) as cluster, world.client(cluster) as kafka:
            answer = await kafka.request(MetadataRequest(topics=None), broker=2)
            assert isinstance(answer, MetadataResponse)
            assert sorted(topic.name or "" for topic in answer.topics) == ["orders"]
            assert len(await kafka.request_sharded(MetadataRequest(topics=None))) >= 1
            assert list(await kafka.admin.list_topics()) == ["orders"]
            await (await kafka.produce("orders", b"1"))
            assert kafka.metrics() is not None

    run(body)


def test_a_client_does_nothing_before_it_is_used() -> None:
    client = ottla.AsyncClient("localhost:1")
    with pytest.raises(RuntimeError, match="an AsyncClient is used inside a coroutine"):
        client.consume("orders")

    async def body() -> None:
        await client.flush()
        await client.close()
        with pytest.raises(ClientClosedError):
            await client.produce("orders", b"1")
        with pytest.raises(ClientClosedError):
            await client.flush()

    asyncio.run(body())


def test_a_client_belongs_to_the_loop_that_it_was_first_used_on() -> None:
    with Cluster(topics=["orders"]) as cluster:
        kafka = ottla.AsyncClient(cluster.bootstrap)

        async def first() -> None:
            await (await kafka.produce("orders", b"1"))
            await kafka.close()

        async def uses(client: ottla.AsyncClient) -> None:
            await client.request(MetadataRequest(topics=None))

        asyncio.run(first())
        other = ottla.AsyncClient(cluster.bootstrap)
        with asyncio.Runner() as runner:
            runner.run(uses(other))
            with asyncio.Runner() as second, pytest.raises(RuntimeError, match="this is another one"):
                second.run(uses(other))
            runner.run(other.close())


# Options


def test_options_are_keywords_or_a_config_or_both() -> None:
    config = ottla.ClientConfig(bootstrap_servers="one:1", linger_ms=7)
    assert ottla.AsyncClient("one:1", linger_ms=7).config == config
    assert ottla.AsyncClient(config=config).config is config
    changed = ottla.AsyncClient("two:2", config=config, client_id="me").config
    assert (changed.bootstrap_servers, changed.linger_ms, changed.client_id) == (("two:2",), 7, "me")


def test_what_is_wrong_with_an_option_is_said_with_the_closest_match() -> None:
    with pytest.raises((ConfigurationError, TypeError), match="linger_ms"):
        ottla.AsyncClient("one:1", linger_mss=5)  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match="linger_ms"):
        ottla.AsyncClient("one:1", linger_ms=-5)
    with pytest.raises(ConfigurationError, match="Client"):
        ottla.AsyncClient()
    with pytest.raises(ConfigurationError, match="json"):
        ottla.AsyncClient("one:1", value_serializer="jsn")
    with pytest.raises(ConfigurationError, match="json"):
        ottla.AsyncClient("one:1", value_deserializer="jsn")
    with pytest.raises(ConfigurationError, match="round_robin"):
        ottla.AsyncClient("one:1", partitioner="roundrobin")
    with pytest.raises(TypeError, match="no hook"):
        ottla.AsyncClient("one:1", hooks=[object()])
    with pytest.raises(ConfigurationError, match="ProducerInterceptor"):
        ottla.AsyncClient("one:1", interceptors=[object()])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match=r"hooks is a list: write hooks=\[...\] around"):
        ottla.AsyncClient("one:1", hooks=Hook())  # type: ignore[arg-type]


def test_what_is_wrong_with_a_subscription_is_said() -> None:
    async def body(world: World) -> None:
        kafka = world.client("nowhere:1")
        with pytest.raises((ValueError, ConfigurationError)):
            kafka.consume()
        with pytest.raises(ConfigurationError, match="on_error"):
            kafka.consume("orders", on_error="ignore")  # type: ignore[call-overload]
        assert kafka.consume(re.compile("orders.*")).assignment() == []

    in_simulation(body)
