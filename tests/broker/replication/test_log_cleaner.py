"""A node compacts its logs beside its other work: every replica, one log after the other; none blocks the rest."""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
from collections.abc import Callable

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.log.checkpoints import CLEANED, read_offsets
from ottla.broker.log.fs.faulty import Operation
from ottla.broker.log.log import Log
from ottla.wire.batches import encode_batch
from ottla.wire.messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from tests.broker.log.compacting import kept
from tests.broker.log.failing import FailingFileSystem
from tests.broker.replication.slow_disks import SlowDisk
from tests.broker.worlds import Body, Client, World, on_sockets

Run = Callable[[Body], object]

COMPACTED = {"cleanup.policy": "compact", "internal.segment.bytes": 300}
BACKOFF = 16
"""Longer than log.cleaner.backoff.ms."""
NOW = 1_700_000_000_000


def keyed(key: bytes, value: bytes | None) -> bytes:
    return encode_batch([(0, NOW, key, value, [])])


async def write(client: Client, topic: str, rounds: int = 20) -> None:
    for number in range(rounds):
        response = await client.produce(topic, keyed(b"key %d" % (number % 3), b"%d" % number))
        assert response.error_code == 0


def logs(cluster: AsyncCluster, topic: str = "orders", partition: int = 0) -> list[Log]:
    return [
        node.replicas.partitions[topic, partition].log
        for node in cluster.nodes.values()
        if (topic, partition) in node.replicas.partitions
    ]


def is_clean(log: Log) -> bool:
    return 0 < log.first_dirty_offset == log.segments[-1].base_offset


async def wait_until_clean(cluster: AsyncCluster, topic: str = "orders") -> None:
    cluster.clock.advance(BACKOFF)
    await cluster.wait_for(lambda: all(map(is_clean, logs(cluster, topic))), f"clean logs of {topic}")


def test_leader_and_followers_are_compacted_and_have_the_same_records(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3) as cluster:
            await cluster.create_topic("orders", replicas=3, config=COMPACTED)
            await write(await world.client(cluster, cluster.leader("orders")), "orders")
            ends = {log.log_end_offset for log in logs(cluster)}
            await cluster.wait_for(
                lambda: {log.log_end_offset for log in logs(cluster)} == {20},
                f"replicas with 20 records, not {ends}",
            )
            await wait_until_clean(cluster)
            leader, *followers = logs(cluster)
            assert len(kept(leader)) < 10
            assert {key: value for _, key, value in kept(leader)} == {
                b"key 0": b"18",
                b"key 1": b"19",
                b"key 2": b"17",
            }
            assert all(kept(follower) == kept(leader) for follower in followers)

    run(body)


def test_a_new_replica_of_a_compacted_log_gets_what_is_left(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(2) as cluster:
            await cluster.create_topic("orders", replicas=2, config=COMPACTED)
            await cluster.stop_node(2)
            await write(await world.client(cluster, 1), "orders")
            await wait_until_clean(cluster)
            cluster.clock.advance(10)
            await cluster.start_node(2)
            await cluster.wait_for(lambda: {log.log_end_offset for log in logs(cluster)} == {20}, "the copy")
            leader, follower = logs(cluster)
            assert kept(follower) == kept(leader)

    run(body)


@pytest.mark.parametrize("clean", [True, False])
def test_a_node_that_starts_again_knows_how_far_its_logs_are_clean(run: Run, clean: bool) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1) as cluster:
            await cluster.create_topic("orders", config=COMPACTED)
            await write(await world.client(cluster), "orders")
            await wait_until_clean(cluster)
            (log,) = logs(cluster)
            expected, offset = kept(log), log.first_dirty_offset
            await cluster.stop_node(1, clean=clean)
            (volume,) = cluster.volumes.of(1).values()
            assert read_offsets(volume, CLEANED)[log.directory] == offset
            cluster.clock.advance(10)
            await cluster.start_node(1)
            (again,) = logs(cluster)
            assert again is not log
            assert again.first_dirty_offset == offset
            assert kept(again) == expected

    run(body)


def test_nothing_is_compacted_where_the_cleaner_is_off(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, config={"log.cleaner.enable": False}) as cluster:
            await cluster.create_topic("orders", config=COMPACTED)
            await write(await world.client(cluster), "orders")
            cluster.clock.advance(BACKOFF)
            assert len(kept(logs(cluster)[0])) == 20
            assert await cluster.node(1).cleaner.clean_filthiest()
            assert len(kept(logs(cluster)[0])) < 10

    run(body)


