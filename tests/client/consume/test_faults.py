"""Consuming while things go wrong: nothing is lost, nothing comes twice, and what cannot be mended is raised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.server import faults
from ottla.client.topic_partition import TopicPartition
from ottla.errors import (
    CorruptBatchError,
    DataLossError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from tests.broker.worlds import batch
from tests.client.consume.consuming import consuming, numbered, plain_client, read, values
from tests.client.worlds import Body, World

Run = Callable[[Body], object]
ORDERS = TopicPartition("orders", 0)
FRESH: dict[str, Any] = {"metadata_max_age_ms": 200, "metadata_min_age_ms": 100}


class Resets:
    """A hook that writes down resets."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int, str]] = []

    def on_position_reset(self, topic: str, partition: int, old: int, new: int, reason: str) -> None:
        self.seen.append((old, new, reason))


@pytest.mark.parametrize(
    "action",
    [
        faults.drop,
        faults.delay(0.3),
        faults.error("NOT_LEADER_OR_FOLLOWER"),
        faults.error("UNKNOWN_LEADER_EPOCH"),
        faults.error("FENCED_LEADER_EPOCH"),
        faults.error("UNKNOWN_TOPIC_ID"),
        faults.error("UNKNOWN_TOPIC_OR_PARTITION"),
        faults.error("KAFKA_STORAGE_ERROR"),
        faults.error("OFFSET_NOT_AVAILABLE"),
        faults.error("REPLICA_NOT_AVAILABLE"),
    ],
    ids=str,
)
@pytest.mark.parametrize("api", ["Fetch", "ListOffsets", "Metadata"])
def test_a_fault_that_passes_is_not_seen(run: Run, api: str, action: faults.Action) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics={"orders": 6}) as cluster:
            for partition in range(6):
                cluster.seed("orders", numbered(50), partition)
            when = "before_append" if api != "Fetch" else "response"
            fault = cluster.faults.add(api, action=action, count=3, when=when)
            async with consuming(world, cluster, "orders", start="earliest", stop="latest") as consumer:
                found = [(record.partition, record.offset) async for record in consumer]
            assert fault.hits == 3 or api != "Fetch"
            assert sorted(found) == [(partition, offset) for partition in range(6) for offset in range(50)]

    run(body)


@pytest.mark.parametrize("code", ["FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH"])
def test_a_lost_fetch_session_is_begun_anew(run: Run, code: str) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(topics={"orders": 2}) as cluster,
            consuming(world, cluster, "orders", start="earliest") as consumer,
        ):
            cluster.seed("orders", numbered(5))
            await read(consumer, 5)
            fault = cluster.faults.add("Fetch", action=faults.error(code), count=1, when="response")
            await fault.wait()
            cluster.seed("orders", numbered(5), 1)
            assert values(await read(consumer, 5)) == numbered(5)

    run(body)


def test_follows_the_leader(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(3, topics={"orders": 1}) as cluster,
            consuming(world, cluster, "orders", start="earliest") as consumer,
        ):
            for step in range(6):
                cluster.seed("orders", numbered(10, step * 10))
                assert values(await read(consumer, 10)) == numbered(10, step * 10)
                await cluster.move_leader("orders", 0, cluster.leader("orders") % 3 + 1)

    run(body)


def test_goes_on_when_the_leader_dies(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(3, topics={"orders": 3}) as cluster,
            consuming(world, cluster, "orders", start="earliest", **FRESH) as consumer,
        ):
            for step in range(3):
                for partition in range(3):
                    await produce(world, cluster, numbered(10, step * 10), partition)
                found = await read(consumer, 30)
                for partition in range(3):
                    mine = [record.value for record in found if record.partition == partition]
                    assert mine == numbered(10, step * 10)
                await cluster.stop_node(step + 1, clean=step % 2 == 0)
                if step % 2:
                    await cluster.fence_node(step + 1)
                await cluster.start_node(step + 1)

    run(body)


