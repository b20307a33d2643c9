"""Deserializers and interceptors on the way to the reader, and the records that cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.consume.dead_letters import DeadLetters
from ottla.client.topic_partition import TopicPartition
from ottla.errors import ConfigurationError, DeserializationError
from ottla.hooks import ConsumerInterceptor
from ottla.serde import resolve_deserializer
from tests.client.consume.consuming import consuming, read, values
from tests.client.worlds import Body, World, in_simulation

Run = Callable[[Body], object]
ORDERS = TopicPartition("orders", 0)
JSON = resolve_deserializer("json", "value")
SEEDS = [(b"k", b"1", [("trace", b"t")]), (b"k", b"oops", [("trace", b"t")]), (b"k", b"3", [])]


def test_keys_and_values_are_deserialized_and_the_rest_is_as_it_was(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", [(b"k", b'{"n": 1}', [("trace", b"t")]), (None, None)])
            options: dict[str, Any] = {
                "key_deserializer": resolve_deserializer("str", "key"),
                "value_deserializer": JSON,
            }
            async with consuming(world, cluster, "orders", start="earliest", **options) as consumer:
                first, second = await read(consumer, 2)
            assert (first.key, first.value, first.headers) == ("k", {"n": 1}, [("trace", b"t")])
            assert (first.topic, first.partition, first.offset) == ("orders", 0, 0)
            assert first.timestamp == first.raw.timestamp
            assert (second.key, second.value) == (None, None)

    run(body)


def test_a_record_that_cannot_be_read_is_raised_again_until_it_is_skipped(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", SEEDS)
            async with consuming(
                world, cluster, "orders", start="earliest", value_deserializer=JSON
            ) as consumer:
                assert values(await read(consumer, 1)) == [1]
                with pytest.raises(DeserializationError, match="offset 1"):
                    await read(consumer, 1)
                assert await consumer.position(ORDERS) == 1
                with pytest.raises(DeserializationError, match="offset 1") as caught:
                    await read(consumer, 1)
                assert caught.value.value == b"oops"
                consumer.skip(caught.value)
                assert await consumer.position(ORDERS) == 2
                assert values(await read(consumer, 1)) == [3]
                with pytest.raises(ValueError, match="seek instead"):
                    consumer.skip(caught.value)

    run(body)


def test_poll_gives_what_came_before_a_record_that_cannot_be_read(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", SEEDS)
            async with consuming(
                world, cluster, "orders", start="earliest", value_deserializer=JSON
            ) as consumer:
                assert values(await consumer.poll()) == [1]
                with pytest.raises(DeserializationError) as caught:
                    await consumer.poll()
                consumer.seek(ORDERS, caught.value.offset + 1)
                assert values(await consumer.poll()) == [3]

    run(body)


def test_skipping_goes_on_and_counts(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", SEEDS)
            options: dict[str, Any] = {"value_deserializer": JSON, "on_error": "skip"}
            async with consuming(world, cluster, "orders", start="earliest", **options) as consumer:
                assert values(await read(consumer, 2)) == [1, 3]
                assert consumer.reader.skipped == 1

    run(body)


def test_dead_letters_are_delivered_before_reading_goes_on(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1, "dead": 1}) as cluster:
            cluster.seed("orders", SEEDS)
            async with world.client(cluster) as kafka:
                options: dict[str, Any] = {"value_deserializer": JSON, "on_error": DeadLetters("dead", kafka)}
                async with consuming(world, cluster, "orders", start="earliest", **options) as consumer:
                    assert values(await read(consumer, 2)) == [1, 3]
            (dead,) = cluster.dump("dead")
            assert (dead.key, dead.value) == (b"k", b"oops")
            headers = dict(dead.headers)
            assert headers["trace"] == b"t"
            assert headers["ottla.dead_letter.topic"] == b"orders"
            assert headers["ottla.dead_letter.offset"] == b"1"
            assert headers["ottla.dead_letter.field"] == b"value"

    run(body)


class Doubling(ConsumerInterceptor):
    def on_consume(self, records: Any) -> Any:
        return [record for record in records for _ in range(2)]


class Broken(ConsumerInterceptor):
    def on_consume(self, records: Any) -> Any:
        raise ValueError("no")


class Dropping(ConsumerInterceptor):
    def on_consume(self, records: Any) -> Any:
        return []


def test_interceptors_change_what_is_read_and_their_failures_do_no_harm(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", SEEDS)
            options: dict[str, Any] = {"value_deserializer": JSON, "interceptors": [Doubling(), Broken()]}
            async with consuming(world, cluster, "orders", start="earliest", **options) as consumer:
                assert values(await read(consumer, 2)) == [1, 1]
                with pytest.raises(DeserializationError) as caught:
                    await read(consumer, 1)
                consumer.skip(caught.value)
                assert values(await read(consumer, 2)) == [3, 3]

    run(body)


def test_an_interceptor_may_drop_everything(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", SEEDS)
            options: dict[str, Any] = {"interceptors": [Dropping()], "stop": "latest"}
            async with consuming(world, cluster, "orders", start="earliest", **options) as consumer:
                assert [record async for record in consumer] == []
                assert await consumer.position(ORDERS) == 3

    run(body)


def test_an_unknown_policy_is_refused() -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            with pytest.raises(ConfigurationError, match="on_error"):
                async with consuming(world, cluster, "orders", on_error="ignore"):
                    pass

    in_simulation(body)