def test_a_log_that_cannot_be_compacted_is_left_alone_and_others_are(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(world: World) -> None:
        fs = FailingFileSystem()
        cluster = world.cluster(1)
        cluster.volumes.use(1, fs)
        async with cluster:
            for topic in ("bad", "good"):
                await cluster.create_topic(topic, config=COMPACTED)
                await write(await world.client(cluster), topic)
            fs.fail_if(lambda call, path: "bad-0" in path and ".cleaned" in path)
            await wait_until_clean(cluster, "good")
            await cluster.wait_for(lambda: "bad-0 any more" in caplog.text, "an error")
            fs.mend()
            assert not await cluster.node(1).cleaner.clean_filthiest()
            (bad,) = logs(cluster, "bad")
            assert len(kept(bad)) == 20
            assert [record.levelno for record in caplog.records if "bad-0 any more" in record.message] == [
                logging.ERROR
            ]
            # Opened again, it gets another chance.
            await cluster.stop_node(1)
            await cluster.start_node(1)
            await wait_until_clean(cluster, "bad")
            assert cluster.failures == {}

    run(body)


def test_a_disk_that_refuses_what_compaction_writes_is_taken_offline(run: Run) -> None:
    async def body(world: World) -> None:
        fs, other = FailingFileSystem(), FailingFileSystem()
        cluster = world.cluster(1)
        cluster.volumes.use(1, fs, other, on_disk=True)
        async with cluster:
            await cluster.create_topic("bad", config=COMPACTED)
            await write(await world.client(cluster), "bad")
            (log,) = logs(cluster, "bad")
            failing = fs if log.directory in fs.directories() else other
            failing.fail_if(lambda call, path: ".cleaned" in path)
            node = cluster.node(1)
            await node.cleaner.clean_filthiest()
            await cluster.wait_for(lambda: ("bad", 0) not in node.replicas.partitions, "its logs to go")
            assert len(list(node.replicas.directories.online)) == 1
            assert cluster.failures == {}

    run(body)


async def flushing(cluster: AsyncCluster, disk: SlowDisk) -> asyncio.Future[bool]:
    """A pass that waits for the disk."""
    disk.fs.slow(1.0)
    slow = asyncio.ensure_future(cluster.node(1).cleaner.clean_filthiest())
    await cluster.wait_for(lambda: len(disk.threads) > 0, "a flush that takes long")
    return slow


def test_a_node_serves_while_the_disk_is_slow_with_a_compacted_segment() -> None:
    async def body(world: World) -> None:
        disk = SlowDisk()
        cluster = world.cluster(1)
        cluster.volumes.use(1, disk.fs, on_disk=True)
        async with cluster:
            await cluster.create_topic("orders", config=COMPACTED | {"internal.segment.bytes": 1_000_000})
            client = await world.client(cluster)
            await write(client, "orders")
            (log,) = logs(cluster)
            log.roll(NOW)
            await write(client, "orders", 1)
            slow = await flushing(cluster, disk)
            await write(client, "orders", 3)
            assert len(kept(log)) == 24
            disk.fs.slow(0)
            disk.go_on.set()
            assert await slow
            assert is_clean(log)
            assert len(kept(log)) == 7
            assert threading.get_ident() not in disk.threads

    on_sockets(body)


def test_a_topic_that_is_deleted_while_the_disk_is_slow_is_no_failure_of_the_disk() -> None:
    async def body(world: World) -> None:
        disk = SlowDisk()
        cluster = world.cluster(1)
        cluster.volumes.use(1, disk.fs, on_disk=True)
        async with cluster:
            await cluster.create_topic("orders", config=COMPACTED | {"internal.segment.bytes": 1_000_000})
            await write(await world.client(cluster), "orders")
            (log,) = logs(cluster)
            log.roll(NOW)
            slow = await flushing(cluster, disk)
            disk.fs.fail_next(Operation.FLUSH, "*.index.cleaned", OSError(errno.ENOENT, "planted"))
            # What the deletion itself flushes does not wait.
            disk.fs.slow(0)
            await cluster.delete_topic("orders")
            disk.go_on.set()
            assert not await slow
            assert len(cluster.node(1).replicas.directories.online) == 1
            assert cluster.failures == {}

    on_sockets(body)


def test_a_topic_that_is_deleted_during_a_pass_leaves_nothing(run: Run) -> None:
    async def body(world: World) -> None:
        # So slow that the pass is seen.
        async with world.cluster(1, config={"log.cleaner.io.max.bytes.per.second": 5000}) as cluster:
            await cluster.create_topic("orders", config=COMPACTED)
            await write(await world.client(cluster), "orders")
            cleaner = cluster.node(1).cleaner
            (log,) = logs(cluster)
            (volume,) = cluster.volumes.of(1).values()
            slow = asyncio.ensure_future(cleaner.clean_filthiest())
            await cluster.wait_for(
                lambda: any(".cleaned" in name for name in volume.list(log.directory)), "a pass"
            )
            cleaner.pause()
            await cluster.delete_topic("orders")
            cleaner.resume()
            assert not await slow
            assert volume.list(log.directory) == []
            assert cluster.failures == {}

    run(body)


def test_a_paused_node_compacts_nothing(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1) as cluster:
            await cluster.create_topic("orders", config=COMPACTED)
            await write(await world.client(cluster), "orders")
            cluster.pause_node(1)
            cluster.clock.advance(BACKOFF)
            await asyncio.sleep(0)
            (log,) = logs(cluster)
            assert log.first_dirty_offset == 0
            cluster.resume_node(1)
            await wait_until_clean(cluster)

    run(body)


# What the coordinators write is compacted as well.


async def commit(client: Client, offset: int) -> None:
    answer = await client.ask(
        OffsetCommitRequest(
            group_id="readers",
            generation_id_or_member_epoch=-1,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name="orders",
                    partitions=[
                        OffsetCommitRequest.OffsetCommitRequestPartition(
                            partition_index=0, committed_offset=offset
                        )
                    ],
                )
            ],
        ),
        8,
        OffsetCommitResponse,
    )
    assert answer.topics[0].partitions[0].error_code == 0


