"""What a heartbeat of KIP-848 says of the member's partitions, and what a response makes of them, or its loss."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.server import faults
from ottla.client.group.consumer_protocol import OwnedId, OwnershipReport
from ottla.wire import Uuid
from ottla.wire.messages import ConsumerGroupHeartbeatResponse
from tests.client.group.grouping import KIP_848, QUICK, Told, partitions, until, until_shared
from tests.client.worlds import Body, World, in_simulation

Run = Callable[[Body], object]
ORDERS = Uuid(bytes(range(16)))
Assignment = ConsumerGroupHeartbeatResponse.Assignment
Topic = ConsumerGroupHeartbeatResponse.TopicPartitions


def ids(*numbers: int) -> list[OwnedId]:
    return [(ORDERS, number) for number in numbers]


def told(report: OwnershipReport, *numbers: int) -> None:
    topics = [Topic(topic_id=ORDERS, partitions=list(numbers))] if numbers else []
    report.was_told(Assignment(topic_partitions=topics))


def owning(*numbers: int) -> OwnershipReport:
    """One whose partitions the coordinator knows of."""
    report = OwnershipReport()
    told(report, *numbers)
    report.accepted = dict(report.target)
    report.said(report.to_say(3, full=True))
    return report


def test_a_join_owns_nothing_whatever_was_owned_before() -> None:
    report = owning(0, 1)
    assert report.to_say(0, full=True) == []


def test_a_list_is_said_once_and_again_when_it_changes_or_everything_is_said() -> None:
    report = owning(0, 1)
    assert report.to_say(3, full=False) is None
    assert report.to_say(3, full=True) == ids(0, 1)
    told(report, 1, 2)
    report.accepted = dict(report.target)
    assert report.to_say(4, full=False) == ids(1, 2)


def test_a_list_that_did_not_get_there_is_said_again() -> None:
    report = owning(0)
    told(report, 0, 1)
    report.accepted = dict(report.target)
    assert report.to_say(4, full=False) == ids(0, 1)  # its response is lost, and `said` not called
    assert report.to_say(4, full=False) == ids(0, 1)


def test_nothing_is_said_while_partitions_are_given_up() -> None:
    report = owning(0, 1)
    told(report, 0)
    report.is_revoking = True
    assert report.to_say(3, full=True) is None
    report.accepted, report.is_revoking = dict(report.target), False
    assert report.to_say(3, full=False) == ids(0)


def test_owning_nothing_is_always_said() -> None:
    report = owning()
    assert report.to_say(3, full=False) == []


def test_no_assignment_is_no_change_and_an_empty_one_is_nothing() -> None:
    report = owning(0)
    report.was_told(None)
    assert (list(report.target), report.is_settled) == (ids(0), True)
    told(report)
    assert (list(report.target), report.is_settled) == ([], False)


def test_what_begins_anew_owns_nothing() -> None:
    report = owning(0)
    report.is_revoking = True
    report.reset()
    assert (report.accepted, report.target, report.is_settled) == ({}, {}, True)


# A member whose responses get lost


async def until_given(world: World, cluster: AsyncCluster, client_id: str, *numbers: int) -> None:
    """Until the coordinator counts these partitions as this member's."""
    admin = world.client(cluster).admin
    while True:
        group = await admin.describe_group("billing")
        given = {each.client_id: [tp.partition for tp in each.assignment] for each in group.members}
        if given.get(client_id) == list(numbers):
            return
        await world.runtime.clock.sleep(0.02)


def test_a_member_whose_assignment_got_lost_on_the_way_asks_for_it(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            first = world.client(cluster, **KIP_848, client_id="first").consume("orders", group="billing")
            second = world.client(cluster, **KIP_848, client_id="second").consume("orders", group="billing")
            async with first, second:
                await until(world, lambda: first.health().is_well and second.health().is_well)
                owner, other = (first, second) if first.assignment() else (second, first)
                name = "second" if other is second else "first"
                lost = cluster.faults.add(
                    "ConsumerGroupHeartbeat", client_id=name, when="response", action=faults.drop
                )
                await owner.close()
                await until_given(world, cluster, name, 0)
                await lost.wait(lost.hits + 1)
                cluster.faults.remove(lost)
                await until(world, lambda: other.assignment() == partitions(0))

    run(body)


def test_a_member_whose_new_epoch_got_lost_on_the_way_keeps_what_it_has(run: Run) -> None:
    async def body(world: World) -> None:
        told = Told()
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            kafka = world.client(cluster, **KIP_848, client_id="only")
            async with kafka.consume("orders", group="billing", **told.callbacks) as consumer:
                await until_shared(world, consumer, count=1)
                lost = cluster.faults.add("ConsumerGroupHeartbeat", when="response", action=faults.drop)
                await world.client(cluster).admin.create_partitions("orders", 2)
                await until_given(world, cluster, "only", 0, 1)
                # The coordinator has answered with the new epoch, and once more after that.
                await lost.wait(lost.hits + 2)
                cluster.faults.remove(lost)
                await until_shared(world, consumer, count=2)
            assert told.log == [("assigned", [0]), ("assigned", [1]), ("revoked", [0, 1])]

    run(body)


def test_a_coordinator_that_is_not_there_yet_is_no_warning_unless_that_lasts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            none = cluster.faults.add("FindCoordinator", action=faults.error("COORDINATOR_NOT_AVAILABLE"))
            kafka = world.client(cluster, **KIP_848)
            async with kafka.consume("orders", group="billing") as consumer:
                await none.wait(2)
                await until(world, lambda: "COORDINATOR_NOT_AVAILABLE" in consumer.health().reason)
                assert consumer.health().state == "joining"
                assert levels(caplog) == {"INFO"}
                await world.runtime.clock.sleep(KIP_848["session_timeout_ms"] / 1000)
                await none.wait(none.hits + 2)
                assert levels(caplog) == {"INFO", "WARNING"}
                cluster.faults.clear()
                await until_shared(world, consumer, count=1)
                assert consumer.health().reason == ""

    with caplog.at_level(logging.INFO, logger="ottla.client.group"):
        in_simulation(body)


def levels(caplog: pytest.LogCaptureFixture) -> set[str]:
    return {record.levelname for record in caplog.records if "a heartbeat did not get" in record.message}
