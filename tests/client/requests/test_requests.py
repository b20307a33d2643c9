"""Requests: routed by API, split, tried again part by part, merged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.cluster.options import TopicSpec
from ottla.broker.server.faults import Action, delay, drop, error, never
from ottla.client.topic_partition import TopicPartition
from ottla.errors import (
    ApiTimeoutError,
    ClientClosedError,
    ConnectionLostError,
    KafkaError,
    NoBrokersError,
    NotControllerError,
    NotCoordinatorError,
    NotLeaderOrFollowerError,
    UnknownBrokerError,
    UnknownTopicOrPartitionError,
    UnsupportedApiError,
)
from ottla.wire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeTransactionsRequest,
    FetchRequest,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ProduceRequest,
    SaslHandshakeRequest,
)
from tests.client.requests.support import requester
from tests.client.worlds import Body, World

Run = Callable[[Body], object]
EARLIEST, LATEST = -2, -1


def offsets_of(*partitions: tuple[str, int], time: int = LATEST) -> ListOffsetsRequest:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    partition = ListOffsetsRequest.ListOffsetsPartition
    return ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(
                name=topic,
                partitions=[partition(partition_index=number, timestamp=time) for number in numbers],
            )
            for topic, numbers in topics.items()
        ],
    )


def found(answer: ListOffsetsResponse) -> dict[TopicPartition, tuple[int, int]]:
    return {
        TopicPartition(topic.name, each.partition_index): (each.error_code, each.offset)
        for topic in answer.topics
        for each in topic.partitions
    }


def three(world: World, **options: Any) -> AsyncCluster:
    return world.cluster(3, topics={"orders": TopicSpec(6, 3), "audit": TopicSpec(2, 3)}, **options)


def test_a_request_for_any_broker_is_answered(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            answer = await requester(world, cluster).send(MetadataRequest(topics=None), MetadataResponse)
            assert [topic.name for topic in answer.topics] == ["orders"]

    run(body)


def test_partitions_are_asked_of_their_leaders_and_come_back_in_the_order_of_the_request(run: Run) -> None:
    async def body(world: World) -> None:
        async with three(world) as cluster:
            for partition in range(6):
                cluster.seed("orders", [b"x"] * (partition + 1), partition)
            me = requester(world, cluster)
            wanted = [("orders", number) for number in (5, 0, 3, 1, 4, 2)] + [("audit", 1)]
            answer = await me.send(offsets_of(*wanted), ListOffsetsResponse)
            assert list(found(answer)) == wanted
            assert found(answer) == {
                **{TopicPartition("orders", number): (0, number + 1) for number in range(6)},
                TopicPartition("audit", 1): (0, 0),
            }
            shards = await me.requests.fan_out(offsets_of(*wanted))
            assert sorted(shard.broker or 0 for shard in shards) == [1, 2, 3]
            for shard in shards:
                assert isinstance(shard.response, ListOffsetsResponse)
                assert {cluster.leader(*key) for key in found(shard.response)} == {shard.broker}

    run(body)


def test_a_partition_whose_leader_moved_is_asked_again_of_the_new_one(run: Run) -> None:
    async def body(world: World) -> None:
        async with three(world) as cluster:
            me = requester(world, cluster)
            request = offsets_of(*[("orders", number) for number in range(6)])
            await me.requests.send(request)
            old = cluster.leader("orders", 0)
            await cluster.move_leader("orders", 0, old % 3 + 1)
            answer = await me.send(request, ListOffsetsResponse)
            assert {code for code, _ in found(answer).values()} == {0}
            shards = await me.requests.fan_out(offsets_of(("orders", 0)))
            assert [shard.broker for shard in shards] == [old % 3 + 1]

    run(body)


def test_only_the_items_that_failed_are_asked_for_again(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 3}) as cluster:
            fault = cluster.faults.add(
                "ListOffsets", partition=1, action=error("NOT_LEADER_OR_FOLLOWER"), count=2
            )
            shards = await requester(world, cluster).requests.fan_out(
                offsets_of(*[("orders", number) for number in range(3)])
            )
            assert fault.hits == 2
            parts = [
                found(shard.response) for shard in shards if isinstance(shard.response, ListOffsetsResponse)
            ]
            assert [[key.partition for key in part] for part in parts] == [[0, 2], [1]]
            assert all(shard.error is None for shard in shards)

    run(body)


@pytest.mark.parametrize("when", ["before_append", "response"])
def test_a_dropped_connection_is_made_good_and_remembered(run: Run, when: str) -> None:
    async def body(world: World) -> None:
        async with three(world) as cluster:
            me = requester(world, cluster)
            fault = cluster.faults.add("ListOffsets", node=2, when=when, action=drop, count=1)
            shards = await me.requests.fan_out(offsets_of(*[("orders", number) for number in range(6)]))
            assert fault.hits == 1
            assert all(shard.error is None for shard in shards)
            unsure = [shard for shard in shards if shard.unsure is not None]
            assert [shard.broker for shard in unsure] == [2]
            assert isinstance(unsure[0].unsure, ConnectionLostError)

    run(body)


def test_a_leader_that_dies_costs_only_its_own_partitions_another_try(run: Run) -> None:
    async def body(world: World) -> None:
        async with three(world) as cluster:
            me = requester(world, cluster)
            request = offsets_of(*[("orders", number) for number in range(6)])
            await me.requests.send(request)
            await cluster.stop_node(2)
            answer = await me.send(request, ListOffsetsResponse)
            assert {code for code, _ in found(answer).values()} == {0}
            assert len(found(answer)) == 6

    run(body)


def test_a_topic_that_does_not_exist_is_an_error_soon_and_names_it(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            me = requester(world, cluster)
            began = world.clock.monotonic()
            with pytest.raises(UnknownTopicOrPartitionError, match="ordres"):
                await me.requests.send(offsets_of(("ordres", 0), ("orders", 0)))
            with pytest.raises(UnknownTopicOrPartitionError, match="has partitions 0 to 0"):
                await me.requests.send(offsets_of(("orders", 7)))
            assert world.clock.monotonic() - began < (10 if world.simulated else 50)
            shards = await me.requests.fan_out(offsets_of(("ordres", 0), ("orders", 0)))
            assert [shard.error is None for shard in shards] == [False, True]

    run(body)


def test_an_error_that_does_not_pass_ends_at_the_timeout_with_its_reason(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            cluster.faults.add("ListOffsets", action=error("NOT_LEADER_OR_FOLLOWER"))
            with pytest.raises(ApiTimeoutError, match=r"ListOffsets .* 0\.5 s .*NOT_LEADER") as caught:
                await requester(world, cluster).requests.send(offsets_of(("orders", 0)), timeout=0.5)
            assert isinstance(caught.value.__cause__, NotLeaderOrFollowerError)

    run(body)


def test_retries_bounds_the_attempts_and_leaves_the_brokers_answer(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            fault = cluster.faults.add("ListOffsets", action=error("NOT_LEADER_OR_FOLLOWER"))
            me = requester(world, cluster, retries=2)
            answer = await me.send(offsets_of(("orders", 0)), ListOffsetsResponse)
            assert found(answer) == {("orders", 0): (NotLeaderOrFollowerError.code, -1)}
            assert fault.hits == 3

    run(body)


def test_an_answer_that_never_comes_ends_at_the_timeout(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            cluster.faults.add("DescribeConfigs", action=never)
            request = DescribeConfigsRequest(
                resources=[DescribeConfigsRequest.DescribeConfigsResource(resource_type=4, resource_name="1")]
            )
            me = requester(world, cluster)
            with pytest.raises(ApiTimeoutError, match="DescribeConfigs"):
                await me.requests.send(request, timeout=0.3)
            with pytest.raises(ApiTimeoutError, match="by broker 1"):
                await me.requests.send(request, timeout=0.3, broker=1)

    run(body)


def test_nobody_to_be_reached_ends_at_the_timeout_and_lists_who_was_tried(run: Run) -> None:
    async def body(world: World) -> None:
        me = requester(world, "127.0.0.1:1")
        with pytest.raises(ApiTimeoutError) as caught:
            await me.requests.send(ApiVersionsRequest(), timeout=0.5)
        assert isinstance(caught.value.__cause__, NoBrokersError)
        assert "127.0.0.1:1" in str(caught.value)
        with pytest.raises(ApiTimeoutError, match=r"127\.0\.0\.1:1"):
            await me.requests.send(offsets_of(("orders", 0)), timeout=0.5)

    run(body)


def test_a_named_broker_is_asked_once_even_before_metadata_named_it(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3) as cluster:
            me = requester(world, cluster)
            await me.send(ApiVersionsRequest(), ApiVersionsResponse, broker=3)
            fault = cluster.faults.add("Metadata", node=2, action=drop)
            with pytest.raises(ConnectionLostError):
                await me.requests.send(MetadataRequest(topics=[]), broker=2)
            assert fault.hits == 1
            with pytest.raises(UnknownBrokerError, match="9"):
                await me.requests.send(ApiVersionsRequest(), broker=9)

    run(body)


def test_not_controller_is_tried_again(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            fault = cluster.faults.add("CreateTopics", action=error(NotControllerError), count=2)
            topic = CreateTopicsRequest.CreatableTopic(name="new", num_partitions=1, replication_factor=1)
            answer = await requester(world, cluster).send(
                CreateTopicsRequest(topics=[topic]), CreateTopicsResponse
            )
            assert [(each.name, each.error_code) for each in answer.topics] == [("new", 0)]
            assert fault.hits == 2

    run(body)


def test_deleting_what_does_not_exist_is_answered_at_once(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            answer = await requester(world, cluster).send(
                DeleteTopicsRequest(topic_names=["gone"], timeout_ms=1000), DeleteTopicsResponse
            )
            (result,) = answer.responses
            assert (result.name, result.error_code) == ("gone", UnknownTopicOrPartitionError.code)

    run(body)


def test_configs_of_brokers_are_asked_of_each_broker(run: Run) -> None:
    async def body(world: World) -> None:
        async with three(world) as cluster:
            resource = DescribeConfigsRequest.DescribeConfigsResource
            request = DescribeConfigsRequest(
                resources=[
                    resource(resource_type=4, resource_name="3", configuration_keys=["node.id"]),
                    resource(resource_type=2, resource_name="orders", configuration_keys=["retention.ms"]),
                    resource(resource_type=4, resource_name="1", configuration_keys=["node.id"]),
                ]
            )
            answer = await requester(world, cluster).send(request, DescribeConfigsResponse)
            assert [(each.resource_name, each.configs[0].value) for each in answer.results] == [
                ("3", "3"),
                ("orders", "604800000"),
                ("1", "1"),
            ]

    run(body)


def test_groups_are_asked_of_their_coordinators_which_are_remembered(run: Run) -> None:
    async def body(world: World) -> None:
        async with three(world) as cluster:
            me = requester(world, cluster)
            names = [f"group-{number}" for number in range(8)]
            group = OffsetFetchRequest.OffsetFetchRequestGroup
            topic = OffsetFetchRequest.OffsetFetchRequestTopics(name="orders", partition_indexes=[0])
            request = OffsetFetchRequest(groups=[group(group_id=name, topics=[topic]) for name in names])
            answer = await me.send(request, OffsetFetchResponse)
            assert [(each.group_id, each.error_code) for each in answer.groups] == [
                (name, 0) for name in names
            ]
            lookups = cluster.faults.add("FindCoordinator", action=drop)
            shards = await me.requests.fan_out(request)
            assert len(shards) > 1
            assert lookups.hits == 0

    run(body)


def test_a_coordinator_that_moved_is_looked_up_again(run: Run) -> None:
    async def body(world: World) -> None:
        async with three(world) as cluster:
            me = requester(world, cluster)
            group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None)
            request = OffsetFetchRequest(groups=[group])
            (shard,) = await me.requests.fan_out(request)
            fault = cluster.faults.add("OffsetFetch", action=error("NOT_COORDINATOR"), count=1)
            lookups = cluster.faults.add("FindCoordinator", when="response", action=drop, count=1)
            (again,) = await me.requests.fan_out(request)
            assert (fault.hits, lookups.hits) == (1, 1)
            assert isinstance(again.response, OffsetFetchResponse)
            assert again.broker == shard.broker

    run(body)


@pytest.mark.parametrize(
    ("action", "raised"),
    [(drop, ConnectionLostError), (error("NOT_COORDINATOR"), None)],
    ids=["drop", "moved"],
)
def test_what_is_sent_once_is_not_repeated_and_the_next_one_finds_its_way_anew(
    action: Action, raised: type[KafkaError] | None, run: Run
) -> None:
    async def body(world: World) -> None:
        async with three(world) as cluster:
            me = requester(world, cluster)
            request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
            await me.requests.send(request)
            fault = cluster.faults.add("Heartbeat", action=action)
            if raised is not None:
                with pytest.raises(raised):
                    await me.requests.send(request, once=True)
            else:
                response = await me.requests.send(request, once=True)
                assert isinstance(response, HeartbeatResponse)
                assert response.error_code == NotCoordinatorError.code
            assert fault.hits == 1
            cluster.faults.clear()
            lookups = cluster.faults.add("FindCoordinator", action=delay(0.0))
            await me.requests.send(request, once=True)
            assert lookups.hits == 1

    run(body)


@pytest.mark.parametrize("release", ["2.8", "4.0"])
def test_one_shape_of_request_and_answer_serves_old_and_new_brokers(run: Run, release: str) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 2, "old": 1}, max_versions=release) as cluster:
            me = requester(world, cluster)
            keys = ["a", "b"]
            coordinators = await me.send(
                FindCoordinatorRequest(coordinator_keys=keys), FindCoordinatorResponse
            )
            assert [(each.key, each.node_id) for each in coordinators.coordinators] == [("a", 1), ("b", 1)]
            single = await me.send(FindCoordinatorRequest(key="a"), FindCoordinatorResponse)
            assert single.coordinators[0].node_id == 1

            group = OffsetFetchRequest.OffsetFetchRequestGroup
            topic = OffsetFetchRequest.OffsetFetchRequestTopics(name="orders", partition_indexes=[0, 1])
            offsets = await me.send(
                OffsetFetchRequest(groups=[group(group_id=key, topics=[topic]) for key in keys]),
                OffsetFetchResponse,
            )
            assert [each.group_id for each in offsets.groups] == keys
            assert [len(each.topics[0].partitions) for each in offsets.groups] == [2, 2]
            assert [each.topics[0].name for each in offsets.groups] == ["orders", "orders"]

            state = DeleteTopicsRequest.DeleteTopicState(name="old")
            deleted = await me.send(
                DeleteTopicsRequest(topics=[state], timeout_ms=1000), DeleteTopicsResponse
            )
            assert [each.error_code for each in deleted.responses] == [0]

    run(body)


def test_a_version_can_be_forced_and_then_nothing_is_translated(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            me = requester(world, cluster)
            await me.requests.send(FindCoordinatorRequest(coordinator_keys=["a"]))
            answer = await me.send(FindCoordinatorRequest(key="a"), FindCoordinatorResponse, version=3)
            assert (answer.coordinators, answer.node_id) == ([], 1)

    run(body)


def test_a_time_that_an_old_broker_would_misread_is_refused(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], max_versions={"ListOffsets": 5}) as cluster:
            with pytest.raises(UnsupportedApiError, match="version 7"):
                await requester(world, cluster).requests.send(offsets_of(("orders", 0), time=-3))

    run(body)


def test_an_api_that_no_broker_has_is_refused_by_name(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(max_versions={"DescribeCluster": -1}) as cluster:
            with pytest.raises(UnsupportedApiError, match="DescribeCluster"):
                await requester(world, cluster).requests.send(DescribeClusterRequest())

    run(body)


def test_epochs_are_asked_of_the_leaders(run: Run) -> None:
    async def body(world: World) -> None:
        async with three(world) as cluster:
            partition = OffsetForLeaderEpochRequest.OffsetForLeaderPartition
            topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                topic="orders",
                partitions=[partition(partition=number, leader_epoch=0) for number in range(6)],
            )
            answer = await requester(world, cluster).send(
                OffsetForLeaderEpochRequest(topics=[topic]), OffsetForLeaderEpochResponse
            )
            (only,) = answer.topics
            assert [(each.partition, each.error_code) for each in only.partitions] == [
                (number, 0) for number in range(6)
            ]

    run(body)


def test_what_cannot_be_sent_like_this_is_refused_before_anything_happens(run: Run) -> None:
    async def body(world: World) -> None:
        me = requester(world, "127.0.0.1:1")
        with pytest.raises(ValueError, match="broker="):
            await me.requests.send(FetchRequest())
        with pytest.raises(ValueError, match="acks=0"):
            await me.requests.send(ProduceRequest(acks=0), broker=1)
        with pytest.raises(ValueError, match="authenticate"):
            await me.requests.send(SaslHandshakeRequest())
        with pytest.raises(TypeError, match="MetadataResponse is no request"):
            await me.requests.send(MetadataResponse())

    run(body)


def test_a_call_that_is_cancelled_ends_and_leaves_the_next_one_unharmed(run: Run) -> None:
    async def body(world: World) -> None:
        async with three(world) as cluster:
            me = requester(world, cluster)
            request = offsets_of(*[("orders", number) for number in range(6)])
            fault = cluster.faults.add("ListOffsets", node=2, action=error("NOT_LEADER_OR_FOLLOWER"))
            call = asyncio.ensure_future(me.requests.send(request))
            await fault.wait(2)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            cluster.faults.clear()
            assert len(found(await me.send(request, ListOffsetsResponse))) == 6

    run(body)


def test_a_closed_client_refuses(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            me = requester(world, cluster)
            await me.requests.send(ApiVersionsRequest())
            await me.brokers.close()
            with pytest.raises(ClientClosedError):
                await me.requests.send(ApiVersionsRequest())

    run(body)


def test_transactions_go_to_their_coordinator(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            fault = cluster.faults.add("FindCoordinator", action=error("COORDINATOR_NOT_AVAILABLE"))
            with pytest.raises(ApiTimeoutError, match="COORDINATOR_NOT_AVAILABLE"):
                await requester(world, cluster).requests.send(
                    DescribeTransactionsRequest(transactional_ids=["t"]), timeout=0.5
                )
            assert fault.hits > 1

    run(body)
