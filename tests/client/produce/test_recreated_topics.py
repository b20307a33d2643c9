"""Producing to topics that are deleted or created again: what was taken ends, and what follows arrives."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker.server import faults
from ottla.errors import DeliveryError, InvalidTopicError, KafkaError
from tests.client.produce.producing import numbered, producing, values
from tests.client.worlds import Body, World

Run = Callable[[Body], object]

NO_CREATION = {"auto.create.topics.enable": False}


def test_a_record_that_may_be_stored_in_a_deleted_topic_fails_and_says_so(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}, config=NO_CREATION) as cluster,
            producing(world, cluster, linger_ms=0) as rig,
        ):
            await rig.producer.produce("orders", b"first")
            fault = cluster.faults.add("Produce", when="after_append", action=faults.drop, count=1)
            delivery = rig.producer.produce("orders", b"second")
            await fault.wait()
            await cluster.delete_topic("orders")
            with pytest.raises(DeliveryError):
                await rig.producer.flush(60)
            assert isinstance(delivery.error, KafkaError)
            assert getattr(delivery.error, "may_be_stored", False)
            assert rig.producer.buffered_records == 0

    run(body)


def test_a_topic_created_anew_with_fewer_partitions_gets_all_that_follows(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 6}) as cluster,
            producing(world, cluster, linger_ms=0) as rig,
        ):
            for value in numbered(20):
                await rig.producer.produce("orders", value, key=value)
            await cluster.delete_topic("orders")
            await cluster.create_topic("orders", 2)
            await rig.producer.produce("orders", b"", partition=0)
            for value in numbered(20):
                rig.producer.produce("orders", value, key=value)
            await rig.producer.flush(10)
            assert len(values(cluster, "orders")) == 21

    run(body)


@pytest.mark.parametrize("name", ["\ud800", "x" * 40_000], ids=["no text", "too long"])
def test_a_name_that_cannot_be_sent_is_refused_and_harms_no_other_topic(run: Run, name: str) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, linger_ms=0) as rig,
        ):
            with pytest.raises(InvalidTopicError):
                rig.producer.produce(name, b"")
            with pytest.raises(InvalidTopicError):
                rig.metadata.track(name)
            with pytest.raises(InvalidTopicError):
                await rig.metadata.fresh([name])
            await rig.producer.produce("orders", b"")

    run(body)
