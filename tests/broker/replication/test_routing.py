"""Fetching from the closest replica (KIP-392), and being told who leads (KIP-951)."""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.replication.routing import RACK_AWARE
from ottla.wire.messages import FetchRequest, FetchResponse
from tests.broker.worlds import Body, World, fetch_request

Run = Callable[[Body], object]
RACKS = ["a", "b", "c"]


async def fetched(
    world: World, request: FetchRequest, version: int, racks: bool, at: str = ""
) -> FetchResponse:
    """A fetch from the leader of a topic on three racks, or from the node in the rack `at`."""
    config = {"replica.selector.class": RACK_AWARE} if racks else {}
    async with world.cluster(3, topics=["orders"], racks=RACKS, config=config) as cluster:
        cluster.seed("orders", [b"1"])
        leader = cluster.leader("orders")
        if request.rack_id == "another":
            request.rack_id = RACKS[leader % 3]
        elif request.rack_id == "the leader's":
            request.rack_id = RACKS[leader - 1]
        if version >= 13:
            request.topics[0].topic_id = cluster.node(1).image.topics["orders"].id
        node_id = leader if not at else leader % 3 + 1
        answer = await (await world.client(cluster, node_id)).ask(request, version, FetchResponse)
        (topic,) = answer.responses
        (partition,) = topic.partitions
        if partition.preferred_read_replica != -1:
            assert partition.preferred_read_replica == leader % 3 + 1
        if partition.current_leader is not None:
            assert partition.current_leader.leader_id == leader
        return answer


def of(answer: FetchResponse) -> FetchResponse.PartitionData:
    return answer.responses[0].partitions[0]


def request_from(rack: str, epoch: int = -1) -> FetchRequest:
    request = fetch_request("orders")
    request.rack_id = rack
    request.topics[0].partitions[0].current_leader_epoch = epoch
    return request


def test_a_consumer_in_another_rack_is_sent_to_the_replica_there(run: Run) -> None:
    async def body(world: World) -> None:
        found = of(await fetched(world, request_from("another"), 12, racks=True))
        assert found.preferred_read_replica > 0
        assert not found.records

    run(body)


def test_the_leader_serves_its_own_rack_and_those_without_a_replica(run: Run) -> None:
    async def body(world: World) -> None:
        for rack in ("the leader's", "d", ""):
            found = of(await fetched(world, request_from(rack), 12, racks=True))
            assert found.preferred_read_replica == -1
            assert found.records

    run(body)


def test_without_a_selector_the_leader_serves_everyone(run: Run) -> None:
    async def body(world: World) -> None:
        found = of(await fetched(world, request_from("another"), 12, racks=False))
        assert found.preferred_read_replica == -1
        assert found.records

    run(body)


def test_a_follower_serves_consumers_since_version_11_and_names_the_leader_to_others(run: Run) -> None:
    async def body(world: World) -> None:
        assert of(await fetched(world, request_from("b"), 11, racks=True, at="follower")).records
        old = fetch_request("orders")
        assert of(await fetched(world, old, 10, racks=True, at="follower")).error_code == 6

    run(body)


def test_a_wrong_epoch_is_answered_with_the_leader_and_its_address(run: Run) -> None:
    async def body(world: World) -> None:
        # No client before the first move knows an epoch above the current one.
        answer = await fetched(world, request_from("", epoch=7), 16, racks=False)
        assert of(answer).error_code == 75
        async with world.cluster(2, topics=["orders"]) as cluster:
            leader = cluster.leader("orders")
            await cluster.move_leader("orders", 0, 3 - leader)
            request = request_from("", epoch=0)
            request.topics[0].topic_id = cluster.node(1).image.topics["orders"].id
            answer = await (await world.client(cluster, 3 - leader)).ask(request, 16, FetchResponse)
            assert of(answer).error_code == 74
            hint = of(answer).current_leader
            assert hint is not None
            assert (hint.leader_id, hint.leader_epoch) == (3 - leader, 1)
            (endpoint,) = answer.node_endpoints
            assert (endpoint.node_id, endpoint.port) == (3 - leader, cluster.node(3 - leader).port)

    run(body)
