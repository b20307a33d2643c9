"""A directory of a node fails: what lay there is led by others, and the node serves on as long as one is left."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.log.fs.faulty import FaultyFileSystem, Operation
from ottla.broker.log.log_dir import LogDirError
from ottla.errors import KafkaStorageError
from ottla.wire.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from tests.broker.worlds import Body, World, batch

Run = Callable[[Body], object]

PARTITIONS = 4
NOT_LEADER = 6
STORAGE_ERROR = KafkaStorageError.code
FIRST, SECOND = "/ottla/node-1", "/ottla/1/node-1"


def disks(count: int) -> list[FaultyFileSystem]:
    return [FaultyFileSystem(random.Random(number)) for number in range(count)]


def on(world: World, volumes: list[FaultyFileSystem], brokers: int = 3) -> AsyncCluster:
    """A cluster, of which the first node has its logs on these."""
    cluster = world.cluster(brokers, topics={"orders": PARTITIONS})
    cluster.volumes.use(1, *volumes, on_disk=True)
    return cluster


def lying_in(cluster: AsyncCluster, path: str) -> list[int]:
    """The partitions whose replica on the first node is there."""
    directories = {each.path: each for each in cluster.nodes[1].replicas.directories}
    return [index for index in range(PARTITIONS) if directories[path].has(f"orders-{index}")]


def known_places(cluster: AsyncCluster) -> int:
    image = cluster.controller.state.image
    return sum(map(len, image.directories.values()))


async def settled(cluster: AsyncCluster) -> None:
    """All replicas in sync, and the controller knows where those of the first node lie."""
    await cluster.wait_until_in_sync("orders")
    await cluster.wait_for(
        lambda: known_places(cluster) == PARTITIONS, "that the controller knows all places"
    )


def test_replicas_are_spread_over_the_directories_and_the_controller_knows_where(run: Run) -> None:
    async def body(world: World) -> None:
        async with on(world, disks(2)) as cluster:
            await settled(cluster)
            assert [len(lying_in(cluster, path)) for path in (FIRST, SECOND)] == [2, 2]
            image = cluster.controller.state.image
            first, second = (each.id for each in cluster.nodes[1].replicas.directories)
            assert image.brokers[1].log_dirs == (first, second)
            topic = image.topics["orders"].id
            assert {image.directory_of(topic, index, 1) for index in lying_in(cluster, FIRST)} == {first}
            assert {image.directory_of(topic, index, 1) for index in lying_in(cluster, SECOND)} == {second}
            assert image.directory_of(topic, 0, 2) is None

    run(body)


def test_what_lay_in_a_failed_directory_is_led_by_others_at_once(run: Run) -> None:
    async def body(world: World) -> None:
        volumes = disks(2)
        async with on(world, volumes) as cluster:
            await settled(cluster)
            lost, *others = lying_in(cluster, FIRST)
            kept = lying_in(cluster, SECOND)[0]
            for index in (lost, kept):
                if cluster.leader("orders", index) != 1:
                    await cluster.move_leader("orders", index, 1)
            client = await world.client(cluster)
            assert (await client.produce("orders", batch(b"1"), lost)).error_code == 0
            volumes[0].break_disk(errno.EIO)
            assert (await client.produce("orders", batch(b"2"), lost)).error_code == STORAGE_ERROR
            await cluster.wait_for(lambda: cluster.leader("orders", lost) != 1, "another leader")
            await cluster.wait_for(
                lambda: not any(1 in cluster.in_sync("orders", index) for index in (lost, *others)),
                "smaller ISRs",
            )
            assert (await client.produce("orders", batch(b"2"), lost)).error_code == STORAGE_ERROR
            assert (await client.produce("orders", batch(b"3"), kept)).error_code == 0
            assert 1 in cluster.in_sync("orders", kept)
            assert cluster.failures == {}
            other = await world.client(cluster, cluster.leader("orders", lost))
            assert (await other.produce("orders", batch(b"2"), lost)).error_code == 0
            described = await client.ask(DescribeLogDirsRequest(topics=None), 4, DescribeLogDirsResponse)
            assert [(each.log_dir, each.error_code) for each in described.results] == [
                (FIRST, STORAGE_ERROR),
                (SECOND, 0),
            ]

    run(body)


def test_a_follower_whose_directory_fails_leaves_the_isr(run: Run) -> None:
    async def body(world: World) -> None:
        volumes = disks(2)
        async with on(world, volumes) as cluster:
            await settled(cluster)
            lost = lying_in(cluster, SECOND)[0]
            if cluster.leader("orders", lost) == 1:
                await cluster.move_leader("orders", lost, 2)
            volumes[1].fail_next(Operation.APPEND, "*", OSError(errno.ENOSPC, "planted"))
            client = await world.client(cluster, cluster.leader("orders", lost))
            assert (await client.produce("orders", batch(b"1"), lost, acks=1)).error_code == 0
            await cluster.wait_for(lambda: 1 not in cluster.in_sync("orders", lost), "a smaller ISR")
            assert ("orders", lost) not in cluster.nodes[1].replicas.partitions
            assert len(cluster.nodes[1].replicas.partitions) == 2

    run(body)


def test_a_node_that_loses_its_last_directory_stops_and_says_why(run: Run) -> None:
    async def body(world: World) -> None:
        volumes = disks(2)
        async with on(world, volumes) as cluster:
            await settled(cluster)
            for volume in volumes:
                volume.break_disk(errno.EROFS)
            cluster.nodes[1].replicas.checkpoint_high_watermarks()
            await cluster.wait_for(lambda: 1 in cluster.failures, "that the node stops")
            assert "has failed, and it has no other log directory" in cluster.failures[1]
            assert "Read-only file system" in cluster.failures[1]

    run(body)


def test_a_node_that_starts_without_a_directory_does_not_make_its_replicas_anew(run: Run) -> None:
    async def body(world: World) -> None:
        volumes = disks(2)
        async with on(world, volumes) as cluster:
            await settled(cluster)
            lost, kept = lying_in(cluster, FIRST), lying_in(cluster, SECOND)
            await cluster.stop_node(1)
            for index in lost:
                leader = await world.client(cluster, cluster.leader("orders", index))
                assert (await leader.produce("orders", batch(b"1"), index)).error_code == 0
            volumes[0].break_disk()
            await cluster.start_node(1)
            assert sorted(index for _, index in cluster.nodes[1].replicas.partitions) == kept
            assert not any(name.startswith(f"orders-{lost[0]}") for name in volumes[1].directories())
            client = await world.client(cluster, 1)
            assert (await client.produce("orders", batch(b"2"), lost[0])).error_code == STORAGE_ERROR
            volumes[0].heal()
            await cluster.stop_node(1)
            await cluster.start_node(1)
            await cluster.wait_until_in_sync("orders")
            ends = [
                cluster.nodes[1].replicas.partitions["orders", index].log.log_end_offset for index in lost
            ]
            assert ends == [1] * len(lost)

    run(body)


@pytest.mark.parametrize("clean", [True, False])
def test_replicas_of_a_directory_that_was_replaced_are_fetched_anew(run: Run, clean: bool) -> None:
    async def body(world: World) -> None:
        volumes = disks(2)
        async with on(world, volumes) as cluster:
            await settled(cluster)
            lost = lying_in(cluster, FIRST)
            leaders = {index: await world.client(cluster, cluster.leader("orders", index)) for index in lost}
            for index, leader in leaders.items():
                assert (await leader.produce("orders", batch(b"1"), index)).error_code == 0
            # One that is killed is still a member of every ISR when it comes back.
            await cluster.stop_node(1, clean=clean)
            cluster.volumes.use(1, *disks(1), volumes[1], on_disk=True)
            await cluster.start_node(1)
            await cluster.wait_until_in_sync("orders")
            await settled(cluster)
            partitions = cluster.nodes[1].replicas.partitions
            assert lost
            assert [partitions["orders", index].log.log_end_offset for index in lost] == [1] * len(lost)

    run(body)


def test_a_node_does_not_start_without_any_directory(run: Run) -> None:
    async def body(world: World) -> None:
        volumes = disks(2)
        async with on(world, volumes) as cluster:
            await settled(cluster)
            await cluster.stop_node(1)
            for volume in volumes:
                volume.break_disk()
            with pytest.raises(LogDirError, match="cannot be used: Input/output error"):
                await cluster.start_node(1)

    run(body)


def test_a_deleted_topic_is_not_missed_where_its_directory_has_failed(run: Run) -> None:
    async def body(world: World) -> None:
        volumes = disks(2)
        async with on(world, volumes) as cluster:
            await settled(cluster)
            volumes[0].break_disk()
            cluster.nodes[1].replicas.checkpoint_log_starts()
            await cluster.wait_for(
                lambda: len(cluster.nodes[1].replicas.partitions) == 2, "that half is offline"
            )
            await cluster.delete_topic("orders")
            await cluster.create_topic("orders", 1)
            client = await world.client(cluster, 1)
            if cluster.leader("orders") != 1:
                await cluster.wait_until_in_sync("orders")
                await cluster.move_leader("orders", 0, 1)
            assert (await client.produce("orders", batch(b"1"))).error_code == 0

    run(body)


def test_a_directory_whose_space_is_not_known_does_not_hide_the_others(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OSError(errno.EIO, "planted")

    async def body(world: World) -> None:
        volumes = disks(2)
        monkeypatch.setattr(volumes[0], "space", refuse)
        async with on(world, volumes) as cluster:
            client = await world.client(cluster)
            described = await client.ask(DescribeLogDirsRequest(topics=None), 4, DescribeLogDirsResponse)
            found = [(each.log_dir, each.error_code, bool(each.topics)) for each in described.results]
            assert found == [(FIRST, -1, False), (SECOND, 0, True)]

    run(body)


async def reassign(world: World, cluster: AsyncCluster, replicas: list[int]) -> None:
    """Returns when the first partition is on these nodes."""
    request = AlterPartitionReassignmentsRequest
    partition = request.ReassignablePartition(partition_index=0, replicas=replicas)
    topic = request.ReassignableTopic(name="orders", partitions=[partition])
    client = await world.client(cluster, 2)
    answer = await client.ask(request(topics=[topic]), 0, AlterPartitionReassignmentsResponse)
    assert answer.error_code == answer.responses[0].partitions[0].error_code == 0

    def is_done() -> bool:
        partition = cluster.controller.state.image.topics["orders"].partitions[0]
        return partition.replicas == tuple(replicas) and not partition.is_reassigning

    await cluster.wait_for(is_done, f"replicas on {replicas}")


def test_a_replica_that_comes_back_is_made_in_a_directory_that_works(run: Run) -> None:
    async def body(world: World) -> None:
        volumes = disks(2)
        async with on(world, volumes) as cluster:
            await settled(cluster)
            lost = FIRST if 0 in lying_in(cluster, FIRST) else SECOND
            kept = SECOND if lost == FIRST else FIRST
            await reassign(world, cluster, [1, 2])
            volumes[(FIRST, SECOND).index(lost)].break_disk()
            cluster.nodes[1].replicas.checkpoint_log_starts()
            await cluster.wait_for(lambda: cluster.in_sync("orders", 0) == [2], "a smaller ISR")
            await reassign(world, cluster, [2, 3])
            await reassign(world, cluster, [2, 1])
            assert 0 in lying_in(cluster, kept)

    run(body)


def test_a_directory_that_fails_while_its_node_stops_leaves_no_timer(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(world: World) -> None:
        volumes = disks(2)
        async with on(world, volumes) as cluster:
            await settled(cluster)
            node = cluster.nodes[1]
            volumes[0].fail_next(Operation.FLUSH, "*", OSError(errno.EIO, "planted"), count=1000)
            await cluster.stop_node(1)
            assert f"takes {FIRST} offline" in caplog.text
            assert node.replicas._untold == []

    run(body)


@pytest.mark.parametrize("reachable", [True, False])
def test_a_node_that_cannot_tell_the_controller_of_a_failed_directory_stops(
    run: Run, reachable: bool
) -> None:
    async def body(world: World) -> None:
        volumes = disks(2)
        # By hand where the controller is told in time, however long the machine takes.
        config = {"log.dir.failure.timeout.ms": 600_000 if reachable else 200}
        cluster = world.cluster(3, topics={"orders": PARTITIONS}, config=config)
        cluster.volumes.use(1, *volumes, on_disk=True)
        async with cluster:
            await settled(cluster)
            if not reachable:
                cluster.cut_controller(1)
            volumes[0].break_disk(errno.EIO)
            cluster.nodes[1].replicas.checkpoint_high_watermarks()
            if reachable:
                node = cluster.nodes[1]
                await cluster.wait_for(
                    lambda: len(node.image.brokers[1].log_dirs) == 1, "that the controller knows"
                )
                failed = node.replicas.directories[0]
                assert failed.failure is not None
                node.replicas._check_told(failed, failed.failure)
                assert cluster.failures == {}
            else:
                await cluster.wait_for(lambda: 1 in cluster.failures, "that the node stops")
                assert "could not be told in time" in cluster.failures[1]

    run(body)
