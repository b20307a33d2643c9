"""How often brokers are asked while something is wrong: a matter of time, not of how many partitions wait for it."""

from __future__ import annotations

import gc
from collections import Counter

import pytest

from ottla.broker.server import faults
from ottla.broker.server.faults import Action
from ottla.client.produce.completions import Flush
from ottla.errors import ApiTimeoutError, BufferFullError, DeliveryError
from ottla.wire.messages import MetadataRequest, ProduceRequest
from tests.client.produce.producing import producing
from tests.client.worlds import World, in_simulation

PARTITIONS = 100
SECONDS = 20


class Writes:
    def __init__(self) -> None:
        self.requests: Counter[int] = Counter()
        self.connects = 0

    def on_broker_write(self, node_id: int, api_key: int, size: int, error: object) -> None:
        self.requests[api_key] += 1

    def on_broker_connect(self, *_: object) -> None:
        self.connects += 1


@pytest.mark.parametrize("action", [faults.error("NOT_LEADER_OR_FOLLOWER"), faults.drop], ids=str)
def test_many_partitions_that_fail_are_tried_again_together(action: Action) -> None:
    async def body(world: World) -> None:
        hook = Writes()
        async with world.cluster(2, topics={"orders": PARTITIONS}) as cluster:
            async with producing(world, cluster, hook, linger_ms=5) as rig:
                fault = cluster.faults.add("Produce", action=action)
                for _ in range(SECONDS):
                    for partition in range(PARTITIONS):
                        rig.producer.produce("orders", b"", partition=partition)
                    await world.runtime.clock.sleep(1)
                # Per broker about one try per second, and each is a reason to ask for metadata.
                assert hook.requests[ProduceRequest.API_KEY] < 2 * SECONDS * 3
                assert hook.requests[MetadataRequest.API_KEY] < 2 * SECONDS * 3
                assert hook.connects < 2 * SECONDS * 3
                cluster.faults.remove(fault)
                await rig.producer.flush(60)
            assert len(cluster.dump("orders")) == SECONDS * PARTITIONS

    in_simulation(body)


@pytest.mark.parametrize("backoff", [0, 50])
def test_a_back_off_of_nothing_is_none(backoff: int) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, linger_ms=0, retry_backoff_ms=backoff) as rig,
        ):
            cluster.faults.add("Produce", action=faults.error("NOT_ENOUGH_REPLICAS"), count=1)
            before = world.clock.monotonic()
            await rig.producer.produce("orders", b"")
            waited = world.clock.monotonic() - before
            assert waited >= 0.8 * backoff / 1000

    in_simulation(body)


def test_a_deleted_topic_is_given_time_to_come_back() -> None:
    async def body(world: World) -> None:
        config = {"auto.create.topics.enable": False}
        async with (
            world.cluster(2, topics={"orders": PARTITIONS}, config=config) as cluster,
            producing(world, cluster, linger_ms=0) as rig,
        ):
            await rig.producer.produce("orders", b"", partition=0)
            await cluster.delete_topic("orders")
            began = world.clock.monotonic()
            for partition in range(PARTITIONS):
                rig.producer.produce("orders", b"", partition=partition)
            with pytest.raises(DeliveryError):
                await rig.producer.flush(60)
            assert world.clock.monotonic() - began > 0.5

    in_simulation(body)


def test_flushing_again_and_again_in_vain_leaves_nothing_behind() -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, linger_ms=0) as rig,
        ):
            fault = cluster.faults.add("Produce", action=faults.error("NOT_ENOUGH_REPLICAS"))
            held = cluster.faults.add("Metadata", topic="held", action=faults.error("LEADER_NOT_AVAILABLE"))
            rig.producer.produce("orders", b"")
            rig.producer.produce("held", b"")
            for _ in range(50):
                with pytest.raises(ApiTimeoutError):
                    await rig.producer.flush(0.01)
            gc.collect()
            assert sum(isinstance(each, Flush) for each in gc.get_objects()) < 5
            cluster.faults.remove(fault)
            cluster.faults.remove(held)
            await rig.producer.flush(60)

    in_simulation(body)


def test_waiting_for_room_again_and_again_in_vain_leaves_nothing_behind() -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1}) as cluster:
            client = world.client(cluster, linger_ms=0, max_buffered_records=1, max_block_ms=1)
            fault = cluster.faults.add("Produce", action=faults.error("NOT_ENOUGH_REPLICAS"))
            delivery = await client.produce("orders", b"")
            for _ in range(50):
                with pytest.raises(BufferFullError):
                    await client.produce("orders", b"")
            assert not client._running().producer._completions.space_waiters
            cluster.faults.remove(fault)
            await delivery

    in_simulation(body)
