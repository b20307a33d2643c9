"""Replicas move between the directories of a node, whatever happens to them and to the directories meanwhile."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Mapping

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.cluster.options import TopicSpec
from ottla.broker.log.fs.faulty import FaultyFileSystem, Operation
from ottla.broker.replication.log_dir_moves import FutureReplica, Stage
from ottla.broker.replication.partition import Partition
from ottla.errors import KafkaStorageError
from ottla.wire.messages import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from ottla.wire.records import decode_fetch
from tests.broker.worlds import Body, World, batch

Run = Callable[[Body], object]

FIRST, SECOND, THIRD = "/ottla/node-1", "/ottla/1/node-1", "/ottla/2/node-1"
STORAGE_ERROR = KafkaStorageError.code
SLOW = {"replica.alter.log.dirs.io.max.bytes.per.second": 1}
"""A move does not come far with that."""


def disks(count: int) -> list[FaultyFileSystem]:
    return [FaultyFileSystem(random.Random(number)) for number in range(count)]


def on(
    world: World,
    volumes: list[FaultyFileSystem],
    brokers: int = 1,
    topic: TopicSpec | None = None,
    config: Mapping[str, object] | None = None,
) -> AsyncCluster:
    """A cluster with one topic, of which the first node has its logs on these."""
    cluster = world.cluster(brokers, topics={"orders": topic or TopicSpec(1)}, config=config or {})
    cluster.volumes.use(1, *volumes, on_disk=True)
    return cluster


def replica(cluster: AsyncCluster) -> Partition:
    return cluster.nodes[1].replicas.partitions["orders", 0]


def path_of(cluster: AsyncCluster) -> str:
    return cluster.nodes[1].replicas.directories.of(replica(cluster).log).path


def other(cluster: AsyncCluster) -> str:
    return FIRST if path_of(cluster) == SECOND else SECOND


def known_path(cluster: AsyncCluster) -> str | None:
    """Where the controller believes the replica."""
    image = cluster.controller.state.image
    known = image.directory_of(image.topics["orders"].id, 0, 1)
    return next((each.path for each in cluster.nodes[1].replicas.directories if each.id == known), None)


async def alter(world: World, cluster: AsyncCluster, path: str) -> int:
    client = await world.client(cluster)
    request = AlterReplicaLogDirsRequest
    named = request.AlterReplicaLogDirTopic(name="orders", partitions=[0])
    directory = request.AlterReplicaLogDir(path=path, topics=[named])
    answer = await client.ask(request(dirs=[directory]), 2, AlterReplicaLogDirsResponse)
    return answer.results[0].partitions[0].error_code


async def described(world: World, cluster: AsyncCluster) -> dict[str, list[tuple[bool, int]]]:
    """(is future, lag) of the replica, by directory."""
    client = await world.client(cluster)
    answer = await client.ask(DescribeLogDirsRequest(topics=None), 4, DescribeLogDirsResponse)
    return {
        directory.log_dir: [
            (each.is_future_key, each.offset_lag) for topic in directory.topics for each in topic.partitions
        ]
        for directory in answer.results
    }


async def moved(cluster: AsyncCluster, path: str) -> None:
    await cluster.wait_for(
        lambda: replica(cluster).future is None and path_of(cluster) == path, f"the replica in {path}"
    )


async def told_of_the_failure(cluster: AsyncCluster, here: str) -> None:
    """The controller knows which directory is left; for a moment it may have believed the replica in the other."""
    image = cluster.controller.state.image
    await cluster.wait_for(
        lambda: (
            len(image.brokers[1].log_dirs) == 1
            and known_path(cluster) == here
            and cluster.leader("orders") == 1
            and replica(cluster).is_leader
        ),
        "that the controller knows",
    )


def values(partition: Partition) -> list[bytes | None]:
    log = partition.log
    data = b"".join(log.read(log.log_start_offset, 1 << 24).parts)
    return [record.value for record in decode_fetch(data, "orders", 0, offset=log.log_start_offset)]


async def write(world: World, cluster: AsyncCluster, *numbers: int) -> None:
    client = await world.client(cluster, cluster.leader("orders"))
    for number in numbers:
        assert (await client.produce("orders", batch(b"%d" % number))).error_code == 0


def numbered(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def names(volumes: list[FaultyFileSystem]) -> list[str]:
    """What there is of the replica, by the ends of the names."""
    found = [name for volume in volumes for name in volume.directories() if name.startswith("orders-0")]
    return sorted(name.rpartition("-")[2] for name in found)


def test_a_replica_moves_and_keeps_everything(run: Run) -> None:
    async def body(world: World) -> None:
        volumes = disks(2)
        async with on(world, volumes) as cluster:
            await write(world, cluster, *range(10))
            before, target = replica(cluster), other(cluster)
            producers, epochs = before.log.producers, before.log.epochs.entries
            assert await alter(world, cluster, target) == 0
            await moved(cluster, target)
            assert replica(cluster) is before
            assert values(before) == numbered(*range(10))
            assert before.log.producers is producers
            assert before.log.epochs.entries == epochs
            assert known_path(cluster) == target
            assert names(volumes) == ["0", "delete"]
            await write(world, cluster, 10)
            await cluster.stop_node(1)
            await cluster.start_node(1)
            assert path_of(cluster) == target
            assert values(replica(cluster)) == numbered(*range(11))

    run(body)


def test_the_old_files_go_after_a_delay(run: Run) -> None:
    async def body(world: World) -> None:
        volumes = disks(2)
        async with on(world, volumes, config={"log.segment.delete.delay.ms": 50}) as cluster:
            await write(world, cluster, 1)
            target = other(cluster)
            await alter(world, cluster, target)
            await moved(cluster, target)
            await cluster.wait_for(lambda: names(volumes) == ["0"], "that the files are removed")

    run(body)


def test_a_follower_moves_while_its_leader_writes(run: Run) -> None:
    async def body(world: World) -> None:
        async with on(world, disks(2), brokers=3) as cluster:
            await cluster.wait_until_in_sync("orders")
            if cluster.leader("orders") == 1:
                await cluster.move_leader("orders", 0, 2)
            for turn in range(4):
                await write(world, cluster, *range(10 * turn, 10 * turn + 5))
                target = other(cluster)
                assert await alter(world, cluster, target) == 0
                await write(world, cluster, *range(10 * turn + 5, 10 * turn + 10))
                await moved(cluster, target)
            await cluster.wait_for(lambda: replica(cluster).log.log_end_offset == 40, "all records")
            assert values(replica(cluster)) == numbered(*range(40))
            assert 1 in cluster.in_sync("orders")

    run(body)


def test_a_move_is_described_with_its_lag(run: Run) -> None:
    async def body(world: World) -> None:
        async with on(world, disks(2), config=SLOW) as cluster:
            await write(world, cluster, *range(5))
            here, there = path_of(cluster), other(cluster)
            await alter(world, cluster, there)
            await cluster.wait_for(
                lambda: (future := replica(cluster).future) is not None and future.log_end_offset == 5,
                "the first slice",
            )
            await write(world, cluster, 5, 6)
            assert await described(world, cluster) == {here: [(False, 0)], there: [(True, 2)]}

    run(body)


def test_a_move_is_cancelled_by_the_current_directory_and_replaced_by_another(run: Run) -> None:
    async def body(world: World) -> None:
        volumes = disks(3)
        async with on(world, volumes, config=SLOW) as cluster:
            await write(world, cluster, 1)
            here = path_of(cluster)
            second, third = (path for path in (FIRST, SECOND, THIRD) if path != here)
            await alter(world, cluster, second)
            assert await alter(world, cluster, second) == 0
            assert names(volumes) == ["0", "future"]
            await alter(world, cluster, here)
            assert replica(cluster).future is None
            assert names(volumes) == ["0", "delete"]
            await alter(world, cluster, second)
            await alter(world, cluster, third)
            assert names(volumes) == ["0", "delete", "delete", "future"]
            assert await described(world, cluster) == {here: [(False, 0)], second: [], third: [(True, 1)]}
            assert values(replica(cluster)) == numbered(1)

    run(body)


def test_a_cancelled_move_that_the_controller_has_accepted_is_taken_back_there(run: Run) -> None:
    async def body(world: World) -> None:
        async with on(world, disks(2), brokers=2) as cluster:
            await cluster.wait_until_in_sync("orders")
            here, there = path_of(cluster), other(cluster)
            await cluster.wait_for(lambda: known_path(cluster) == here, "that the controller knows")
            move = begin(cluster, there)
            move.stage = Stage.ANNOUNCED
            cluster.nodes[1].replicas._assignments.assign(
                replica(cluster).topic_id, 0, move.directory.id, lambda: None
            )
            await cluster.wait_for(
                lambda: known_path(cluster) == there, "that the controller believes it there"
            )
            await alter(world, cluster, here)
            await cluster.wait_for(lambda: known_path(cluster) == here, "that it is taken back")

    run(body)


def begin(cluster: AsyncCluster, path: str) -> FutureReplica:
    """A move that goes on only by hand."""
    moves = cluster.nodes[1].replicas._moves
    (directory,) = (each for each in cluster.nodes[1].replicas.directories if each.path == path)
    partition = replica(cluster)
    log = directory.open_future(
        "orders-0", partition.topic_id, partition.log.config, 0, cluster.nodes[1].runtime.random
    )
    move = moves.moves[partition.key] = FutureReplica(partition, directory, log)
    partition.future = log
    return move


@pytest.mark.parametrize("clean", [True, False])
def test_a_move_goes_on_after_a_restart(run: Run, clean: bool) -> None:
    async def body(world: World) -> None:
        volumes = disks(2)
        async with on(world, volumes) as cluster:
            await write(world, cluster, *range(8))
            there = other(cluster)
            move = begin(cluster, there)
            move.copy(1, 0)
            assert move.lag == 7
            assert names(volumes) == ["0", "future"]
            await cluster.stop_node(1, clean=clean)
            if not clean:
                await cluster.fence_node(1)
                for volume in volumes:
                    volume.crash()
            await cluster.start_node(1)
            await moved(cluster, there)
            await cluster.wait_for(lambda: cluster.leader("orders") == 1, "a leader")
            await write(world, cluster, 8)
            assert values(replica(cluster)) == numbered(*range(9))
            assert names(volumes) == ["0", "delete"]

    run(body)


def test_a_move_that_was_accepted_before_a_restart_is_finished_without_loss(run: Run) -> None:
    async def body(world: World) -> None:
        async with on(world, disks(2)) as cluster:
            await write(world, cluster, *range(4))
            there = other(cluster)
            move = begin(cluster, there)
            move.copy(1 << 20, 0)
            cluster.nodes[1].replicas._assignments.assign(replica(cluster).topic_id, 0, move.directory.id)
            await cluster.wait_for(lambda: known_path(cluster) == there, "that the controller knows")
            await write(world, cluster, 4)
            await cluster.stop_node(1)
            await cluster.start_node(1)
            await moved(cluster, there)
            assert values(replica(cluster)) == numbered(*range(5))
            assert known_path(cluster) == there

    run(body)


async def accepted(cluster: AsyncCluster) -> str:
    """Begins a move that goes on only by hand, and whose new directory the controller knows already; its path."""
    there = other(cluster)
    move = begin(cluster, there)
    move.copy(1 << 20, 0)
    cluster.nodes[1].replicas._assignments.assign(replica(cluster).topic_id, 0, move.directory.id)
    await cluster.wait_for(lambda: known_path(cluster) == there, "that the controller knows")
    move.stage = Stage.ACCEPTED
    return there


@pytest.mark.parametrize("lost", ["old", "new"])
def test_a_replica_on_the_move_waits_for_a_directory_that_is_offline_when_its_node_starts(
    run: Run, lost: str
) -> None:
    async def body(world: World) -> None:
        volumes = disks(2)
        async with on(world, volumes) as cluster:
            await write(world, cluster, *range(4))
            here = path_of(cluster)
            there = await accepted(cluster)
            await write(world, cluster, 4)
            volume = volumes[(FIRST, SECOND).index(here if lost == "old" else there)]
            await cluster.stop_node(1)
            volume.break_disk()
            for _ in range(2):
                await cluster.start_node(1)
                assert ("orders", 0) not in cluster.nodes[1].replicas.partitions
                assert await alter(world, cluster, path_of_online(cluster)) == STORAGE_ERROR
                await cluster.wait_for(lambda: cluster.leader("orders") == -1, "that none leads")
                await cluster.stop_node(1)
            volume.heal()
            await cluster.start_node(1)
            await cluster.wait_for(lambda: cluster.leader("orders") == 1, "a leader")
            await moved(cluster, there)
            await cluster.wait_for(lambda: known_path(cluster) == there, "that the controller knows")
            await write(world, cluster, 5)
            assert values(replica(cluster)) == numbered(*range(6))

    run(body)


def path_of_online(cluster: AsyncCluster) -> str:
    (directory,) = cluster.nodes[1].replicas.directories.online
    return directory.path


@pytest.mark.parametrize("broken", ["directory", "log"])
def test_others_lead_where_only_the_copy_of_a_replica_can_be_read(run: Run, broken: str) -> None:
    async def body(world: World) -> None:
        volumes = disks(2)
        unclean = TopicSpec(1, config={"unclean.leader.election.enable": "true"})
        async with on(world, volumes, brokers=2, topic=unclean) as cluster:
            await cluster.wait_until_in_sync("orders")
            await write(world, cluster, *range(4))
            volume = volumes[(FIRST, SECOND).index(path_of(cluster))]
            there = await accepted(cluster)
            await write(world, cluster, 4)
            await cluster.stop_node(2)
            await cluster.stop_node(1)
            if broken == "directory":
                volume.break_disk()
            else:
                volume.fail_next(Operation.READ, "orders-0/*", OSError(errno.EIO, "planted"), count=1000)
            await cluster.start_node(1)
            await cluster.start_node(2)
            await cluster.wait_for(lambda: cluster.leader("orders") == 2, "another leader")
            await write(world, cluster, 5)
            volume.heal()
            await cluster.stop_node(1)
            await cluster.start_node(1)
            await cluster.wait_until_in_sync("orders")
            await moved(cluster, there)
            assert values(replica(cluster)) == numbered(*range(6))

    run(body)


def test_the_controller_is_told_again_where_a_replica_lies_whose_move_it_has_not_heard_of(run: Run) -> None:
    async def body(world: World) -> None:
        volumes = disks(3)
        async with on(world, volumes) as cluster:
            await write(world, cluster, 1)
            here = path_of(cluster)
            second, third = (path for path in (FIRST, SECOND, THIRD) if path != here)
            (wrong,) = (each for each in cluster.nodes[1].replicas.directories if each.path == second)
            cluster.nodes[1].replicas._assignments.assign(replica(cluster).topic_id, 0, wrong.id)
            await cluster.wait_for(lambda: known_path(cluster) == second, "what the controller believes")
            begin(cluster, third)
            await cluster.stop_node(1)
            # So the move does not come any further.
            volumes[(FIRST, SECOND, THIRD).index(here)].flip_bit("orders-0/00000000000000000000.log", 61)
            await cluster.start_node(1)
            assert replica(cluster).future is not None
            await cluster.wait_for(lambda: known_path(cluster) == here, "that the controller knows")

    run(body)


def test_of_two_logs_that_a_swap_has_left_the_start_stays(run: Run) -> None:
    async def body(world: World) -> None:
        volumes = disks(2)
        async with on(world, volumes) as cluster:
            await write(world, cluster, 0, 1, 2)
            there = other(cluster)
            move = begin(cluster, there)
            replica(cluster).delete_records(2)
            move.copy(1 << 20, 0)
            await cluster.stop_node(1)
            volumes[(FIRST, SECOND).index(there)].rename_directory(move.log.directory, "orders-0")
            await cluster.start_node(1)
            assert values(replica(cluster)) == numbered(2)

    run(body)


@pytest.mark.parametrize("went_on", ["old", "new", "neither"])
def test_of_two_logs_that_a_swap_has_left_the_one_with_more_counts(run: Run, went_on: str) -> None:
    async def body(world: World) -> None:
        volumes = disks(2)
        async with on(world, volumes) as cluster:
            await write(world, cluster, 0, 1)
            here, there = path_of(cluster), other(cluster)
            move = begin(cluster, there)
            move.copy(1 << 20, 0)
            await write(world, cluster, 2)
            if went_on != "old":
                move.copy(1 << 20, 0)
            log = move.log
            await cluster.stop_node(1)
            volumes[(FIRST, SECOND).index(there)].rename_directory(log.directory, "orders-0")
            if went_on == "new":
                volume = volumes[(FIRST, SECOND).index(here)]
                file = volume.open("orders-0/00000000000000000000.log")
                file.truncate(0)
            await cluster.start_node(1)
            assert values(replica(cluster)) == numbered(0, 1, 2)
            assert names(volumes) == ["0", "delete"]
            assert path_of(cluster) == (there if went_on == "new" else here)

    run(body)


def test_a_directory_that_fails_ends_the_moves_to_it_and_the_replica_is_served_on(run: Run) -> None:
    async def body(world: World) -> None:
        volumes = disks(2)
        async with on(world, volumes, config=SLOW) as cluster:
            await write(world, cluster, 1)
            here, there = path_of(cluster), other(cluster)
            await alter(world, cluster, there)
            volumes[(FIRST, SECOND).index(there)].break_disk(errno.EIO)
            cluster.nodes[1].replicas.checkpoint_recovery_points()
            await cluster.wait_for(lambda: replica(cluster).future is None, "that the move ends")
            await told_of_the_failure(cluster, here)
            await write(world, cluster, 2)
            assert await alter(world, cluster, there) == STORAGE_ERROR
            assert await alter(world, cluster, here) == 0
            assert values(replica(cluster)) == numbered(1, 2)

    run(body)


def test_a_copy_that_cannot_be_closed_does_not_keep_its_directory_online(run: Run) -> None:
    async def body(world: World) -> None:
        volumes = disks(2)
        async with on(world, volumes, config=SLOW) as cluster:
            await write(world, cluster, 1)
            here, there = path_of(cluster), other(cluster)
            await alter(world, cluster, there)
            target = volumes[(FIRST, SECOND).index(there)]
            target.fail_next(Operation.FLUSH, "*", OSError(errno.EIO, "planted"), count=1000)
            cluster.nodes[1].replicas.checkpoint_recovery_points()
            await cluster.wait_for(lambda: replica(cluster).future is None, "that the move ends")
            await told_of_the_failure(cluster, here)
            await write(world, cluster, 2)

    run(body)


@pytest.mark.parametrize("operation", [Operation.CREATE, Operation.APPEND, Operation.FLUSH, Operation.RENAME])
def test_a_move_that_the_other_disk_refuses_leaves_the_replica_where_it_is(
    run: Run, operation: Operation
) -> None:
    async def body(world: World) -> None:
        volumes = disks(2)
        async with on(world, volumes) as cluster:
            await write(world, cluster, *range(3))
            here, there = path_of(cluster), other(cluster)
            await cluster.wait_for(lambda: known_path(cluster) == here, "that the controller knows")
            target = volumes[(FIRST, SECOND).index(there)]
            # That of the directory, in the swap, and not those of small files in it.
            pattern = "orders-0" if operation is Operation.RENAME else "orders-0*"
            target.fail_next(operation, pattern, OSError(errno.EIO, "planted"), count=1000)
            assert await alter(world, cluster, there) in (0, STORAGE_ERROR)
            await cluster.wait_for(
                lambda: len(cluster.nodes[1].replicas.directories.online) == 1,
                "that the directory is offline",
            )
            assert replica(cluster).future is None
            await told_of_the_failure(cluster, here)
            await write(world, cluster, 3)
            assert (path_of(cluster), values(replica(cluster))) == (here, numbered(*range(4)))
            await cluster.wait_for(lambda: known_path(cluster) == here, "that the controller knows")

    run(body)


def test_the_failure_of_the_old_directory_takes_the_replica_with_it(run: Run) -> None:
    async def body(world: World) -> None:
        volumes = disks(2)
        async with on(world, volumes, brokers=2) as cluster:
            await cluster.wait_until_in_sync("orders")
            await write(world, cluster, 1)
            here, there = path_of(cluster), other(cluster)
            move = begin(cluster, there)
            move.stage = Stage.ANNOUNCED
            cluster.nodes[1].replicas._assignments.assign(
                replica(cluster).topic_id, 0, move.directory.id, lambda: None
            )
            await cluster.wait_for(
                lambda: known_path(cluster) == there, "that the controller believes it there"
            )
            volumes[(FIRST, SECOND).index(here)].break_disk()
            cluster.nodes[1].replicas.checkpoint_recovery_points()
            await cluster.wait_for(lambda: cluster.leader("orders") == 2, "another leader")
            assert await alter(world, cluster, there) == STORAGE_ERROR

    run(body)


def test_a_topic_that_is_deleted_takes_its_copy_with_it(run: Run) -> None:
    async def body(world: World) -> None:
        volumes = disks(2)
        async with on(world, volumes, config=SLOW) as cluster:
            await write(world, cluster, 1)
            await alter(world, cluster, other(cluster))
            await cluster.delete_topic("orders")
            assert names(volumes) == ["delete", "delete"]

    run(body)


def test_a_copy_follows_the_start_and_the_cuts_of_the_log(run: Run) -> None:
    async def body(world: World) -> None:
        async with on(world, disks(2)) as cluster:
            await write(world, cluster, *range(6))
            partition = replica(cluster)
            move = begin(cluster, other(cluster))
            move.copy(1 << 20, 0)
            assert move.is_equal
            partition.delete_records(2)
            partition.truncate_to(4)
            await write(world, cluster, 14, 15)
            assert (move.lag, move.is_equal) == (0, False)
            move.copy(1 << 20, 0)
            assert move.is_equal
            assert (move.log.log_start_offset, move.log.log_end_offset) == (2, 6)
            assert move.log.read(2, 1 << 20).parts == partition.log.read(2, 1 << 20).parts
            partition.truncate_fully(9)
            move.copy(1 << 20, 0)
            assert (move.log.log_start_offset, move.log.log_end_offset) == (9, 9)

    run(body)


def test_a_copy_begins_within_a_batch_where_the_log_does(run: Run) -> None:
    async def body(world: World) -> None:
        async with on(world, disks(2)) as cluster:
            client = await world.client(cluster)
            await client.produce("orders", batch(*numbered(*range(10))))
            replica(cluster).delete_records(5)
            there = other(cluster)
            await alter(world, cluster, there)
            await moved(cluster, there)
            assert values(replica(cluster)) == numbered(*range(5, 10))

    run(body)


def test_a_replica_that_does_not_exist_yet_is_made_where_it_was_wanted(run: Run) -> None:
    async def body(world: World) -> None:
        cluster = world.cluster(1)
        cluster.volumes.use(1, *disks(2), on_disk=True)
        async with cluster:
            assert await alter(world, cluster, SECOND) == 3
            await cluster.create_topic("orders", 1)
            assert path_of(cluster) == SECOND

    run(body)


def test_a_damaged_batch_is_not_copied(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def body(world: World) -> None:
        volumes = disks(2)
        async with on(world, volumes) as cluster:
            await write(world, cluster, 1)
            here, there = path_of(cluster), other(cluster)
            volumes[(FIRST, SECOND).index(here)].flip_bit("orders-0/00000000000000000000.log", 61)
            await alter(world, cluster, there)
            await cluster.wait_for(lambda: "any further" in caplog.text, "an error in the log")
            assert await described(world, cluster) == {here: [(False, 0)], there: [(True, 1)]}
            assert await alter(world, cluster, here) == 0

    run(body)


def test_a_replica_is_not_compacted_while_it_moves_and_is_afterwards(run: Run) -> None:
    async def body(world: World) -> None:
        spec = TopicSpec(1, config={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
        async with on(world, disks(2), topic=spec) as cluster:
            cluster.seed("orders", [(b"k", b"1"), (b"k", b"2")])
            replica(cluster).log.roll(0)
            move = begin(cluster, other(cluster))
            cleaner = cluster.nodes[1].cleaner
            assert not await cleaner.clean_filthiest()
            await alter(world, cluster, path_of(cluster))
            assert replica(cluster).future is None
            assert move.partition is replica(cluster)
            assert await cleaner.clean_filthiest()

    run(body)
