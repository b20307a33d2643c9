"""A coordinator that loads: every request is told so, none gets a wrong answer, and members wait it out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.broker.coordinator import runtime as coordinators
from ottla.client.topic_partition import TopicPartition
from ottla.wire import messages as m
from tests.client.consume.consuming import plain_client
from tests.client.group.grouping import PROTOCOLS, QUICK, until, until_shared
from tests.client.worlds import World, in_simulation

LOADING, NOT_COORDINATOR = 14, 16
OFFSETS = "__consumer_offsets"
NUMBERS = [b"%d" % number for number in range(10)]
ORDERS = TopicPartition("orders", 0)
each_protocol = pytest.mark.parametrize("options", PROTOCOLS.values(), ids=PROTOCOLS)


class HeldLoads:
    """From `hold` on, coordinators do not begin to read their logs before `let_go`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._gate = asyncio.Event()
        self.waiting = 0

    def hold(self) -> None:
        load = coordinators._LedPartition.load

        async def held(led: Any) -> None:
            self.waiting += 1
            await self._gate.wait()
            await load(led)

        self._monkeypatch.setattr(coordinators._LedPartition, "load", held)

    def let_go(self) -> None:
        self._gate.set()


async def codes(client: Any, topic: str) -> dict[str, int]:
    """What each API of groups answers."""
    group = "billing"
    commit = m.OffsetCommitRequest.OffsetCommitRequestTopic(
        name=topic,
        partitions=[
            m.OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        ],
    )
    fetch = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)
    joined = await client.ask(
        m.JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="member",
            protocol_type="consumer",
            protocols=[m.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")],
        ),
        9,
        m.JoinGroupResponse,
    )
    synced = await client.ask(
        m.SyncGroupRequest(
            group_id=group,
            generation_id=1,
            member_id="member",
            protocol_type="consumer",
            protocol_name="range",
        ),
        5,
        m.SyncGroupResponse,
    )
    left = await client.ask(
        m.LeaveGroupRequest(group_id=group, members=[m.LeaveGroupRequest.MemberIdentity(member_id="member")]),
        5,
        m.LeaveGroupResponse,
    )
    heartbeat = await client.ask(
        m.HeartbeatRequest(group_id=group, generation_id=1, member_id="member"), 4, m.HeartbeatResponse
    )
    committed = await client.ask(
        m.OffsetCommitRequest(
            group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=[commit]
        ),
        9,
        m.OffsetCommitResponse,
    )
    fetched = await client.ask(m.OffsetFetchRequest(groups=[fetch]), 9, m.OffsetFetchResponse)
    described = await client.ask(m.DescribeGroupsRequest(groups=[group]), 5, m.DescribeGroupsResponse)
    deleted = await client.ask(m.DeleteGroupsRequest(groups_names=[group]), 2, m.DeleteGroupsResponse)
    beat = await client.ask(
        m.ConsumerGroupHeartbeatRequest(group_id=group, member_id="AAAAAAAAAAAAAAAAAAAAAQ", member_epoch=1),
        1,
        m.ConsumerGroupHeartbeatResponse,
    )
    consumers = await client.ask(
        m.ConsumerGroupDescribeRequest(group_ids=[group]), 1, m.ConsumerGroupDescribeResponse
    )
    return {
        "JoinGroup": joined.error_code,
        "SyncGroup": synced.error_code,
        "LeaveGroup": left.error_code,
        "Heartbeat": heartbeat.error_code,
        "OffsetCommit": committed.topics[0].partitions[0].error_code,
        "OffsetFetch": fetched.groups[0].error_code,
        "DescribeGroups": described.groups[0].error_code,
        "DeleteGroups": deleted.results[0].error_code,
        "ConsumerGroupHeartbeat": beat.error_code,
        "ConsumerGroupDescribe": consumers.groups[0].error_code,
    }


@each_protocol
def test_members_wait_for_a_coordinator_that_loads_and_lose_nothing(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(world: World) -> None:
        loads = HeldLoads(monkeypatch)
        config = {**QUICK, "offsets.topic.replication.factor": "2"}
        async with world.cluster(2, topics={"orders": 1}, config=config) as cluster:
            cluster.seed("orders", NUMBERS)
            lasting = {**options, "session_timeout_ms": 30_000}
            kafka = world.client(cluster, **lasting, enable_auto_commit=False)
            async with kafka.consume("orders", group="billing") as consumer:
                await until_shared(world, consumer, count=1)
                read = await consumer.poll(5, timeout=60)
                await consumer.commit()
                member = consumer.health().member_id
                await cluster.wait_until_in_sync(OFFSETS)
                old = cluster.leader(OFFSETS, 0)
                new = next(node for node in cluster.nodes if node != old)
                loads.hold()
                await cluster.move_leader(OFFSETS, 0, new)
                await until(world, lambda: loads.waiting == 1, "the load to begin")
                async with plain_client(world, cluster, new) as client:
                    answers = await codes(client, "orders")
                # As in Kafka: a member must not leave its group because of a load.
                assert answers.pop("Heartbeat") == 0
                assert set(answers.values()) == {LOADING}, answers
                async with plain_client(world, cluster, old) as client:
                    answers = await codes(client, "orders")
                assert set(answers.values()) == {NOT_COORDINATOR}, answers
                # What was fetched is read on; a commit waits for the coordinator.
                read += await consumer.poll(5, timeout=60)
                committing = consumer.commit_async()
                await world.runtime.clock.sleep(1.0)
                assert not committing.done()
                loads.let_go()
                assert await committing is None
                assert await consumer.committed(ORDERS) == {ORDERS: len(read)}
                await until_shared(world, consumer, count=1)
                assert consumer.health().member_id == member, "it has not joined anew"
            await kafka.close()

    in_simulation(body)
