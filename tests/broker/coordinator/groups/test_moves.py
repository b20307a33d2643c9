"""Coordinators that move or die: what members get, what the next coordinator knows, and what no one may forget.

Three nodes, each with a replica of the offsets topic, and virtual time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.coordinator.internal_topics import OFFSETS_TOPIC
from ottla.errors import BrokerError
from ottla.wire.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.broker.coordinator.groups.classic_world import subscription
from tests.broker.worlds import Client, World, in_simulation

GROUP, TOPIC = "g", "orders"
NONE, NOT_AVAILABLE, NOT_COORDINATOR = 0, 15, 16
ILLEGAL_GENERATION, UNKNOWN_MEMBER, MEMBER_ID_REQUIRED = 22, 25, 79


class Members:
    """Clients of one group, each with a connection to every node."""

    def __init__(self, world: World, cluster: AsyncCluster) -> None:
        self.world = world
        self.cluster = cluster
        self._clients: dict[tuple[str, int], Client] = {}

    async def begin(self) -> None:
        await self.cluster.create_topic(TOPIC, 2)
        client = await self.client("setup", 1)
        await client.ask(FindCoordinatorRequest(key=GROUP), 3, FindCoordinatorResponse)
        await self.cluster.wait_for(lambda: self._is_loaded(), "the coordinator")
        await self.cluster.wait_until_in_sync(OFFSETS_TOPIC)

    @property
    def partition(self) -> int:
        return next(iter(self.cluster.nodes.values())).groups.partition_of(GROUP)

    @property
    def coordinator(self) -> int:
        return self.cluster.leader(OFFSETS_TOPIC, self.partition)

    def _is_loaded(self) -> bool:
        try:
            self.cluster.node(self.coordinator).groups.read(GROUP, lambda shard: None)
        except (BrokerError, KeyError, ValueError, RuntimeError):
            return False
        return True

    async def loaded(self) -> None:
        await self.cluster.wait_for(self._is_loaded, "the coordinator")

    async def client(self, name: str, node: int | None = None) -> Client:
        key = (name, self.coordinator if node is None else node)
        if key not in self._clients:
            self._clients[key] = await self.world.client(self.cluster, key[1])
        return self._clients[key]

    async def join(self, name: str, member_id: str = "") -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=20_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=subscription(TOPIC))],
        )
        client = await self.client(name)
        response = await client.ask(request, 9, JoinGroupResponse)
        if response.error_code == MEMBER_ID_REQUIRED:
            request.member_id = response.member_id
            response = await client.ask(request, 9, JoinGroupResponse)
        return response

    async def sync(self, name: str, member_id: str, generation: int) -> SyncGroupResponse:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")],
        )
        return await (await self.client(name)).ask(request, 5, SyncGroupResponse)

    async def stable(self, name: str) -> str:
        joined = await self.join(name)
        assert (await self.sync(name, joined.member_id, joined.generation_id)).assignment == b"all"
        return joined.member_id

    async def heartbeat(self, name: str, member_id: str, generation: int = 1) -> int:
        request = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member_id)
        return (await (await self.client(name)).ask(request, 4, HeartbeatResponse)).error_code

    async def commit(self, name: str, member_id: str, offset: int) -> int:
        request = OffsetCommitRequest(
            group_id=GROUP,
            member_id=member_id,
            generation_id_or_member_epoch=1,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name=TOPIC,
                    partitions=[
                        OffsetCommitRequest.OffsetCommitRequestPartition(
                            partition_index=0, committed_offset=offset, committed_metadata=""
                        )
                    ],
                )
            ],
        )
        response = await (await self.client(name)).ask(request, 9, OffsetCommitResponse)
        return response.topics[0].partitions[0].error_code

    async def committed(self, name: str, *, stable: bool = True) -> tuple[int, int]:
        requested = OffsetFetchRequest.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
        request = OffsetFetchRequest(group_id=GROUP, topics=[requested], require_stable=stable)
        response = await (await self.client(name)).ask(request, 7, OffsetFetchResponse)
        if response.error_code:
            return response.error_code, -1
        return 0, response.topics[0].partitions[0].committed_offset

    async def move(self) -> None:
        """Another node leads the partition, and has loaded it."""
        before = self.coordinator
        await self.cluster.move_leader(OFFSETS_TOPIC, self.partition, before % 3 + 1)
        await self.cluster.wait_for(lambda: self.coordinator != before, "the move")
        await self.loaded()


def play(story: Callable[[Members], Awaitable[None]], **config: object) -> None:
    async def main(world: World) -> None:
        options: dict[str, Any] = {"offsets.topic.num.partitions": 2, **config}
        async with world.cluster(3, config=options) as cluster:
            members = Members(world, cluster)
            await members.begin()
            await story(members)

    in_simulation(main)


def test_members_stay_members_when_their_coordinator_moves() -> None:
    async def story(members: Members) -> None:
        member = await members.stable("a")
        assert await members.commit("a", member, 5) == NONE
        before = members.coordinator
        await members.move()
        stale = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member)
        refused = await (await members.client("a", before)).ask(stale, 4, HeartbeatResponse)
        assert refused.error_code == NOT_COORDINATOR
        assert await members.heartbeat("a", member) == NONE
        assert await members.committed("a") == (NONE, 5)
        assert (await members.sync("a", member, 1)).assignment == b"all"
        assert await members.commit("a", member, 6) == NONE

    play(story)


def test_a_join_that_is_parked_learns_that_the_coordinator_moves_and_its_member_is_not_known() -> None:
    async def story(members: Members) -> None:
        leader = await members.stable("a")
        parked = asyncio.ensure_future(members.join("b"))
        await members.cluster.wait_for(
            lambda: (
                members.cluster.node(members.coordinator).groups.read(
                    GROUP, lambda shard: shard.groups[GROUP].state_name
                )
                == "PreparingRebalance"
            ),
            "the rebalance",
        )
        await members.move()
        assert (await parked).error_code == NOT_COORDINATOR
        assert (await members.join("b", "test-unknown")).error_code == UNKNOWN_MEMBER
        assert await members.heartbeat("a", leader) == NONE

    play(story)


def test_a_generation_that_no_leader_has_synced_dies_with_its_coordinator() -> None:
    async def story(members: Members) -> None:
        member = await members.stable("a")
        again = await members.join("a", member)
        assert again.generation_id == 2
        await members.move()
        assert (await members.sync("a", member, 2)).error_code == ILLEGAL_GENERATION
        assert await members.heartbeat("a", member, 1) == NONE

    play(story)


def test_sessions_begin_anew_with_the_next_coordinator() -> None:
    async def story(members: Members) -> None:
        member = await members.stable("a")
        clock = members.cluster.node(1).runtime.clock
        await clock.sleep(8)
        await members.move()
        await clock.sleep(8)
        assert await members.heartbeat("a", member) == NONE
        await clock.sleep(11)
        assert await members.heartbeat("a", member) == UNKNOWN_MEMBER

    play(story)


def test_a_commit_that_succeeded_survives_the_coordinator_that_took_it() -> None:
    async def story(members: Members) -> None:
        member = await members.stable("a")
        for offset in range(5):
            assert await members.commit("a", member, offset) == NONE
            await members.cluster.stop_node(before := members.coordinator, clean=False)
            await members.cluster.wait_for(lambda before=before: members.coordinator != before, "the next")  # type: ignore[misc]
            await members.loaded()
            assert await members.committed("a") == (NONE, offset)
            await members.cluster.start_node(before)
            for key in [key for key in members._clients if key[1] == before]:
                del members._clients[key]
            await members.cluster.wait_until_in_sync(OFFSETS_TOPIC, members.partition)
            assert await members.heartbeat("a", member) == NONE

    play(story)


def test_a_commit_that_followers_do_not_get_is_not_seen_and_not_promised() -> None:
    async def story(members: Members) -> None:
        member = await members.stable("a")
        assert await members.commit("a", member, 1) == NONE
        leader = members.coordinator
        for node_id in members.cluster.nodes:
            if node_id != leader:
                members.cluster.cut_link(node_id, leader)
        waiting = asyncio.ensure_future(members.commit("a", member, 2))
        await asyncio.sleep(0.5)
        assert await members.committed("b", stable=False) == (NONE, 1)
        assert (await members.committed("b", stable=True))[0] == NOT_COORDINATOR
        assert await waiting == NOT_AVAILABLE
        for node_id in members.cluster.nodes:
            if node_id != leader:
                members.cluster.heal_link(node_id, leader)
        await members.cluster.wait_until_in_sync(OFFSETS_TOPIC, members.partition)
        assert await members.committed("b") == (NONE, 2)

    play(story)


def test_a_coordinator_that_is_cut_off_cannot_stabilize_a_group() -> None:
    async def story(members: Members) -> None:
        joined = await members.join("a")
        leader = members.coordinator
        for node_id in members.cluster.nodes:
            if node_id != leader:
                members.cluster.cut_link(node_id, leader)
        synced = await members.sync("a", joined.member_id, joined.generation_id)
        assert synced.error_code == NOT_AVAILABLE
        node = members.cluster.node(leader)
        assert node.groups.read(GROUP, lambda shard: shard.groups[GROUP].state_name) == "PreparingRebalance"

    play(story)


def test_a_paused_coordinator_expires_no_session_and_resumes_with_its_timers() -> None:
    async def story(members: Members) -> None:
        member = await members.stable("a")
        clock = members.cluster.node(1).runtime.clock
        node = members.cluster.node(members.coordinator)
        node.groups.pause()
        await clock.sleep(11)
        assert node.groups.read(GROUP, lambda shard: shard.groups[GROUP].state_name) == "Stable"
        node.groups.resume()
        assert await members.heartbeat("a", member) == UNKNOWN_MEMBER

    play(story)


def test_the_offsets_of_an_empty_group_are_forgotten_when_their_retention_is_over() -> None:
    async def story(members: Members) -> None:
        member = await members.stable("a")
        assert await members.commit("a", member, 5) == NONE
        clock = members.cluster.node(1).runtime.clock
        await clock.sleep(60)
        assert await members.committed("a") == (NONE, 5)
        await clock.sleep(40)
        assert await members.committed("a") == (NONE, -1)
        node = members.cluster.node(members.coordinator)
        assert node.groups.read(GROUP, lambda shard: GROUP in shard.groups) is False

    play(story, **{"offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": 10_000})
