"""Producer ids that are refused, late or never given: whom that concerns, and whom not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker.server import faults
from ottla.errors import ClusterAuthorizationFailedError, DeliveryError
from tests.client.produce.producing import producing, values
from tests.client.worlds import Body, World

Run = Callable[[Body], object]


def test_a_partition_without_an_id_does_not_hold_up_the_others(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 2}) as cluster,
            producing(world, cluster, linger_ms=0) as rig,
        ):
            await rig.producer.produce("orders", b"0", partition=0)
            await rig.producer.produce("orders", b"0", partition=1)
            no_id = cluster.faults.add("InitProducerId", action=faults.error("COORDINATOR_LOAD_IN_PROGRESS"))
            refused = cluster.faults.add(
                "Produce", action=faults.error("INVALID_PRODUCER_EPOCH"), count=1, partition=0
            )
            late = rig.producer.produce("orders", b"1", partition=0)
            await refused.wait()
            await no_id.wait()
            for _ in range(3):
                await rig.producer.produce("orders", b"1", partition=1)
            assert not late.done()
            cluster.faults.remove(no_id)
            await late
            assert len(values(cluster, "orders", 0)) == 2
            assert len(values(cluster, "orders", 1)) == 4

    run(body)


def test_what_waits_for_an_answer_does_not_fail_with_the_id(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(2, topics={"orders": 2}) as cluster,
            producing(world, cluster, linger_ms=0) as rig,
        ):
            # Two connections: on one, the later answer would wait for the earlier one.
            assert cluster.leader("orders", 0) != cluster.leader("orders", 1)
            await rig.producer.produce("orders", b"0", partition=0)
            await rig.producer.produce("orders", b"0", partition=1)
            cluster.faults.add("InitProducerId", action=faults.error("CLUSTER_AUTHORIZATION_FAILED"))
            slow = cluster.faults.add(
                "Produce", when="after_append", action=faults.delay(20.0), count=1, partition=1
            )
            under_way = rig.producer.produce("orders", b"1", partition=1)
            await slow.wait()
            cluster.faults.add("Produce", action=faults.error("INVALID_PRODUCER_EPOCH"), count=1, partition=0)
            refused = rig.producer.produce("orders", b"1", partition=0)
            with pytest.raises(ClusterAuthorizationFailedError):
                await refused
            assert not under_way.done()
            cluster.clock.advance(20)
            assert (await under_way).offset == 1
            with pytest.raises(DeliveryError):
                await rig.producer.flush()

    run(body)


def test_a_topic_that_is_known_to_be_forbidden_is_tried_again_later(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, linger_ms=0, metadata_min_age_ms=100) as rig,
        ):
            denied = cluster.faults.add(
                "Metadata", topic="orders", action=faults.error("TOPIC_AUTHORIZATION_FAILED")
            )
            rig.metadata.track("orders")
            await rig.metadata.wait(lambda view: view.topics.get("orders"))
            for _ in range(2):
                delivery = rig.producer.produce("orders", b"0")
                with pytest.raises(Exception, match="orders"):
                    await delivery
            cluster.faults.remove(denied)
            await rig.metadata.wait(lambda view: True if view.topics["orders"].error_code == 0 else None)
            await rig.producer.produce("orders", b"1")
            with pytest.raises(DeliveryError) as caught:
                await rig.producer.flush()
            assert caught.value.failed == 2

    run(body)
