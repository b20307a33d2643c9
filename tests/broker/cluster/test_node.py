"""A node that cannot go on stops serving and says why: it never serves what it no longer keeps up with."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.cluster.node import NodeFailedError
from ottla.broker.metadata import controller_channel
from ottla.broker.metadata.records import read_records
from ottla.errors import KafkaStorageError
from ottla.net.channel import Channel
from ottla.wire.messages import ListOffsetsRequest, ListOffsetsResponse
from tests.broker.log.failing import FailingFileSystem
from tests.broker.worlds import Body, World, batch

Run = Callable[[Body], object]

SESSION = 10
"""Longer than broker.session.timeout.ms."""


def planted(*args: Any, **options: Any) -> NoReturn:
    raise LookupError("planted")


def on(world: World, fs: FailingFileSystem, brokers: int = 3, **options: Any) -> AsyncCluster:
    """A cluster, of which the first node has its logs on this volume."""
    cluster = world.cluster(brokers, **options)
    cluster.volumes.use(1, fs)
    return cluster


def fail_first_open(fs: FailingFileSystem, name: str) -> None:
    """The next log whose directory has `name` cannot be opened, once."""

    def fails(call: str, path: str) -> bool:
        if call == "open" and name in path:
            fs.mend()
            return True
        return False

    fs.fail_if(fails)


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


async def create(cluster: AsyncCluster, topic: str) -> None:
    """The node that is asked to forward it may be the one that then fails."""
    with contextlib.suppress(NodeFailedError):
        await cluster.create_topic(topic)
    await cluster.wait_for(lambda: bool(cluster.failures), "a node that stops")


async def check_gone(world: World, cluster: AsyncCluster, host: str, port: int, victim: int) -> None:
    """Nobody listens there, and the cluster says which node is missing and why."""
    await cluster.wait_for(lambda: victim not in cluster.nodes, "the end of the node")
    await cluster._failed[victim].stop()
    with pytest.raises(ConnectionRefusedError):
        await Channel.open(world.runtime, host, port, client_id="test")


async def check_comes_back(world: World, cluster: AsyncCluster, topic: str, victim: int) -> None:
    """The others lead on; the node is started again, and leads."""

    def another_leads() -> bool:
        leader = cluster.leader(topic)
        replica = (
            cluster.nodes[leader].replicas.partitions.get((topic, 0)) if leader in cluster.nodes else None
        )
        return replica is not None and replica.is_leader

    cluster.clock.advance(SESSION)
    await cluster.wait_for(another_leads, "another leader")
    leader = cluster.leader(topic)
    client = await world.client(cluster, leader)
    assert (await client.produce(topic, batch(b"on the others"))).error_code == 0
    await cluster.start_node(victim)
    assert cluster.failures == {}
    await cluster.wait_until_in_sync(topic)
    await cluster.move_leader(topic, 0, victim)
    client = await world.client(cluster, victim)
    assert (await client.produce(topic, batch(b"on the node"))).error_code == 0
    assert [record.value for record in cluster.dump(topic)] == [b"on the others", b"on the node"]


def test_a_node_that_cannot_open_a_replica_stops_and_comes_back(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(world: World) -> None:
        fs = FailingFileSystem()
        async with on(world, fs, topics=["orders"]) as cluster:
            addresses = {node.id: (node.host, node.port) for node in cluster.nodes.values()}
            fail_first_open(fs, "late-0")
            await create(cluster, "late")
            (victim,) = cluster.failures
            assert "No space left on device" in cluster.failures[victim]
            with pytest.raises(
                NodeFailedError, match=rf"node {victim} .*No space left.*start_node\({victim}\)"
            ):
                cluster.node(victim)
            assert f"node {victim} stops" in "".join(errors(caplog))
            await check_gone(world, cluster, *addresses[victim], victim)
            await check_comes_back(world, cluster, "late", victim)

    run(body)


@pytest.mark.parametrize("where", ["replica", "records", "role"])
def test_a_node_that_fails_for_any_reason_to_apply_metadata_stops(
    run: Run, where: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics=["orders"]) as cluster:
            victim = cluster.leader("orders")
            node = cluster.node(victim)
            address = (node.host, node.port)
            with monkeypatch.context() as patch:
                if where == "replica":
                    patch.setattr(node.configs, "topic", planted)
                elif where == "role":
                    patch.setattr(node.replicas.partitions["orders", 0], "become", planted)
                    await cluster.move_leader("orders", 0, victim % 3 + 1)
                else:
                    patch.setattr(controller_channel, "read_records", _planted_once())
                if where != "role":
                    await create(cluster, "late")
            stopped = next(iter(cluster.failures))
            assert "LookupError: planted" in cluster.failures[stopped]
            assert f"node {stopped} stops" in "".join(errors(caplog))
            if where != "records":
                assert stopped == victim
                await check_gone(world, cluster, *address, victim)
            await check_comes_back(world, cluster, "orders", stopped)

    run(body)


def _planted_once() -> Callable[..., Any]:
    """Fails in whichever node is the first to read."""
    calls: list[object] = []

    def reading(*args: Any) -> Any:
        calls.append(args)
        return planted() if len(calls) == 1 else read_records(*args)

    return reading


def test_the_last_node_stops_serving_as_well(run: Run) -> None:
    async def body(world: World) -> None:
        fs = FailingFileSystem()
        async with on(world, fs, 1, topics=["orders"]) as cluster:
            cluster.seed("orders", [b"1"])
            address = (cluster.node(1).host, cluster.node(1).port)
            fail_first_open(fs, "late-0")
            with pytest.raises(NodeFailedError, match=r"node 1 .*No space left on device"):
                await cluster.create_topic("late")
            await check_gone(world, cluster, *address, 1)
            with pytest.raises(NodeFailedError, match=r"node 1 .*No space left on device"):
                cluster.partition("orders")
            with pytest.raises(RuntimeError, match=r"no node runs.* node 1 .*No space left on device"):
                await cluster.create_topic("later")
            with pytest.raises(
                RuntimeError, match=r"no node that runs has .* node 1 .*No space left on device"
            ):
                cluster.dump("orders")
            with pytest.raises(TimeoutError, match=r"node 1 .*No space left on device"):
                await cluster.wait_for(lambda: False, within=0.01)
            await cluster.fence_node(1)
            await cluster.start_node(1)
            assert [record.value for record in cluster.dump("orders")] == [b"1"]
            assert cluster.leader("late") == 1

    run(body)


def test_a_node_may_be_started_again_while_it_is_still_ending(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics=["orders"]) as cluster:
            cluster.node(2).fail("a test wants it", LookupError("planted"))
            await cluster.fence_node(2)
            await cluster.start_node(2)
            assert cluster.failures == {}
            await cluster.wait_until_in_sync()
            await cluster.move_leader("orders", 0, 2)
            assert cluster.leader("orders") == 2

    run(body)


def test_a_node_that_has_failed_may_be_removed(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics=["orders"]) as cluster:
            cluster.node(3).fail("a test wants it", LookupError("planted"))
            with pytest.raises(NodeFailedError, match="a test wants it: LookupError: planted"):
                await cluster.stop_node(3)
            await cluster.remove_node(3)
            assert cluster.failures == {}
            assert await cluster.add_node() == 3

    run(body)


def test_a_cluster_is_closed_while_a_node_is_still_ending(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3) as cluster:
            node = cluster.node(2)
            node.fail("a test wants it", LookupError("planted"))
        assert node.connections == 0

    run(body)


def test_a_node_that_fails_while_it_starts_says_why(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(world: World) -> None:
        fs = FailingFileSystem()
        async with on(world, fs, 1, topics=["orders"]) as cluster:
            await cluster.stop_node(1)
            with monkeypatch.context() as patch:
                patch.setattr(controller_channel, "read_records", planted)
                with pytest.raises(NodeFailedError, match=r"node 1 .*LookupError: planted"):
                    await cluster.start_node(1)
            assert "LookupError: planted" in cluster.failures[1]
            await cluster.start_node(1)
        monkeypatch.setattr(controller_channel, "read_records", planted)
        with pytest.raises(NodeFailedError, match="LookupError: planted"):
            await world.cluster(1).start()
        monkeypatch.undo()

    run(body)


@pytest.mark.parametrize("loop", ["heartbeats", "retention", "idle connections"])
def test_a_node_stops_when_one_of_its_loops_fails(
    run: Run, loop: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(world: World) -> None:
        # Its session ends later than it looks for idle connections.
        config = {"connections.max.idle.ms": 10_000}
        async with world.cluster(3, topics=["orders"], config=config) as cluster:
            victim = cluster.leader("orders")
            node = cluster.node(victim)
            await world.client(cluster, victim)
            with monkeypatch.context() as patch:
                if loop == "heartbeats":
                    patch.setattr(node.link, "_heartbeat", planted)
                    cluster.clock.advance(2)
                elif loop == "retention":
                    patch.setattr(node.replicas.partitions["orders", 0].log, "enforce_retention", planted)
                    cluster.clock.advance(300)
                else:
                    patch.setattr(node.dispatcher, "is_working_for", planted)
                    cluster.clock.advance(11)
                await cluster.wait_for(lambda: victim in cluster.failures, f"the end of node {victim}")
            assert "LookupError: planted" in cluster.failures[victim]
            assert f"node {victim} stops" in "".join(errors(caplog))
            await check_comes_back(world, cluster, "orders", victim)

    run(body)


def test_a_log_that_cannot_be_cleaned_does_not_end_the_node(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(world: World) -> None:
        fs = FailingFileSystem()
        config = {"log.retention.ms": 1000}
        async with on(world, fs, 1, topics=["orders"], config=config) as cluster:
            cluster.seed("orders", [b"old"])
            fs.fail_if(lambda call, path: "orders-0" in path)
            cluster.clock.advance(301)
            await cluster.wait_for(lambda: "orders-0" in caplog.text, "a word in the log")
            fs.mend()
            assert cluster.failures == {}

    run(body)


def test_a_producer_gets_an_error_while_the_volume_is_full_and_goes_on_later(run: Run) -> None:
    async def body(world: World) -> None:
        fs = FailingFileSystem()
        async with on(world, fs, 1, topics=["orders"]) as cluster:
            client = await world.client(cluster)
            assert (await client.produce("orders", batch(b"1"))).error_code == 0
            fs.fail_if(lambda call, path: call == "append" and "orders-0" in path)
            assert (await client.produce("orders", batch(b"2"))).error_code == KafkaStorageError.code
            fs.mend()
            assert (await client.produce("orders", batch(b"3"))).base_offset == 1
            assert [record.value for record in cluster.dump("orders")] == [b"1", b"3"]

    run(body)


def test_a_log_that_could_not_be_cut_back_is_served_again_by_a_node_that_is_started_anew(run: Run) -> None:
    async def body(world: World) -> None:
        fs = FailingFileSystem()
        async with on(world, fs, 1, topics=["orders", "others"]) as cluster:
            client = await world.client(cluster)
            assert (await client.produce("orders", batch(b"1"))).error_code == 0
            fs.fail_if(lambda call, path: call in ("append", "truncate") and "orders-0" in path)
            assert (await client.produce("orders", batch(b"2"))).error_code == KafkaStorageError.code
            fs.mend()
            assert (await client.produce("orders", batch(b"3"))).error_code == KafkaStorageError.code
            assert (await client.fetch("orders")).error_code == KafkaStorageError.code
            wanted = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=1)
            topic = ListOffsetsRequest.ListOffsetsTopic(name="orders", partitions=[wanted])
            listed = await client.ask(
                ListOffsetsRequest(replica_id=-1, topics=[topic]), 7, ListOffsetsResponse
            )
            assert listed.topics[0].partitions[0].error_code == KafkaStorageError.code
            assert (await client.produce("others", batch(b"1"))).error_code == 0
            await cluster.stop_node(1)
            await cluster.start_node(1)
            client = await world.client(cluster)
            assert (await client.produce("orders", batch(b"4"))).error_code == 0
            assert [record.value for record in cluster.dump("orders")] == [b"1", b"4"]

    run(body)
