"""Topics that are purged from consumers without a group: nothing fetched before is seen after, the rest goes on."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest

import ottla
from ottla.broker import Cluster
from ottla.broker.server.faults import delay, never
from ottla.client.consume.fetch_queue import Failure
from ottla.client.topic_partition import TopicPartition
from ottla.errors import ClientClosedError, DataLossError, DeliveryError, InvalidTopicError
from tests.client.consume.consuming import consuming, numbered, read, until, values
from tests.client.worlds import Body, World

Run = Callable[[Body], object]
ORDERS, AUDIT = TopicPartition("orders", 0), TopicPartition("audit", 0)


class Sessions:
    def __init__(self) -> None:
        self.log: list[str] = []

    def on_session_started(self) -> None:
        self.log.append("started")

    def on_session_stopped(self) -> None:
        self.log.append("stopped")


def test_what_was_fetched_of_a_purged_topic_is_not_seen_and_the_session_begins_anew(run: Run) -> None:
    async def body(world: World) -> None:
        sessions = Sessions()
        async with world.cluster(1, topics={"orders": 1, "audit": 1}) as cluster:
            cluster.seed("orders", numbered(100))
            cluster.seed("audit", numbered(100))
            async with consuming(
                world, cluster, "orders", "audit", start="earliest", hooks=(sessions,)
            ) as consumer:
                first = await read(consumer, 10)
                purged = first[0].topic
                kept = "audit" if purged == "orders" else "orders"
                await until(world, lambda: len(consumer.assignment()) == 2 and len(consumer.queue) > 0)
                await consumer.purge_topics(purged)
                assert sessions.log == ["started", "stopped", "started"]
                assert consumer.assignment() == [TopicPartition(kept, 0)]
                rest = await read(consumer, 100)
                assert {record.topic for record in rest} == {kept}
                assert values(rest) == numbered(100)
                with pytest.raises(ValueError, match="not read by this consumer"):
                    consumer.seek(TopicPartition(purged, 0), 0)

    run(body)


def test_a_topic_in_the_middle_of_which_a_loop_is_ends_there(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1, "audit": 1}) as cluster:
            cluster.seed("orders", numbered(100))
            async with consuming(world, cluster, "orders", "audit", start="earliest") as consumer:
                seen: list[Any] = []
                async for record in consumer:
                    seen.append(record)
                    if len(seen) == 3:
                        await consumer.purge_topics("orders")
                        cluster.seed("audit", [b"audited"])
                    if record.topic == "audit":
                        break
                assert values(seen) == [*numbered(3), b"audited"]

    run(body)


def test_a_consumer_with_nothing_left_to_read_is_at_its_end(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 2, "audit": 1}) as cluster:
            cluster.seed("orders", numbered(3))
            async with consuming(world, cluster, "orders", AUDIT, start="earliest") as consumer:
                await read(consumer, 1)
                reading = asyncio.ensure_future(_rest(consumer))
                await consumer.purge_topics("audit")
                await consumer.purge_topics("orders")
                await reading
                assert await consumer.poll(timeout=60) == []
                assert consumer.assignment() == []
                await consumer.purge_topics("orders")

    run(body)


async def _rest(consumer: Any) -> list[Any]:
    return [record async for record in consumer]


def test_with_a_stop_what_is_left_decides_about_the_end(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1, "audit": 1}) as cluster:
            cluster.seed("orders", numbered(10))
            cluster.seed("audit", numbered(5))
            async with consuming(world, cluster, "orders", "audit", stop="latest") as consumer:
                first = await read(consumer, 1)
                # Paused, it would hold the end up.
                consumer.pause(TopicPartition(first[0].topic, 0))
                kept = "audit" if first[0].topic == "orders" else "orders"
                await consumer.purge_topics(first[0].topic)
                assert {record.topic for record in await _rest(consumer)} == {kept}

    run(body)


def test_a_consumer_that_waits_for_a_topic_need_not_any_more(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(
            1, topics={"orders": 1}, config={"auto.create.topics.enable": False}
        ) as cluster:
            cluster.seed("orders", numbered(3))
            async with consuming(world, cluster, "orders", "nowhere", start="earliest") as consumer:
                assert values(await read(consumer, 3)) == numbered(3)
                await consumer.purge_topics("nowhere")
                await until(world, lambda: consumer._assignment.is_settled)
                assert "nowhere" not in consumer._metadata.view.topics

    run(body)


def test_a_pattern_leaves_a_topic_out_until_it_is_another_one(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders-1": 1, "orders-2": 1}) as cluster:
            cluster.seed("orders-1", numbered(3))
            cluster.seed("orders-2", numbered(3))
            quick: dict[str, Any] = {"metadata_max_age_ms": 200, "metadata_min_age_ms": 10}
            pattern = re.compile("orders-.*")
            async with consuming(world, cluster, pattern, start="latest", **quick) as consumer:
                await until(world, lambda: len(consumer.assignment()) == 2)
                for number in (1, 2):
                    await consumer.position(TopicPartition(f"orders-{number}", 0))
                await consumer.purge_topics("orders-1", "nothing is known of it")
                cluster.seed("orders-1", [b"purged"])
                updates = Updates()
                consumer._metadata.add_listener(updates)
                await until(world, lambda: updates.count >= 3)
                assert consumer.assignment() == [TopicPartition("orders-2", 0)]
                # A new topic, which is read from its beginning.
                await cluster.delete_topic("orders-1")
                await cluster.create_topic("orders-1", 1)
                cluster.seed("orders-1", [b"new"])
                (record,) = await read(consumer, 1)
                assert (record.topic, record.offset, record.value) == ("orders-1", 0, b"new")

    run(body)


class Updates:
    count = 0

    def on_metadata(self, view: Any) -> list[str]:
        self.count += 1
        return []


def test_an_error_that_waits_is_raised_all_the_same_unless_it_is_of_the_purged_topic(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1, "audit": 1, "third": 1}) as cluster:
            cluster.seed("orders", numbered(10))
            quick: dict[str, Any] = {"metadata_max_age_ms": 200, "metadata_min_age_ms": 10}
            topics = ("orders", "audit", "third")
            async with consuming(world, cluster, *topics, start="earliest", **quick) as consumer:
                assert len(await read(consumer, 3)) == 3
                await cluster.delete_topic("third")
                await cluster.delete_topic("orders")
                await cluster.create_topic("orders", 1)
                cluster.seed("orders", numbered(2, 100))
                await until(
                    world, lambda: sum(isinstance(item, Failure) for item in consumer.queue.items) >= 2
                )
                await consumer.purge_topics("audit")
                await consumer.purge_topics("third")
                assert values(await read(consumer, 7)) == numbered(7, 3), "what was fetched comes first"
                with pytest.raises(DataLossError):
                    await read(consumer, 1)
                assert values(await read(consumer, 2)) == numbered(2, 100)

    run(body)


def test_a_purge_while_a_fetch_is_pending_discards_what_it_brings(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1, "audit": 1}) as cluster:
            cluster.seed("orders", numbered(3))
            async with consuming(world, cluster, "orders", "audit", start="earliest") as consumer:
                held = cluster.faults.add("Fetch", action=delay(0.05), count=1)
                await held.wait()
                await consumer.purge_topics("orders")
                cluster.seed("audit", [b"audited"])
                assert values(await read(consumer, 1)) == [b"audited"]

    run(body)


def test_a_purge_waits_for_no_broker(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1, "audit": 1}) as cluster:
            cluster.faults.add("ListOffsets", action=never)
            async with consuming(world, cluster, "orders", "audit", start="earliest") as consumer:
                await until(world, lambda: len(consumer.assignment()) == 2)
                await consumer.purge_topics("orders", timeout=60)
                assert consumer.assignment() == [AUDIT]

    run(body)


def test_a_consumer_that_has_not_begun_reads_what_is_left(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1, "audit": 1}) as cluster:
            cluster.seed("orders", numbered(2))
            cluster.seed("audit", [b"audited"])
            client = world.client(cluster)
            consumer = client.consume("orders", "audit", stop="latest")
            await consumer.purge_topics("orders")
            assert values(await _rest(consumer)) == [b"audited"]
            nothing = client.consume("orders", start="earliest")
            await nothing.purge_topics("orders")
            assert await _rest(nothing) == []

    run(body)


def test_mistakes_and_the_end(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1}) as cluster:
            client = world.client(cluster)
            consumer = client.consume("orders", start="earliest")
            await consumer.position(ORDERS)
            with pytest.raises(TypeError, match="must be a str"):
                await consumer.purge_topics(["orders"])  # type: ignore[arg-type]
            with pytest.raises(InvalidTopicError):
                await client.purge_topics("x" * 300)
            with pytest.raises(ValueError, match="timeout"):
                await client.purge_topics("orders", timeout=-1)
            assert await client.purge_topics() == 0
            assert consumer.assignment() == [ORDERS]
            await consumer.close()
            with pytest.raises(ClientClosedError):
                await consumer.purge_topics("orders")
            assert await client.purge_topics("orders") == 0
            await client.close()
            with pytest.raises(ClientClosedError):
                await client.purge_topics("orders")

    run(body)


def test_a_consumer_that_is_closed_while_it_purges_is_closed(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1, "audit": 1}) as cluster:
            cluster.seed("orders", numbered(3))
            client = world.client(cluster)
            consumer = client.consume("orders", "audit", start="earliest")
            await read(consumer, 1)
            purging = consumer.purge(["orders"])
            await consumer.close()
            assert purging is not None
            await purging
            assert not consumer._session.is_active
            assert not consumer._session._workers

    run(body)


def test_a_client_purges_topics_from_producing_and_from_all_its_consumers(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1, "audit": 1}) as cluster:
            cluster.seed("orders", numbered(5))
            client = world.client(cluster, linger_ms=60_000)
            consumers = [client.consume("orders", "audit", start="earliest") for _ in range(2)]
            for consumer in consumers:
                await read(consumer, 1)
            metadata = client._running().metadata
            await client._running().producer.known_topic("orders")
            waits = await client.produce("orders", b"")
            assert await client.purge_topics("orders", producing=False) == 0
            assert not waits.done()
            assert [consumer.assignment() for consumer in consumers] == [[AUDIT], [AUDIT]]
            assert "orders" in metadata.view.topics, "the producer has use for it"
            third = client.consume("orders", start="earliest")
            await read(third, 1)
            assert await client.purge_topics("orders", consuming=False) == 1
            assert waits.done()
            assert third.assignment() == [ORDERS]
            await client.purge_topics("orders")
            assert "orders" not in metadata.view.topics
            assert await _rest(third) == []
            # Both begin anew.
            delivery = await client.produce("orders", b"again")
            with pytest.raises(DeliveryError):
                await client.flush(30)
            fourth = client.consume("orders", start=(await delivery).offset)
            assert values(await read(fourth, 1)) == [b"again"]

    run(body)


def test_a_topic_that_was_deleted_and_created_again_is_read_as_another_one(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1}) as cluster:
            client = world.client(cluster, linger_ms=0)
            for value in numbered(5):
                await (await client.produce("orders", value))
            consumer = client.consume("orders", start="earliest")
            await read(consumer, 5)
            await client.admin.delete_topics(["orders"])
            await client.admin.create_topic("orders")
            await client.purge_topics("orders")
            assert await _rest(consumer) == []
            await (await client.produce("orders", b"new"))
            (record,) = await read(client.consume("orders", start="earliest"), 1)
            assert (record.offset, record.value) == (0, b"new")

    run(body)


def test_another_thread_purges_what_one_waits_for(kafka: Cluster) -> None:
    kafka.create_topic("orders", 1)
    with ottla.Client(kafka.bootstrap) as client:
        for value in numbered(5):
            client.produce("orders", value)
        client.flush()
        consumer = client.consume("orders", start="earliest")
        seen: list[bytes] = []
        all_seen = threading.Event()

        def reads() -> None:
            for record in consumer:
                seen.append(record.value)
                if len(seen) == 5:
                    all_seen.set()

        reading = threading.Thread(target=reads)
        reading.start()
        assert all_seen.wait(60)
        consumer.purge_topics("orders")
        reading.join(60)
        assert not reading.is_alive()
        assert seen == numbered(5)
        assert client.purge_topics("orders") == 0
    with pytest.raises(ClientClosedError):
        client.purge_topics("orders")
    with pytest.raises(ClientClosedError):
        consumer.purge_topics("orders")
