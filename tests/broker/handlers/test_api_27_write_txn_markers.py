"""WriteTxnMarkers: control batches, who is fenced, and what a reader of committed data sees when they come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.log.transactions import read_marker
from ottla.wire.batches import batch_headers
from ottla.wire.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from tests.broker.coordinator.scripted import ScriptedCoordinator
from tests.broker.handlers.transactions import (
    TV1,
    Producer,
    aborted,
    codes_of,
    fetch_committed,
    write_markers,
)
from tests.broker.worlds import Body as WorldBody
from tests.broker.worlds import World, batch, in_simulation

Run = Callable[[WorldBody], object]
Body = Callable[[World, AsyncCluster, Producer], Awaitable[None]]

UNKNOWN_PARTITION, NOT_LEADER, TIMED_OUT, NOT_ENOUGH_REPLICAS = 3, 6, 7, 19
INVALID_EPOCH, COORDINATOR_FENCED, UNKNOWN_SERVER_ERROR = 47, 52, -1
ORDERS = ("orders", 0)


def played(run: Run, body: Body, brokers: int = 1, **config: object) -> None:
    async def main(world: World) -> None:
        named = {name.replace("_", "."): value for name, value in config.items()}
        async with world.cluster(brokers, topics={"orders": 2}, config=named) as cluster:
            ScriptedCoordinator().install([cluster.node(number) for number in range(1, brokers + 1)])
            client = await world.client(cluster, cluster.leader("orders"))
            await body(world, cluster, Producer(client))

    run(main)


def test_a_marker_is_a_control_batch_of_its_producer(run: Run) -> None:
    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        await producer.send(b"1", b"2", b"3")
        assert await producer.end(coordinator_epoch=5) == [0]
        found = await producer.client.fetch("orders", 3)
        (header,) = batch_headers(bytes(found.records or b""))
        assert (header.base_offset, header.is_control, header.is_transactional) == (3, True, True)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1, 1, -1)
        marker = read_marker(bytes(found.records or b""))
        assert marker is not None
        assert (marker.is_abort, marker.coordinator_epoch) == (False, 5)

    played(run, body)


def test_committed_records_are_stable_and_aborted_ones_are_named(run: Run) -> None:
    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        p, q = producer, Producer(producer.client, id=2)
        await p.send(b"p")
        await q.send(b"q")
        stable = [cluster.partition("orders").last_stable_offset]
        await p.end()
        stable.append(cluster.partition("orders").last_stable_offset)
        await q.end(commit=False)
        stable.append(cluster.partition("orders").last_stable_offset)
        assert stable == [0, 1, 4]
        found = await fetch_committed(p.client)
        assert (found.last_stable_offset, found.high_watermark, aborted(found)) == (4, 4, [(2, 1)])
        assert aborted(await fetch_committed(p.client, isolation=0)) is None

    played(run, body)


def test_a_marker_without_data_moves_and_names_nothing(run: Run) -> None:
    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        await producer.client.produce("orders", batch(b"plain"))
        assert await producer.end(commit=False) == [0]
        found = await fetch_committed(producer.client)
        assert (found.last_stable_offset, aborted(found)) == (2, [])

    played(run, body)


def test_an_older_coordinator_is_fenced(run: Run) -> None:
    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        await producer.send(b"1")
        await producer.end(coordinator_epoch=3)
        assert await producer.end(coordinator_epoch=2) == [COORDINATOR_FENCED]
        assert await producer.end(coordinator_epoch=3) == [0]
        assert cluster.partition("orders").log.log_end_offset == 3

    played(run, body)


@pytest.mark.parametrize(
    ("transaction_version", "epoch", "code"),
    [(1, 3, 0), (1, 2, INVALID_EPOCH), (1, 4, 0), (2, 3, INVALID_EPOCH), (2, 4, 0), (2, 2, INVALID_EPOCH)],
)
def test_the_epoch_of_a_marker_is_that_of_its_transaction_or_the_next_one(
    transaction_version: int, epoch: int, code: int
) -> None:
    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        producer.epoch = 3
        await producer.send(b"1")
        assert await producer.end(version=transaction_version, epoch=epoch) == [code]
        assert cluster.partition("orders").last_stable_offset == (0 if code else 2)

    played(in_simulation, body)


@pytest.mark.parametrize("transaction_version", [1, 2])
def test_a_marker_that_comes_again_is_written_again(transaction_version: int) -> None:
    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        await producer.send(b"1")
        for _ in range(2):
            codes = await write_markers(
                producer.client, 1, 1, ORDERS, commit=False, transaction_version=transaction_version
            )
            assert codes == [0]
        found = await fetch_committed(producer.client)
        assert (found.last_stable_offset, aborted(found)) == (3, [(1, 0)])

    played(in_simulation, body)


def test_an_administrator_aborts_with_the_epoch_of_the_data_and_version_1() -> None:
    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        await producer.send(b"1")
        marker = WriteTxnMarkersRequest.WritableTxnMarker(
            producer_id=1,
            producer_epoch=0,
            transaction_result=False,
            topics=[WriteTxnMarkersRequest.WritableTxnMarkerTopic(name="orders", partition_indexes=[0])],
        )
        request = WriteTxnMarkersRequest(markers=[marker])
        response = await producer.client.ask(request, 1, WriteTxnMarkersResponse)
        assert codes_of(response, 1, ORDERS) == [0]
        assert cluster.partition("orders").last_stable_offset == 2

    played(in_simulation, body)


def test_many_markers_are_answered_by_their_producers() -> None:
    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        def marker(
            producer_id: int, *partitions: tuple[str, int]
        ) -> WriteTxnMarkersRequest.WritableTxnMarker:
            return WriteTxnMarkersRequest.WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=0,
                transaction_result=True,
                topics=[
                    WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=name, partition_indexes=[index])
                    for name, index in partitions
                ],
            )

        request = WriteTxnMarkersRequest(
            markers=[marker(1, ORDERS, ("payments", 0)), marker(2, ORDERS, ("orders", 1)), marker(3)]
        )
        response = await producer.client.ask(request, 2, WriteTxnMarkersResponse)
        assert codes_of(response, 1, ORDERS, ("payments", 0)) == [0, UNKNOWN_PARTITION]
        assert codes_of(response, 2, ORDERS, ("orders", 1)) == [0, 0]
        assert codes_of(response, 3) == []
        assert cluster.partition("orders").log.log_end_offset == 2
        empty = await producer.client.ask(WriteTxnMarkersRequest(), 2, WriteTxnMarkersResponse)
        assert empty.markers == []

    played(in_simulation, body)


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (1, -1)])
def test_a_marker_of_no_producer_fails_the_request(producer_id: int, epoch: int) -> None:
    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        assert await write_markers(producer.client, producer_id, epoch, ORDERS) == [UNKNOWN_SERVER_ERROR]
        assert cluster.partition("orders").log.log_end_offset == 0

    played(in_simulation, body)


def test_a_reader_at_the_last_stable_offset_hears_of_no_aborted_transaction() -> None:
    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        await producer.send(b"open")
        other = Producer(producer.client, id=2)
        await other.send(b"aborted")
        assert await other.end(commit=False) == [0]
        found = await fetch_committed(producer.client)
        assert (found.last_stable_offset, found.records, aborted(found)) == (0, b"", [])

    played(in_simulation, body)


def test_a_replica_that_does_not_lead_says_so() -> None:
    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        follower = cluster.leader("orders") % 3 + 1
        client = await world.client(cluster, follower)
        assert await write_markers(client, 1, 0, ORDERS) == [NOT_LEADER]

    played(in_simulation, body, brokers=3)


def test_a_marker_waits_for_its_replicas_and_so_do_the_readers_of_committed_data() -> None:
    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        await producer.send(b"1", b"2", b"3")
        partition, leader = cluster.partition("orders"), cluster.leader("orders")
        for other in {1, 2, 3} - {leader}:
            cluster.cut_link(leader, other)
        ending = asyncio.ensure_future(producer.end())
        await cluster.wait_for(lambda: partition.log.log_end_offset == 4)
        assert (partition.last_stable_offset, partition.high_watermark) == (0, 3)
        for other in {1, 2, 3} - {leader}:
            cluster.heal_link(leader, other)
        assert await ending == [0]
        assert partition.last_stable_offset == 4

    played(in_simulation, body, brokers=3)


def test_a_marker_that_is_not_replicated_in_time_says_so_and_stays() -> None:
    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        await producer.send(b"1")
        partition, leader = cluster.partition("orders"), cluster.leader("orders")
        for other in {1, 2, 3} - {leader}:
            cluster.cut_link(leader, other)
        assert await producer.end() == [TIMED_OUT]
        assert partition.log.log_end_offset == 2

    # The followers stay in sync for longer than the request may take.
    played(in_simulation, body, brokers=3, request_timeout_ms=2000, replica_lag_time_max_ms=60_000)


def test_too_few_replicas_take_no_marker() -> None:
    async def main(world: World) -> None:
        async with world.cluster(2, config={"min.insync.replicas": 2}) as cluster:
            await cluster.create_topic("orders", 1, replicas=2)
            leader = cluster.leader("orders")
            await cluster.stop_node(leader % 2 + 1)
            await cluster.wait_for(lambda: cluster.in_sync("orders") == [leader])
            client = await world.client(cluster, leader)
            assert await write_markers(client, 1, 0, ORDERS) == [NOT_ENOUGH_REPLICAS]

    in_simulation(main)


def test_a_reader_of_committed_data_waits_for_bytes_that_are_committed(run: Run) -> None:
    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        reader = await world.client(cluster)
        await producer.send(b"x" * 5000)
        reading = asyncio.ensure_future(fetch_committed(reader, max_wait=600_000, min_bytes=1000))
        fetches = cluster.node(1).replicas.fetches
        await cluster.wait_for(lambda: len(fetches) == 1)
        await producer.send(b"y" * 5000)
        assert len(fetches) == 1, "none of it is stable"
        assert await producer.end() == [0]
        found = await reading
        assert len(found.records or b"") > 10_000
        assert (found.last_stable_offset, aborted(found)) == (3, [])

    played(run, body)


def test_too_few_stable_bytes_do_not_end_the_wait() -> None:
    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        reader = await world.client(cluster)
        open_one = Producer(producer.client, id=2)
        await producer.send(b"x" * 100)
        await open_one.send(b"z" * 5000)
        reading = asyncio.ensure_future(fetch_committed(reader, max_wait=3_000, min_bytes=1000))
        begin = world.runtime.clock.monotonic()
        fetches = cluster.node(1).replicas.fetches
        await cluster.wait_for(lambda: len(fetches) == 1)
        assert await producer.end() == [0]
        found = await reading
        assert world.runtime.clock.monotonic() - begin >= 2.9
        assert found.last_stable_offset == 1
        assert 100 < len(found.records or b"") < 1000

    played(in_simulation, body)


def test_a_follower_that_serves_reads_knows_what_is_stable_and_what_was_aborted() -> None:
    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        follower = cluster.leader("orders") % 3 + 1
        reader = await world.client(cluster, follower)
        await producer.send(b"x" * 5000)
        replica = cluster.node(follower).replicas
        await cluster.wait_for(lambda: replica.partitions[ORDERS].high_watermark == 1)
        reading = asyncio.ensure_future(fetch_committed(reader, max_wait=600_000, min_bytes=1000))
        await cluster.wait_for(lambda: ORDERS in replica.fetches._parked)
        assert await producer.end(commit=False) == [0]
        found = await reading
        assert (found.last_stable_offset, aborted(found)) == (2, [(1, 0)])

    played(in_simulation, body, brokers=3)


def test_what_was_aborted_is_told_over_segments_in_the_order_of_the_markers() -> None:
    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        producers = [Producer(producer.client, id=number, version=TV1) for number in (1, 2, 3)]
        for each in producers:
            await each.send(b"x")
        cluster.partition("orders").log.roll(int(world.runtime.clock.time() * 1000))
        for each in (producers[2], producers[0]):
            await each.end(commit=False)
        cluster.partition("orders").log.roll(int(world.runtime.clock.time() * 1000))
        await producers[1].end()
        found = await fetch_committed(producer.client)
        assert aborted(found) == [(3, 2), (1, 0)]
        assert aborted(await fetch_committed(producer.client, offset=4)) == [(1, 0)]
        assert aborted(await fetch_committed(producer.client, offset=5)) == []

    played(in_simulation, body)