async def committed(client: Client) -> int:
    answer = await client.ask(
        OffsetFetchRequest(
            groups=[
                OffsetFetchRequest.OffsetFetchRequestGroup(
                    group_id="readers",
                    topics=[
                        OffsetFetchRequest.OffsetFetchRequestTopics(name="orders", partition_indexes=[0])
                    ],
                )
            ]
        ),
        8,
        OffsetFetchResponse,
    )
    return answer.groups[0].topics[0].partitions[0].committed_offset


def test_committed_offsets_survive_compaction_and_a_restart(run: Run) -> None:
    async def body(world: World) -> None:
        config = {"offsets.topic.num.partitions": 1, "offsets.topic.segment.bytes": 1024 * 1024}
        async with world.cluster(1, config=config, topics=["orders"]) as cluster:
            client = await world.client(cluster)
            await cluster.create_topic(
                "__consumer_offsets", config={"cleanup.policy": "compact", "internal.segment.bytes": 1000}
            )
            for offset in range(50):
                await commit(client, offset)
            await wait_until_clean(cluster, "__consumer_offsets")
            (log,) = logs(cluster, "__consumer_offsets")
            assert len(kept(log)) < 20
            await cluster.stop_node(1, clean=False)
            cluster.clock.advance(10)
            await cluster.start_node(1)
            assert await committed(await world.client(cluster)) == 49

    run(body)


async def initialized(client: Client) -> tuple[int, int]:
    """The producer id of a transactional id, and its epoch, which grows with each time."""
    answer = await client.ask(
        InitProducerIdRequest(transactional_id="ledger", transaction_timeout_ms=60_000),
        4,
        InitProducerIdResponse,
    )
    assert answer.error_code == 0
    return answer.producer_id, answer.producer_epoch


def test_transactional_ids_survive_compaction_and_a_restart(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, config={"transaction.state.log.num.partitions": 1}) as cluster:
            client = await world.client(cluster)
            await cluster.create_topic(
                "__transaction_state", config={"cleanup.policy": "compact", "internal.segment.bytes": 600}
            )
            producer_id, epoch = await initialized(client)
            for expected in range(epoch + 1, epoch + 30):
                assert await initialized(client) == (producer_id, expected)
            await wait_until_clean(cluster, "__transaction_state")
            (log,) = logs(cluster, "__transaction_state")
            assert len(kept(log)) < 15
            await cluster.stop_node(1, clean=False)
            cluster.clock.advance(10)
            await cluster.start_node(1)
            assert await initialized(await world.client(cluster)) == (producer_id, epoch + 30)

    run(body)