def test_reads_on_behind_what_retention_has_deleted(run: Run) -> None:
    async def body(world: World) -> None:
        resets = Resets()
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", numbered(10))
            cluster.partition("orders").log.delete_records(6)
            options: dict[str, Any] = {"auto_offset_reset": "earliest", "hooks": (resets,)}
            async with consuming(world, cluster, "orders", start=2, **options) as consumer:
                assert values(await read(consumer, 4)) == numbered(4, 6)
            assert resets.seen == [(2, 6, "offset 2 is out of range")]

    run(body)


def test_without_a_reset_policy_an_offset_out_of_range_is_raised_until_somebody_seeks(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", numbered(10))
            async with consuming(world, cluster, "orders", start=100, auto_offset_reset="none") as consumer:
                for _ in range(2):
                    with pytest.raises(OffsetOutOfRangeError, match="0 to 10"):
                        await read(consumer, 1)
                consumer.seek(ORDERS, 8)
                assert values(await read(consumer, 2)) == [b"8", b"9"]

    run(body)


def test_a_missing_permission_is_raised_and_reading_goes_on_afterwards(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", numbered(3))
            cluster.faults.add("Fetch", topic="orders", action=faults.error(29), count=1)
            async with consuming(world, cluster, "orders", start="earliest") as consumer:
                with pytest.raises(TopicAuthorizationFailedError, match="orders"):
                    await read(consumer, 1)
                assert values(await read(consumer, 3)) == numbered(3)

    run(body)


def test_a_topic_that_metadata_refuses_is_raised_for_as_long_as_it_does(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", numbered(3))
            cluster.faults.add("Metadata", topic="orders", action=faults.error(29), count=2)
            async with consuming(world, cluster, "orders", start="earliest", **FRESH) as consumer:
                for _ in range(2):
                    with pytest.raises(TopicAuthorizationFailedError, match="orders"):
                        await read(consumer, 1)
                assert values(await read(consumer, 3)) == numbered(3)

    run(body)


def test_a_deleted_topic_is_told_and_another_one_of_its_name_is_read_from_the_beginning(run: Run) -> None:
    async def body(world: World) -> None:
        resets = Resets()
        async with world.cluster(topics={"orders": 1}, config=NO_CREATION) as cluster:
            cluster.seed("orders", numbered(10))
            options: dict[str, Any] = {"start": "earliest", "hooks": (resets,), **FRESH}
            async with consuming(world, cluster, "orders", **options) as consumer:
                await read(consumer, 10)
                await cluster.delete_topic("orders")
                with pytest.raises(UnknownTopicOrPartitionError, match="deleted"):
                    await read(consumer, 1)
                await cluster.create_topic("orders")
                cluster.seed("orders", [b"new"])
                with pytest.raises(DataLossError, match="created again"):
                    await read(consumer, 1)
                assert values(await read(consumer, 1)) == [b"new"]
            assert resets.seen == [(10, 0, "the topic was deleted and created again")]

    run(body)


def test_a_topic_that_was_created_again_is_not_read_without_a_reset_policy(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}, config=NO_CREATION) as cluster:
            cluster.seed("orders", numbered(2))
            options: dict[str, Any] = {"start": "earliest", "auto_offset_reset": "none", **FRESH}
            async with consuming(world, cluster, "orders", **options) as consumer:
                await read(consumer, 2)
                await cluster.delete_topic("orders")
                await cluster.create_topic("orders")
                cluster.seed("orders", numbered(5))
                for _ in range(2):
                    with pytest.raises(DataLossError):
                        await read(consumer, 1)
                consumer.seek(ORDERS, "earliest")
                assert values(await read(consumer, 5)) == numbered(5)

    run(body)


@pytest.mark.parametrize("policy", ["earliest", "none"])
def test_a_truncated_log_is_told_and_read_on_from_where_it_parts(run: Run, policy: str) -> None:
    async def body(world: World) -> None:
        resets = Resets()
        async with world.cluster(2, topics={"orders": 1}) as cluster:
            options: dict[str, Any] = {"auto_offset_reset": policy, "hooks": (resets,)}
            async with consuming(world, cluster, "orders", start=0, **options) as consumer:
                for part in range(2):
                    await produce(world, cluster, numbered(5, part * 5))
                await read(consumer, 10)
                # As after an election of a replica that had not got everything.
                for node in cluster.nodes.values():
                    node.replicas.partitions["orders", 0].truncate_to(5)
                await cluster.move_leader("orders", 0, 3 - cluster.leader("orders"))
                await produce(world, cluster, [b"other"] * 10)
                with pytest.raises(DataLossError, match="truncated") as caught:
                    await read(consumer, 1)
                assert (caught.value.wanted_offset, caught.value.new_offset) == (10, 5)
                if policy == "none":
                    consumer.seek(ORDERS, 5)
                assert values(await read(consumer, 10)) == [b"other"] * 10
            assert resets.seen == ([] if policy == "none" else [(10, 5, "the log was truncated")])

    run(body)


def test_a_damaged_batch_stops_reading_until_it_is_skipped(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            for number in range(3):
                cluster.seed("orders", [b"%d" % number] * 2)
            damage(cluster, 2)
            async with consuming(world, cluster, "orders", start="earliest") as consumer:
                assert values(await read(consumer, 2)) == [b"0", b"0"]
                with pytest.raises(CorruptBatchError, match="offset 2"):
                    await read(consumer, 1)
                with pytest.raises(CorruptBatchError, match="offset 2") as caught:
                    await read(consumer, 1)
                assert (caught.value.offset, caught.value.next_offset) == (2, 4)
                assert await consumer.position(ORDERS) == 2
                consumer.skip(caught.value)
                assert values(await read(consumer, 2)) == [b"2", b"2"]

    run(body)


def test_a_batch_larger_than_every_limit_still_comes(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 2}) as cluster:
            for partition in range(2):
                cluster.seed("orders", [b"x" * 50_000] * 3, partition)
            options: dict[str, Any] = {"fetch_max_bytes": 1000, "max_partition_fetch_bytes": 100}
            async with consuming(world, cluster, "orders", start="earliest", **options) as consumer:
                assert len(await read(consumer, 6)) == 6

    run(body)


def test_reads_from_the_replica_in_its_rack_and_goes_back_when_that_is_gone(run: Run) -> None:
    async def body(world: World) -> None:
        selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
        config = {"replica.selector.class": selector}
        async with world.cluster(3, racks=["a", "b", "c"], config=config, topics={"orders": 1}) as cluster:
            leader = cluster.leader("orders")
            near = leader % 3 + 1
            nodes = Nodes()
            options: dict[str, Any] = {"client_rack": "abc"[near - 1], "hooks": (nodes,), **FRESH}
            async with consuming(world, cluster, "orders", start="earliest", **options) as consumer:
                await produce(world, cluster, numbered(5))
                assert values(await read(consumer, 5)) == numbered(5)
                assert nodes.seen == [near]
                await cluster.stop_node(near)
                await produce(world, cluster, numbered(5, 5))
                assert values(await read(consumer, 5)) == numbered(5, 5)
                assert nodes.seen[-1] == cluster.leader("orders")

    run(body)


def damage(cluster: Any, offset: int) -> None:
    """Flips a bit in the stored batch at this offset."""
    for segment in cluster.partition("orders").log.segments:
        for position, stored in segment.headers(0):
            if stored.base_offset == offset:
                (view,) = segment.read(position, position + stored.size)
                whole = memoryview(view.obj).cast("B")
                whole[bytes(whole).find(bytes(view)) + stored.size - 1] ^= 1


class Nodes:
    """A hook that writes down where records came from."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def on_fetch_read(self, fetched: Any) -> None:
        self.seen.append(fetched.node_id)


async def produce(world: World, cluster: Any, wanted: list[bytes], partition: int = 0) -> None:
    """With acks=all: what was acknowledged must be read."""
    async with plain_client(world, cluster, cluster.leader("orders", partition)) as client:
        answer = await client.produce("orders", batch(*wanted), partition)
    assert answer.error_code == 0


NO_CREATION = {"auto.create.topics.enable": "false"}
