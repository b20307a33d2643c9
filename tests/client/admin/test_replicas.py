"""Elections and reassignments."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker.cluster.options import TopicSpec
from ottla.client.topic_partition import TopicPartition
from ottla.errors import (
    InvalidReplicaAssignmentError,
    KafkaError,
    LogDirNotFoundError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)
from tests.client.requests.support import requester
from tests.client.worlds import Body, World

Run = Callable[[Body], object]
FIRST = TopicPartition("orders", 0)


def test_the_preferred_leader_is_elected_where_it_does_not_lead(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics={"orders": TopicSpec(2, 3)}) as cluster:
            admin = requester(world, cluster).admin
            preferred = (await admin.describe_topic("orders")).partitions[0].replicas[0]
            assert await admin.elect_leaders([FIRST]) == {FIRST: False}
            await cluster.move_leader("orders", 0, preferred % 3 + 1)
            assert await admin.elect_leaders([TopicPartition("orders", 1), FIRST]) == {
                TopicPartition("orders", 1): False,
                FIRST: True,
            }
            assert cluster.leader("orders") == preferred
            await cluster.move_leader("orders", 0, preferred % 3 + 1)
            assert (await admin.elect_leaders())[FIRST]
            unknown = TopicPartition("ordres", 0)
            results = await admin.elect_leaders([unknown, FIRST], errors="collect")
            assert (list(results.errors), list(results)) == ([unknown], [FIRST])
            with pytest.raises(KafkaError, match="ordres"):
                await admin.elect_leaders([unknown])

    run(body)


def test_replicas_are_moved_and_what_is_under_way_is_listed(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics={"orders": TopicSpec(1, 1)}) as cluster:
            admin = requester(world, cluster).admin
            (old,) = (await admin.describe_topic("orders")).partitions[0].replicas
            new = old % 3 + 1
            cluster.seed("orders", [b"x"] * 3)
            await cluster.stop_node(new)
            await admin.alter_partition_reassignments({FIRST: [new]})
            under_way = await admin.list_partition_reassignments()
            assert (under_way[FIRST].adding, under_way[FIRST].removing) == ((new,), (old,))
            assert await admin.list_partition_reassignments([FIRST]) == under_way
            await cluster.start_node(new)
            while await admin.list_partition_reassignments():
                await world.clock.sleep(0.01)
            assert (await admin.describe_topic("orders")).partitions[0].replicas == (new,)

    run(body)


def test_reassignments_fail_one_by_one(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics={"orders": TopicSpec(2, 1)}) as cluster:
            admin = requester(world, cluster).admin
            second = TopicPartition("orders", 1)
            results = await admin.alter_partition_reassignments(
                {FIRST: [9], second: [1, 2]}, errors="collect"
            )
            assert list(results) == [second]
            assert isinstance(results.errors[FIRST], InvalidReplicaAssignmentError)
            with pytest.raises(NoReassignmentInProgressError, match="orders"):
                await admin.alter_partition_reassignments({FIRST: None})

    run(body)


def test_replicas_are_moved_to_log_directories_one_by_one(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 2}) as cluster:
            admin = requester(world, cluster).admin
            second, unknown = TopicPartition("orders", 1), TopicPartition("ordres", 0)
            ((path, _),) = (await admin.describe_log_dirs())[1].items()
            assert await admin.alter_replica_log_dirs(1, {second: path, FIRST: path}) == {
                second: None,
                FIRST: None,
            }
            wanted = {unknown: path, second: "/nowhere", FIRST: path}
            results = await admin.alter_replica_log_dirs(1, wanted, errors="collect")
            assert list(results) == [FIRST]
            assert list(map(type, results.errors.values())) == [
                UnknownTopicOrPartitionError,
                LogDirNotFoundError,
            ]
            with pytest.raises(LogDirNotFoundError, match="orders"):
                await admin.alter_replica_log_dirs(1, {FIRST: "/nowhere"})

    run(body)
