"""The cluster as a whole: nodes come and go, leaders move, links are cut, and what was acknowledged stays."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable
from functools import partial

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.cluster.options import TopicSpec
from ottla.errors import (
    BrokerError,
    InvalidReplicationFactorError,
    RequestTimedOutError,
    TopicAlreadyExistsError,
)
from ottla.wire.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    FetchResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    MetadataRequest,
    MetadataResponse,
)
from tests.broker.worlds import Body, World, batch, fetch_request, in_simulation

Run = Callable[[Body], object]
NOT_LEADER, TIMED_OUT = 6, 7
LONG_SESSION = {"broker.session.timeout.ms": 100_000}
"""No session ends before a test moves the clock, however long the machine takes."""


def is_up_to_date(cluster: AsyncCluster, node_id: int) -> bool:
    return cluster.node(node_id).image.offset == cluster.controller.state.image.offset


def values(cluster: AsyncCluster, topic: str = "orders") -> list[bytes | None]:
    return [record.value for record in cluster.dump(topic)]


async def leaders(world: World, cluster: AsyncCluster, node_id: int, topic: str = "orders") -> list[int]:
    """As one node tells them."""
    client = await world.client(cluster, node_id)
    wanted = [MetadataRequest.MetadataRequestTopic(name=topic)]
    answer = await client.ask(MetadataRequest(topics=wanted), 12, MetadataResponse)
    return [partition.leader_id for partition in answer.topics[0].partitions]


def test_every_node_knows_the_topics_and_each_other(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics={"orders": 6}) as cluster:
            assert len(cluster.bootstrap.split(",")) == 3
            for node_id in (1, 2, 3):
                client = await world.client(cluster, node_id)
                answer = await client.ask(MetadataRequest(topics=None), 12, MetadataResponse)
                assert [broker.node_id for broker in answer.brokers] == [1, 2, 3]
                assert answer.cluster_id == cluster.cluster_id
                (topic,) = answer.topics
                assert (topic.name, len(topic.partitions)) == ("orders", 6)
                assert sorted(partition.leader_id for partition in topic.partitions) == [1, 1, 2, 2, 3, 3]
                assert all(len(partition.replica_nodes) == 3 for partition in topic.partitions)

    run(body)


def test_what_is_produced_is_fetched(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            client = await world.client(cluster)
            first = await client.produce("orders", batch(b"1", b"2"))
            second = await client.produce("orders", batch(b"3"), acks=1)
            assert (first.base_offset, second.base_offset) == (0, 2)
            found = await client.fetch("orders")
            assert found.high_watermark == 3
            assert values(cluster) == [b"1", b"2", b"3"]

    run(body)


def test_a_moved_leader_has_the_records_and_the_old_one_refuses(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics=["orders"]) as cluster:
            old = cluster.leader("orders")
            new = next(node_id for node_id in (1, 2, 3) if node_id != old)
            before = await world.client(cluster, old)
            await before.produce("orders", batch(b"1"))
            await cluster.move_leader("orders", 0, new)
            refused = await before.produce("orders", batch(b"2"), version=10)
            assert refused.error_code == NOT_LEADER
            assert refused.current_leader is not None
            assert refused.current_leader.leader_id == new
            after = await world.client(cluster, new)
            assert (await after.produce("orders", batch(b"2"))).base_offset == 1
            assert values(cluster) == [b"1", b"2"]
            for node_id in (1, 2, 3):
                assert await leaders(world, cluster, node_id) == [new]

    run(body)


def test_a_clean_stop_hands_leaderships_over_and_a_restart_brings_the_node_back(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics={"orders": 3}) as cluster:
            for partition in range(3):
                cluster.seed("orders", [b"%d" % partition], partition)
            address = (cluster.node(2).host, cluster.node(2).port)
            await cluster.stop_node(2)
            assert 2 not in [cluster.leader("orders", partition) for partition in range(3)]
            assert values(cluster) == [b"0", b"1", b"2"]
            await cluster.start_node(2)
            assert (cluster.node(2).host, cluster.node(2).port) == address
            await cluster.wait_until_in_sync("orders")
            await cluster.move_leader("orders", 0, 2)
            assert values(cluster) == [b"0", b"1", b"2"]

    run(body)


def test_a_killed_node_is_fenced_when_its_session_ends(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics={"orders": 3}, config=LONG_SESSION) as cluster:
            cluster.seed("orders", [b"1"], 1)
            victim = cluster.leader("orders", 1)
            await cluster.stop_node(victim, clean=False)
            assert cluster.leader("orders", 1) == victim
            cluster.clock.advance(101)
            await cluster.wait_for(lambda: cluster.leader("orders", 1) not in (victim, -1), "another leader")
            assert values(cluster) == [b"1"]

    run(body)


def test_a_killed_node_can_be_given_up_at_once(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics={"orders": 3}) as cluster:
            cluster.seed("orders", [b"1"], 1)
            victim = cluster.leader("orders", 1)
            await cluster.stop_node(victim, clean=False)
            await cluster.fence_node(victim)
            assert cluster.leader("orders", 1) not in (victim, -1)
            assert values(cluster) == [b"1"]

    run(body)


def test_leaders_go_back_to_where_they_are_preferred(run: Run) -> None:
    async def body(world: World) -> None:
        config = {"leader.imbalance.check.interval.seconds": 60}
        async with world.cluster(3, topics={"orders": 3}, config=config) as cluster:
            before = [cluster.leader("orders", number) for number in range(3)]
            await cluster.stop_node(before[0])
            await cluster.start_node(before[0])
            assert cluster.leader("orders", 0) != before[0]
            await cluster.wait_until_in_sync()
            cluster.clock.advance(61)
            await cluster.wait_for(
                lambda: [cluster.leader("orders", number) for number in range(3)] == before, "the old leaders"
            )

    run(body)


def test_with_every_replica_gone_a_partition_has_no_leader_until_one_is_back(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(2, topics={"orders": TopicSpec(1, replicas=1)}) as cluster:
            cluster.seed("orders", [b"1", b"2"])
            leader = cluster.leader("orders")
            await cluster.stop_node(leader)
            assert cluster.leader("orders") == -1
            await cluster.start_node(leader)
            await cluster.wait_for(lambda: cluster.leader("orders") == leader, "its leader")
            assert values(cluster) == [b"1", b"2"]

    run(body)


def test_a_paused_node_is_fenced_and_comes_back(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics={"orders": 3}) as cluster:
            cluster.pause_node(3)
            cluster.clock.advance(10)
            moved = lambda: 3 not in [cluster.leader("orders", number) for number in range(3)]  # noqa: E731
            await cluster.wait_for(moved, "new leaders")
            cluster.resume_node(3)
            cluster.clock.advance(3)
            await cluster.wait_for(lambda: cluster.controller.state.image.is_active(3), "node 3")

    run(body)


def test_nodes_are_added_and_removed(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1) as cluster:
            assert await cluster.add_node(rack="b") == 2
            await cluster.create_topic("orders", 2, replicas=2)
            assert sorted(cluster.leader("orders", number) for number in (0, 1)) == [1, 2]
            cluster.seed("orders", [b"1"], 0)
            await cluster.stop_node(2)
            assert [cluster.leader("orders", number) for number in (0, 1)] == [1, 1]
            with pytest.raises(ValueError, match="node 2 is stopped"):
                cluster.node(2)
            await cluster.remove_node(2)
            assert 2 not in cluster.controller.state.image.brokers
            with pytest.raises(ValueError, match="node 2 does not exist"):
                cluster.node(2)

    run(body)


def test_a_node_that_is_cut_off_serves_on_until_it_is_fenced(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics=["orders"], config=LONG_SESSION) as cluster:
            leader = cluster.leader("orders")
            other = next(node_id for node_id in (1, 2, 3) if node_id != leader)
            client = await world.client(cluster, leader)
            cluster.cut_controller(leader)
            assert (await client.produce("orders", batch(b"1"))).error_code == 0
            created = CreateTopicsRequest(
                topics=[CreateTopicsRequest.CreatableTopic(name="x", num_partitions=1)]
            )
            answer = await client.ask(created, 5, CreateTopicsResponse)
            assert answer.topics[0].error_code == TIMED_OUT
            # The old leader does not hear of the new one. It appends, and nobody follows it.
            await cluster.move_leader("orders", 0, other)
            lost = await client.produce("orders", batch(b"lost"), timeout_ms=1000)
            assert lost.error_code == TIMED_OUT
            assert await leaders(world, cluster, leader) == [leader]
            cluster.heal_controller(leader)
            await cluster.wait_for(
                lambda: cluster.node(leader).image.topics["orders"].partitions[0].leader == other, "the news"
            )
            # It drops what it alone has, and follows.
            await cluster.wait_for(lambda: values(cluster) == [b"1"], "the record of before")
            log = cluster.node(leader).replicas.partitions["orders", 0].log
            await cluster.wait_for(lambda: log.log_end_offset == 1, "the end of what it alone has")

    run(body)


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_the_cluster_goes_on_with_a_controller_that_is_started_again(run: Run, clean: bool) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics={"orders": 3}) as cluster:
            before, epoch = cluster.controller.state.image, cluster.controller.epoch
            client = await world.client(cluster, cluster.leader("orders"))
            await cluster.stop_controller(clean=clean)
            assert (await client.produce("orders", batch(b"1"))).error_code == 0
            await cluster.start_controller()
            assert cluster.controller.epoch == epoch + 1
            assert cluster.controller.state.image == before
            await cluster.create_topic("more")
            leader = cluster.leader("orders")
            await cluster.stop_node(leader)
            assert cluster.leader("orders") not in (leader, -1)
            assert values(cluster) == [b"1"]

    run(body)


def test_what_needs_the_controller_waits_for_it() -> None:
    async def body(world: World) -> None:
        async with world.cluster(2) as cluster:
            client = await world.client(cluster)
            await cluster.stop_controller(clean=False)
            created = CreateTopicsRequest(
                topics=[
                    CreateTopicsRequest.CreatableTopic(name="orders", num_partitions=1, replication_factor=-1)
                ]
            )
            answer = asyncio.ensure_future(client.ask(created, 5, CreateTopicsResponse))
            await asyncio.sleep(10)
            assert not answer.done()
            await cluster.start_controller()
            assert (await answer).topics[0].error_code == 0

    in_simulation(body)


def test_a_node_that_died_while_there_was_no_controller_is_fenced_after_a_session() -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics={"orders": 1}) as cluster:
            leader = cluster.leader("orders")
            await cluster.stop_controller()
            await cluster.stop_node(leader, clean=False)
            await asyncio.sleep(60)
            await cluster.start_controller()
            began = asyncio.get_running_loop().time()
            assert cluster.leader("orders") == leader, "it may yet be heard of"
            await cluster.wait_for(lambda: cluster.leader("orders") != leader, "another leader", 60)
            assert 8 < asyncio.get_running_loop().time() - began < 12
            assert sorted(cluster.controller.state.image.topics["orders"].partitions[0].isr) == sorted(
                {1, 2, 3} - {leader}
            )

    in_simulation(body)


def test_nodes_start_while_there_is_no_controller_and_serve_when_there_is_one() -> None:
    async def body(world: World) -> None:
        async with world.cluster(2, topics={"orders": 2}) as cluster:
            await cluster.stop_node(2)
            await cluster.stop_controller()
            starting = asyncio.ensure_future(cluster.start_node(2))
            await asyncio.sleep(10)
            assert not starting.done()
            await cluster.start_controller()
            await starting
            await cluster.wait_until_in_sync("orders")
            await cluster.move_leader("orders", 0, 2)

    in_simulation(body)


def test_a_node_that_is_behind_the_metadata_log_begins_with_a_snapshot(run: Run) -> None:
    config = {"metadata.log.max.record.bytes.between.snapshots": 1_000, "metadata.max.retention.bytes": 1_000}

    async def body(world: World) -> None:
        async with world.cluster(3, topics={"orders": 3}, config=config) as cluster:
            cluster.cut_controller(2)
            known = cluster.node(2).image.offset
            await cluster.delete_topic("orders")
            for number in range(5):
                await cluster.create_topic(f"topic-{number}", 2)
            assert cluster.controller.snapshot_for(known + 1) is not None
            cluster.heal_controller(2)
            new = await cluster.add_node()
            for node_id in (2, new):
                node = cluster.node(node_id)
                await cluster.wait_for(partial(is_up_to_date, cluster, node_id), "the rest")
                assert node.image == cluster.controller.state.image
                expected = {
                    (topic.name, index)
                    for topic, index, partition in node.image.all_partitions()
                    if node_id in partition.replicas
                }
                assert set(node.replicas.partitions) == expected
            assert len(cluster.node(2).replicas.partitions) == 10

    run(body)


def test_a_controller_is_stopped_and_started_once(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics=["orders"]) as cluster:
            with pytest.raises(ValueError, match="runs already"):
                await cluster.start_controller()
            await cluster.stop_controller()
            assert cluster.bootstrap
            for call in (cluster.stop_controller(), cluster.move_leader("orders", 0, 1)):
                with pytest.raises(RuntimeError, match=r"start_controller\(\) starts it again"):
                    await call
            starts = await asyncio.gather(
                cluster.start_controller(), cluster.start_controller(), return_exceptions=True
            )
            assert [type(each) for each in starts if each is not None] == [ValueError]
            assert cluster.leader("orders") == 1
        for call in (cluster.start_controller(), cluster.stop_controller()):
            with pytest.raises(RuntimeError, match="the cluster is closed"):
                await call

    run(body)


def test_a_topic_that_is_deleted_and_made_again_is_empty(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics={"orders": 2}) as cluster:
            cluster.seed("orders", [b"old"])
            await cluster.delete_topic("orders")
            with pytest.raises(ValueError, match="orders"):
                cluster.dump("orders")
            await cluster.create_topic("orders", 2)
            assert values(cluster) == []
            cluster.seed("orders", [b"new"])
            assert values(cluster) == [b"new"]

    run(body)


def test_what_is_not_there_is_named(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics=["orders"]) as cluster:
            with pytest.raises(ValueError, match="no partition 7"):
                cluster.dump("orders", 7)
            with pytest.raises(ValueError, match="node 9 does not exist"):
                await cluster.fence_node(9)
            for within in (math.nan, -1):
                with pytest.raises(ValueError, match=f"within={within}: "):
                    await cluster.wait_for(lambda: True, within=within)
            with pytest.raises(TypeError, match="record 'text'"):
                cluster.seed("orders", ["text"])  # type: ignore[list-item]
            await cluster.stop_node(1)
            with pytest.raises(RuntimeError, match="has no leader"):
                cluster.seed("orders", [b"1"])

    run(body)


def test_the_last_node_can_be_replaced(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1) as cluster:
            await cluster.remove_node(1)
            assert await cluster.add_node() == 1

    run(body)


def test_a_cluster_that_cannot_start_leaves_nothing_behind(run: Run) -> None:
    async def body(world: World) -> None:
        with pytest.raises(BrokerError) as caught:
            async with world.cluster(1, topics={"orders": TopicSpec(1, replicas=2)}):
                pass
        assert isinstance(caught.value, InvalidReplicationFactorError)
        async with world.cluster(1, topics=["orders"]) as cluster:
            with pytest.raises(TopicAlreadyExistsError):
                await cluster.create_topic("orders")

    run(body)


def test_the_same_seed_gives_the_same_trace() -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics={"orders": 3}) as cluster:
            clients = [await world.client(cluster, node_id) for node_id in (1, 2, 3)]
            for number in range(30):
                partition = number % 3
                client = clients[cluster.leader("orders", partition) - 1]
                await client.produce("orders", batch(b"%d" % number), partition)
                if number == 15:
                    await cluster.stop_node(3)
                    await cluster.start_node(3)
                    clients[2] = await world.client(cluster, 3)
            await clients[0].ask(fetch_request("orders"), 12, FetchResponse)

    first, again, other = in_simulation(body, 5), in_simulation(body, 5), in_simulation(body, 6)
    assert first == again
    assert first != other


def test_a_node_that_lags_behind_does_not_undo_the_epoch_of_its_successor(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics=["orders"]) as cluster:
            first = cluster.leader("orders")
            late, last = (node_id for node_id in (1, 2, 3) if node_id != first)
            cluster.pause_node(late)
            # It is told of its own leadership at once, and takes note of it when it goes on.
            await cluster.move_leader("orders", 0, late)
            await cluster.move_leader("orders", 0, last)
            cluster.seed("orders", [b"1"])
            log = cluster.partition("orders").log
            before = log.epochs.entries
            assert before[-1].epoch == cluster.partition("orders").leader_epoch
            cluster.resume_node(late)
            end = cluster.controller.log_end_offset
            await cluster.wait_for(lambda: cluster.node(late).image.offset == end - 1, "the news")
            assert log.epochs.entries == before

    run(body)


def test_a_changed_config_reaches_every_partition_of_a_topic(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 3}) as cluster:
            client = await world.client(cluster)
            change = IncrementalAlterConfigsRequest.AlterableConfig(
                name="retention.ms", config_operation=0, value="1234"
            )
            resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
                resource_type=2, resource_name="orders", configs=[change]
            )
            request = IncrementalAlterConfigsRequest(resources=[resource])
            answer = await client.ask(request, 1, IncrementalAlterConfigsResponse)
            assert answer.responses[0].error_code == 0
            logs = [cluster.partition("orders", number).log for number in range(3)]
            assert [log.config.retention_ms for log in logs] == [1234, 1234, 1234]

    run(body)


def test_a_cluster_may_be_closed_more_than_once_and_says_so_afterwards(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(2, topics=["orders"]) as cluster:
            await asyncio.gather(cluster.close(), cluster.close())
            with pytest.raises(RuntimeError, match="closed"):
                await cluster.start_node(1)

    run(body)


def test_a_close_ends_what_is_under_way(run: Run) -> None:
    async def body(world: World) -> None:
        cluster = world.cluster(3, topics={"orders": 3}, config=LONG_SESSION)
        await cluster.start()
        await cluster.stop_node(3, clean=False)
        # The session of the killed one is not over, and a paused one holds up the leave of another.
        cluster.pause_node(2)
        under_way = [
            asyncio.ensure_future(work)
            for work in (cluster.start_node(3), cluster.stop_node(1), cluster.add_node())
        ]
        brokers = cluster.controller.state.image.brokers
        await cluster.wait_for(
            lambda: brokers[1].in_controlled_shutdown and bool(cluster.nodes[3].link._channels),
            "the beginning of both",
        )
        assert not any(each.done() for each in under_way[:2])
        await cluster.close()
        ends = await asyncio.wait_for(asyncio.gather(*under_way, return_exceptions=True), 60)
        assert isinstance(ends[0], ConnectionAbortedError)
        assert ends[1] is None

    run(body)


def test_a_stop_that_is_given_up_stops_all_the_same(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics={"orders": 3}, config=LONG_SESSION) as cluster:
            cluster.pause_node(2)
            node = cluster.node(1)
            stopping = asyncio.ensure_future(cluster.stop_node(1))
            await cluster.wait_for(
                lambda: cluster.controller.state.image.brokers[1].in_controlled_shutdown, "its leave"
            )
            stopping.cancel()
            with pytest.raises(asyncio.CancelledError):
                await stopping
            assert node.connections == 0
            cluster.resume_node(2)
            assert list(cluster.nodes) == [2, 3]
            cluster.clock.advance(101)
            await cluster.start_node(1)

    run(body)


def test_a_node_that_comes_back_answers_when_it_knows_the_cluster(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(2, topics=["orders"], config=LONG_SESSION) as cluster:
            await cluster.stop_node(2, clean=False)
            # Until the session of its killed incarnation is over it is not let in, and knows nothing.
            starting = asyncio.ensure_future(cluster.start_node(2))
            await cluster.wait_for(lambda: 2 in cluster.nodes and cluster.node(2).port != 0, "its port")
            asked = asyncio.ensure_future(leaders(world, cluster, 2))
            await cluster.wait_for(lambda: cluster.node(2).dispatcher.pending_requests == 1, "the request")
            assert not starting.done()
            cluster.clock.advance(101)
            assert await asked == [1]
            await starting

    run(body)


def test_a_link_that_is_cut_while_it_opens_is_cut(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(2) as cluster:
            link = cluster.node(2).link
            asked = asyncio.ensure_future(link.create_topics([]))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            cluster.cut_controller(2)
            with pytest.raises(RequestTimedOutError):
                await asked

    run(body)


def test_a_start_that_is_cancelled_leaves_nothing_behind() -> None:
    async def main() -> None:
        files = os.listdir("/proc/self/fd")
        for turns in range(0, 40, 2):
            cluster = AsyncCluster(2)
            starting = asyncio.ensure_future(cluster.start())
            for _ in range(turns):
                await asyncio.sleep(0)
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            await cluster.close()
        # A transport closes its socket within one turn of the loop after it was closed itself.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(os.listdir("/proc/self/fd")) <= len(files)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
