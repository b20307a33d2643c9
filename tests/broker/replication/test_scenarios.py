"""Stories of one partition on a cluster, as Kafka's rules tell them: who is in sync, who leads, what is committed.

Each begins with ten records that every replica has committed: three replicas, the first of which leads, two of which
have to be in sync. A cut is one of the link on which a replica follows another; heartbeats go on. Time is virtual, so
a session that ends or a follower that lags for half a minute costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.metadata.image import PartitionImage
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.routing import RACK_AWARE
from ottla.wire.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    CreateTopicsRequest,
    ElectLeadersRequest,
    ElectLeadersResponse,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from tests.broker.log.support import append as append_to_log
from tests.broker.log.support import joined, make_batch
from tests.broker.worlds import Client, World, batch, in_simulation

TOPIC = "orders"
NONE, OFFSET_OUT_OF_RANGE, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT = 0, 1, 6, 7
LEADER_NOT_AVAILABLE, NOT_ENOUGH_REPLICAS, OFFSET_NOT_AVAILABLE = 5, 19, 78
PREFERRED_LEADER_NOT_AVAILABLE, ELECTION_NOT_NEEDED, NO_REASSIGNMENT_IN_PROGRESS = 80, 84, 85
INVALID_UPDATE_VERSION, INELIGIBLE_REPLICA, NEW_LEADER_ELECTED = 95, 107, 108
SESSION = 9.0
LAG, TICK = 30.0, 15.0
PREFERRED = 0


class Story:
    """The cluster, the partition, and what can be done to them."""

    def __init__(self, world: World, cluster: AsyncCluster) -> None:
        self.world = world
        self.cluster = cluster
        self._clients: dict[tuple[int, str], Client] = {}

    async def begin(self, replicas: tuple[int, ...], configs: dict[str, str]) -> None:
        topic = CreateTopicsRequest.CreatableTopic(
            name=TOPIC,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreateTopicsRequest.CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
            ],
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=name, value=value)
                for name, value in configs.items()
            ],
        )
        response = await self.cluster.node(1).link.create_topics([topic])
        assert response.topics[0].error_code == NONE
        await self.produce(10, acks=-1)
        await self.until(lambda: all(self.replica(node).high_watermark == 10 for node in replicas))
        assert (self.image.isr, self.image.leader) == (replicas, replicas[0])

    # What there is

    @property
    def image(self) -> PartitionImage:
        """As the controller has it."""
        image = self.cluster.controller.state.image.partition(TOPIC, 0)
        assert image is not None
        return image

    def replica(self, node: int) -> Partition:
        return self.cluster.node(node).replicas.partitions[TOPIC, 0]

    def end(self, node: int) -> int:
        return self.replica(node).log.log_end_offset

    def high_watermark(self, node: int) -> int:
        return self.replica(node).high_watermark

    def content(self, node: int) -> bytes:
        log = self.replica(node).log
        return joined(log.read(log.log_start_offset, 1 << 24))

    def is_isr(self, *members: int) -> bool:
        return set(self.image.isr) == set(members)

    @property
    def now(self) -> float:
        return self.cluster.clock.monotonic()

    async def until(self, condition: Callable[[], bool], within: float = 10.0) -> float:
        """How long it took."""
        begin = self.now
        await self.cluster.wait_for(condition, within=within)
        return self.now - begin

    async def until_isr(self, *members: int) -> None:
        """Within a session and what comes of it."""
        await self.until(lambda: self.is_isr(*members), within=20)

    async def until_proposed(self, node: int, within: float = 60.0) -> None:
        """Until the leader has proposed another ISR, and before the controller has answered."""
        deadline = self.now + within
        while self.replica(node).pending is None:
            assert self.now < deadline, "nothing was proposed"
            await asyncio.sleep(0.0001)

    # What clients do

    async def client(self, node: int, purpose: str) -> Client:
        """For each purpose another: what one waits for does not hold the others up."""
        if (node, purpose) not in self._clients:
            self._clients[node, purpose] = await self.world.client(self.cluster, node)
        return self._clients[node, purpose]

    async def produce(self, count: int, *, acks: int, node: int = 1, timeout: float = 30.0) -> int:
        """The error code; each record is a batch."""
        data = ProduceRequest.PartitionProduceData(index=0, records=batch(*[b"value"] * count))
        request = ProduceRequest(
            acks=acks,
            timeout_ms=int(timeout * 1000),
            topic_data=[ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[data])],
        )
        response = await (await self.client(node, "produce")).ask(request, 9, ProduceResponse)
        return response.responses[0].partition_responses[0].error_code

    def producing(self, count: int, *, acks: int, node: int = 1, timeout: float = 30.0) -> asyncio.Task[int]:
        return asyncio.ensure_future(self.produce(count, acks=acks, node=node, timeout=timeout))

    async def fetch(
        self, offset: int, *, node: int = 1, wait: float = 0.0, rack: str = ""
    ) -> FetchResponse.PartitionData:
        wanted = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=int(wait * 1000),
            min_bytes=1,
            max_bytes=1 << 24,
            session_epoch=-1,
            rack_id=rack,
            topics=[FetchRequest.FetchTopic(topic=TOPIC, partitions=[wanted])],
        )
        response = await (await self.client(node, "fetch")).ask(request, 12, FetchResponse)
        return response.responses[0].partitions[0]

    async def latest(self, node: int) -> tuple[int, int]:
        """The error code and the offset of ListOffsets."""
        query = ListOffsetsRequest.ListOffsetsPartition(
            partition_index=0, timestamp=-1, current_leader_epoch=-1
        )
        topic = ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=[query])
        request = ListOffsetsRequest(replica_id=-1, topics=[topic])
        response = await (await self.client(node, "fetch")).ask(request, 7, ListOffsetsResponse)
        found = response.topics[0].partitions[0]
        return found.error_code, found.offset

    # What administrators do

    async def reassign(self, replicas: list[int] | None) -> int:
        part = AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=0, replicas=replicas)
        topic = AlterPartitionReassignmentsRequest.ReassignableTopic(name=TOPIC, partitions=[part])
        controller = self.cluster.controller
        response: AlterPartitionReassignmentsResponse = await controller.carry_out(
            controller.state.alter_partition_reassignments(AlterPartitionReassignmentsRequest(topics=[topic]))
        )
        return response.responses[0].partitions[0].error_code

    async def elect_preferred(self) -> int:
        wanted = ElectLeadersRequest.TopicPartitions(topic=TOPIC, partitions=[0])
        controller = self.cluster.controller
        response: ElectLeadersResponse = await controller.carry_out(
            controller.state.elect_leaders(
                ElectLeadersRequest(election_type=PREFERRED, topic_partitions=[wanted])
            )
        )
        return response.replica_election_results[0].partition_result[0].error_code

    def answers_to(self, node: int) -> list[int]:
        """The controller's answers to this leader's proposals, as they come."""
        link = self.cluster.node(node).link
        alter = link.alter_partition
        codes: list[int] = []

        async def noting(request: AlterPartitionRequest) -> AlterPartitionResponse:
            response = await alter(request)
            codes.extend(part.error_code for topic in response.topics for part in topic.partitions)
            return response

        link.alter_partition = noting  # type: ignore[method-assign]
        return codes

    async def isolate(self, node: int) -> None:
        """No other replica reaches it any more, nor does the controller: another one leads."""
        for other in self.image.replicas:
            if other != node:
                self.cluster.cut_link(node, other)
        self.cluster.cut_controller(node)

    async def rejoin(self, node: int) -> None:
        self.cluster.heal_controller(node)
        for other in self.image.replicas:
            if other != node:
                self.cluster.heal_link(node, other)


def tell(
    body: Callable[[Story], Awaitable[None]],
    *,
    nodes: int = 3,
    replicas: tuple[int, ...] = (1, 2, 3),
    min_in_sync: int = 2,
    options: dict[str, Any] | None = None,
    configs: dict[str, str] | None = None,
) -> None:
    async def main(world: World) -> None:
        async with world.cluster(nodes, **(options or {})) as cluster:
            story = Story(world, cluster)
            await story.begin(replicas, {"min.insync.replicas": str(min_in_sync), **(configs or {})})
            await body(story)

    in_simulation(main)


def test_what_is_appended_is_committed_and_seen_when_the_last_replica_in_sync_has_fetched_it() -> None:
    async def body(story: Story) -> None:
        story.cluster.cut_link(1, 3)
        assert await story.produce(4, acks=1) == NONE
        waiting = story.producing(1, acks=-1)
        await story.until(lambda: story.replica(1).followers[2].log_end_offset == 15)
        assert (story.high_watermark(1), waiting.done()) == (10, False)
        assert not (await story.fetch(10)).records
        story.cluster.heal_link(1, 3)
        assert await waiting == NONE
        assert story.high_watermark(1) == 15
        assert (await story.fetch(10)).records

    tell(body)


def test_a_follower_that_lags_leaves_the_isr_and_is_waited_for_until_then() -> None:
    async def body(story: Story) -> None:
        before = story.image
        story.cluster.cut_link(1, 3)
        begin = story.now
        assert await story.produce(5, acks=1) == NONE
        while story.image.isr == before.isr:
            assert story.high_watermark(1) == 10
            await asyncio.sleep(0.01)
        assert LAG <= story.now - begin <= LAG + TICK
        assert story.image.isr == (1, 2)
        assert story.image.partition_epoch == before.partition_epoch + 1
        assert story.image.leader_epoch == before.leader_epoch
        await story.until(lambda: story.high_watermark(1) == 15, within=1)

    tell(body)


def test_a_leader_with_too_few_in_sync_commits_nothing_whatever_the_acks() -> None:
    async def body(story: Story) -> None:
        story.cluster.cut_link(1, 2)
        story.cluster.cut_link(1, 3)
        assert await story.produce(5, acks=-1, timeout=60) == REQUEST_TIMED_OUT
        assert (story.image.isr, story.end(1), story.high_watermark(1)) == ((1,), 15, 10)
        assert set(story.image.elr) == {2, 3}, "they have all that is committed"
        assert await story.produce(1, acks=-1) == NOT_ENOUGH_REPLICAS
        assert story.end(1) == 15
        assert await story.produce(1, acks=1) == NONE
        assert (story.end(1), story.high_watermark(1)) == (16, 10)
        assert not (await story.fetch(10)).records
        # One that comes back is enough, as soon as the controller has taken it in.
        story.cluster.heal_link(1, 2)
        while len(story.replica(1).image.isr) == 1:
            assert story.high_watermark(1) == 10
            await asyncio.sleep(0.001)
        assert story.high_watermark(1) == story.replica(1).followers[2].log_end_offset
        await story.until(lambda: story.high_watermark(1) == 16)
        assert story.is_isr(1, 2)
        assert story.image.elr == ()
        assert await story.produce(1, acks=-1) == NONE

    tell(body)


def test_a_follower_that_is_gone_lags_only_when_there_is_something_to_fetch() -> None:
    async def body(story: Story) -> None:
        story.cluster.cut_link(1, 2)
        await asyncio.sleep(300)
        assert story.is_isr(1, 2, 3)
        assert await story.produce(1, acks=1) == NONE
        assert await story.until(lambda: story.is_isr(1, 3), within=TICK + 0.1) > 0

    tell(body)


def test_a_node_that_is_paused_is_fenced_and_comes_back_as_the_same() -> None:
    async def body(story: Story) -> None:
        before = story.image
        epoch = story.cluster.node(3).link.broker_epoch
        story.cluster.pause_node(3)
        await asyncio.sleep(12)
        assert story.image.isr == (1, 2)
        assert story.image.partition_epoch == before.partition_epoch + 1
        story.cluster.resume_node(3)
        await story.until(lambda: story.is_isr(1, 2, 3))
        assert story.image.partition_epoch == before.partition_epoch + 2
        assert story.image.leader_epoch == before.leader_epoch
        assert story.cluster.node(3).link.broker_epoch == epoch

    tell(body)


def test_a_leader_that_dies_has_a_successor_that_knows_the_end_only_when_its_followers_do() -> None:
    async def body(story: Story) -> None:
        before = story.image
        # What the last leader has committed, its successor has not heard of.
        assert await story.produce(5, acks=-1) == NONE
        assert story.high_watermark(2) == 10
        story.cluster.cut_link(2, 3)
        await story.cluster.stop_node(1, clean=False)
        assert await story.until(lambda: story.image.leader == 2, within=SESSION + SESSION / 8 + 0.1) > 0
        assert (story.image.leader_epoch, story.image.isr) == (before.leader_epoch + 1, (2, 3))
        await story.until(lambda: story.replica(2).is_leader)
        assert story.replica(2).log.epochs.entries[-1] == (before.leader_epoch + 1, 15)
        assert (story.high_watermark(2), await story.latest(2)) == (10, (OFFSET_NOT_AVAILABLE, -1))
        story.cluster.heal_link(2, 3)
        await story.until(lambda: story.high_watermark(2) == 15)
        assert await story.latest(2) == (NONE, 15)

    tell(body)


def test_what_an_isolated_leader_alone_has_is_cut_off_when_it_comes_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body(story: Story) -> None:
        epoch = story.image.leader_epoch
        await story.isolate(1)
        high_watermark = story.high_watermark(1)
        assert await story.produce(3, acks=1) == NONE
        assert await story.produce(1, acks=-1, timeout=1) == REQUEST_TIMED_OUT
        assert (story.end(1), high_watermark) == (14, 10)
        await story.until(lambda: story.image.leader == 2, within=20)
        # It does not know yet, and commits nothing.
        waiting = story.producing(1, acks=-1, timeout=60)
        await story.until(lambda: story.replica(2).is_leader)
        assert await story.produce(5, acks=-1, node=2) == NONE
        assert story.high_watermark(1) == 10
        with caplog.at_level("INFO"):
            await story.rejoin(1)
            await story.until(lambda: story.is_isr(1, 2, 3), within=60)
        assert await waiting == NOT_LEADER_OR_FOLLOWER
        assert f"epoch={epoch}, end_offset=10" in caplog.text
        assert story.end(1) == 15
        assert story.content(1) == story.content(2) == story.content(3)
        assert story.replica(1).log.epochs.entries == ((epoch, 0), (epoch + 1, 10))

    tell(body)


def test_a_follower_of_several_leaders_is_cut_back_to_the_last_epoch_that_both_know() -> None:
    async def body(story: Story) -> None:
        for node in (2, 1, 2, 1):
            await story.cluster.move_leader(TOPIC, 0, node)
        story.cluster.cut_link(1, 2)
        leader, follower = story.replica(1), story.replica(2)
        assert leader.leader_epoch == 4
        for partition, written in (
            (leader, [(1, 20), (4, 2)]),
            (follower, [(1, 15), (2, 3), (3, 4)]),
        ):
            partition.truncate_fully(0)
            for epoch, count in written:
                for _ in range(count):
                    append_to_log(partition.log, make_batch(value=b"of %d" % epoch), epoch=epoch)
        assert [*follower.log.epochs.entries] == [(1, 0), (2, 15), (3, 18)]
        cut_to: list[int] = []
        truncate = follower.truncate_to

        def noting(offset: int) -> None:
            cut_to.append(offset)
            truncate(offset)

        follower.truncate_to = noting  # type: ignore[method-assign]
        story.cluster.heal_link(1, 2)
        await story.until(lambda: story.content(1) == story.content(2))
        assert cut_to == [15]
        assert follower.log.epochs.entries == ((1, 0), (4, 20))

    tell(body, nodes=2, replicas=(1, 2), min_in_sync=1)


def test_a_follower_that_ends_before_its_leader_begins_starts_anew_there() -> None:
    async def body(story: Story) -> None:
        story.cluster.cut_link(1, 2)
        assert await story.produce(90, acks=1) == NONE
        await story.until(lambda: story.high_watermark(1) == 100, within=60)
        story.cluster.node(1).replicas.delete_records(story.replica(1), 100)
        assert story.end(2) == 10
        story.cluster.heal_link(1, 2)
        await story.until(lambda: story.end(2) == 100)
        follower = story.replica(2)
        assert (follower.log.log_start_offset, follower.high_watermark) == (100, 100)
        assert follower.log.epochs.entries == ()
        await story.until(lambda: story.is_isr(1, 2, 3))

    tell(body)


def test_a_replica_joins_as_the_incarnation_that_fetches_and_no_earlier_one() -> None:
    async def body(story: Story) -> None:
        codes = story.answers_to(1)
        old = story.cluster.node(3).link.broker_epoch
        await story.cluster.stop_node(3, clean=False)
        await story.until_isr(1, 2)
        await story.cluster.start_node(3)
        await story.until_isr(1, 2, 3)
        new = story.cluster.node(3).link.broker_epoch
        assert new > old
        assert story.replica(1).followers[3].broker_epoch == new
        # What its last incarnation had sent comes late.
        wanted = FetchRequest.FetchPartition(
            partition=0,
            current_leader_epoch=story.image.leader_epoch,
            fetch_offset=0,
            partition_max_bytes=1 << 20,
        )
        request = FetchRequest(
            replica_state=FetchRequest.ReplicaState(replica_id=3, replica_epoch=old),
            max_wait_ms=0,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[
                FetchRequest.FetchTopic(topic_id=story.replica(1).topic_id, partitions=[wanted]),
            ],
        )
        late = await (await story.client(1, "fetch")).ask(request, 17, FetchResponse)
        assert late.responses[0].partitions[0].error_code == NOT_LEADER_OR_FOLLOWER
        # The leader does not know yet that it is fenced again when it proposes it.
        story.cluster.cut_link(1, 3)
        await story.produce(1, acks=1)
        await story.until(lambda: story.is_isr(1, 2), within=50)
        codes.clear()
        story.cluster.heal_link(1, 3)
        controller = story.cluster.controller
        await story.until_proposed(1)
        controller.commit(controller.state.fence_broker(3))
        await story.until(lambda: bool(codes))
        assert (codes[0], story.replica(1).maximal_isr) == (INELIGIBLE_REPLICA, (1, 2))
        await story.until_isr(1, 2, 3)

    tell(body)


def test_a_proposal_that_the_controller_has_overtaken_waits_for_the_metadata_log() -> None:
    async def body(story: Story) -> None:
        codes = story.answers_to(1)
        story.cluster.cut_link(1, 2)
        await story.produce(1, acks=1)
        leader = story.replica(1)
        await asyncio.sleep(29)
        await story.until_proposed(1)
        assert leader.image.isr == (1, 2, 3)
        controller = story.cluster.controller
        controller.commit(controller.state.fence_broker(3))
        decided = story.image
        await story.until(lambda: bool(codes))
        assert codes == [INVALID_UPDATE_VERSION]
        await story.until(lambda: leader.image.partition_epoch >= decided.partition_epoch)
        await story.until(lambda: story.is_isr(1, 3), within=50)

    tell(body)


def test_a_reassignment_is_over_when_the_new_replica_is_in_sync() -> None:
    async def body(story: Story) -> None:
        before = story.image
        codes = story.answers_to(1)
        directory = story.replica(1).log.directory
        (files,) = story.cluster.volumes.of(1).values()
        story.cluster.cut_link(1, 4)
        assert await story.reassign([4, 2, 3]) == NONE
        running = story.image
        assert (running.replicas, running.leader) == ((4, 2, 3, 1), 1)
        assert running.leader_epoch == before.leader_epoch
        await asyncio.sleep(5)
        assert (story.image.is_reassigning, codes) == (True, [])
        assert files.list(directory)
        story.cluster.heal_link(1, 4)
        await story.until(lambda: not story.image.is_reassigning)
        assert (story.image.replicas, story.image.leader) == ((4, 2, 3), 4)
        assert story.image.leader_epoch == before.leader_epoch + 1
        await story.until(lambda: bool(codes))
        assert codes == [NEW_LEADER_ELECTED]
        await story.until(lambda: (TOPIC, 0) not in story.cluster.node(1).replicas.partitions)
        assert not files.list(directory)
        assert await story.produce(1, acks=-1, node=4) == NONE
        await story.until(lambda: story.content(4) == story.content(2) == story.content(3))

    tell(body, nodes=4)


def test_a_reassignment_that_is_cancelled_leaves_the_replicas_that_there_were() -> None:
    async def body(story: Story) -> None:
        before = story.image
        story.cluster.cut_link(1, 4)
        assert await story.reassign([4, 2, 3]) == NONE
        assert await story.reassign(None) == NONE
        assert (story.image.replicas, story.image.leader) == ((2, 3, 1), 1)
        assert story.image.leader_epoch == before.leader_epoch + 1
        assert await story.reassign(None) == NO_REASSIGNMENT_IN_PROGRESS
        await story.until(lambda: (TOPIC, 0) not in story.cluster.node(4).replicas.partitions)
        assert await story.produce(1, acks=-1) == NONE
        await story.until(lambda: story.content(1) == story.content(2) == story.content(3))

    tell(body, nodes=4)


def test_the_preferred_leader_leads_again_if_it_can_and_does_not_already() -> None:
    async def body(story: Story) -> None:
        await story.cluster.move_leader(TOPIC, 0, 2)
        epoch = story.image.leader_epoch
        assert await story.elect_preferred() == NONE
        assert (story.image.leader, story.image.leader_epoch) == (1, epoch + 1)
        assert await story.elect_preferred() == ELECTION_NOT_NEEDED
        await story.cluster.move_leader(TOPIC, 0, 2)
        story.cluster.cut_link(1, 2)
        await story.produce(1, acks=1, node=2)
        await story.until(lambda: story.is_isr(2, 3), within=50)
        assert await story.elect_preferred() == PREFERRED_LEADER_NOT_AVAILABLE
        assert story.image.leader == 2

    tell(body)


def test_a_node_that_is_stopped_hands_its_leaderships_over_and_comes_back_as_another() -> None:
    async def body(story: Story) -> None:
        before = story.image
        epoch = story.cluster.node(1).link.broker_epoch
        content = story.content(1)
        await story.cluster.stop_node(1)
        assert (story.image.leader, story.image.leader_epoch) == (2, before.leader_epoch + 1)
        assert story.image.isr == (2, 3)
        begin = story.now
        await story.cluster.start_node(1)
        assert story.now - begin <= SESSION + 1
        assert story.cluster.node(1).link.broker_epoch > epoch
        await story.until(lambda: story.is_isr(1, 2, 3))
        assert story.content(1) == content
        assert story.high_watermark(1) == 10

    tell(body)


def test_when_all_have_died_the_last_leader_leads_again_though_no_one_vouches_for_its_log() -> None:
    async def body(story: Story) -> None:
        for node, isr in ((3, (1, 2)), (2, (1,)), (1, ())):
            await story.cluster.stop_node(node, clean=False)
            await story.until_isr(*isr)
        assert (set(story.image.elr), story.image.leader) == ({1, 2}, -1)
        assert story.image.last_known_elr == (1,)
        await story.cluster.start_node(2)
        # It may have lost what it had not written to its disk, so it is no candidate.
        assert (story.image.elr, story.image.isr, story.image.leader) == ((1,), (), -1)
        response = await (await story.client(2, "fetch")).ask(
            MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=TOPIC)]), 12, MetadataResponse
        )
        (found,) = response.topics[0].partitions
        assert (found.error_code, found.leader_id) == (LEADER_NOT_AVAILABLE, -1)
        await story.cluster.start_node(1)
        await story.until(lambda: story.image.leader == 1, within=20)
        assert story.image.elr == ()
        await story.until_isr(1, 2)
        assert not story.image.recovering, "the ISR has changed since"
        assert story.content(1) == story.content(2)

    tell(body)


def test_a_replica_that_was_stopped_cleanly_leads_again_for_it_has_all_that_is_committed() -> None:
    async def body(story: Story) -> None:
        await story.cluster.stop_node(3, clean=False)
        await story.until_isr(1, 2)
        await story.cluster.stop_node(2)
        assert (story.image.isr, story.image.elr) == ((1,), (2,))
        await story.cluster.stop_node(1, clean=False)
        await story.until(lambda: story.image.leader == -1, within=20)
        assert (story.image.isr, set(story.image.elr)) == ((), {1, 2})
        await story.cluster.start_node(2)
        await story.until(lambda: story.image.leader == 2, within=20)
        assert (story.image.isr, story.image.elr) == ((2,), (1,))
        await story.until(lambda: story.replica(2).is_leader)
        assert await story.produce(1, acks=1, node=2) == NONE
        assert (story.end(2), story.high_watermark(2)) == (11, 10)
        assert await story.produce(1, acks=-1, node=2) == NOT_ENOUGH_REPLICAS

    tell(body)


def test_an_unclean_leader_makes_the_others_forget_what_was_committed() -> None:
    async def body(story: Story) -> None:
        story.cluster.cut_link(1, 2)
        assert await story.produce(5, acks=1) == NONE
        await story.until(lambda: story.is_isr(1), within=50)
        assert (story.high_watermark(1), story.end(2)) == (15, 10)
        await story.cluster.stop_node(1, clean=False)
        await story.until(lambda: story.image.leader == 2, within=20)
        assert story.image.isr == (2,)
        story.cluster.heal_link(1, 2)
        await story.cluster.start_node(1)
        await story.until_isr(1, 2)
        assert (story.end(1), story.high_watermark(1)) == (10, 10)
        assert story.content(1) == story.content(2)
        assert not story.image.recovering

    tell(
        body,
        nodes=2,
        replicas=(1, 2),
        min_in_sync=1,
        configs={"unclean.leader.election.enable": "true"},
    )


def test_a_reader_between_the_watermark_and_the_end_waits_and_one_behind_the_end_is_out_of_range() -> None:
    async def body(story: Story) -> None:
        story.cluster.cut_link(1, 3)
        assert await story.produce(5, acks=1) == NONE
        begin = story.now
        found = await story.fetch(12, wait=5)
        assert (found.error_code, bytes(found.records or b""), found.high_watermark) == (NONE, b"", 10)
        assert story.now - begin == pytest.approx(5, abs=0.1)
        assert (await story.fetch(16)).error_code == OFFSET_OUT_OF_RANGE
        assert (await story.fetch(15)).error_code == NONE

    tell(body)


def test_a_consumer_is_sent_to_the_replica_in_its_rack_which_serves_what_it_knows_to_be_committed() -> None:
    async def body(story: Story) -> None:
        sent = await story.fetch(0, rack="b")
        assert (sent.error_code, sent.preferred_read_replica, bytes(sent.records or b"")) == (NONE, 2, b"")
        found = await story.fetch(0, node=2, rack="b")
        assert (found.error_code, found.preferred_read_replica, found.high_watermark) == (NONE, -1, 10)
        assert found.records
        # The leader alone knows that these are committed.
        assert await story.produce(5, acks=-1) == NONE
        assert (story.high_watermark(1), story.high_watermark(2)) == (15, 10)
        assert not (await story.fetch(10, node=2, rack="b")).records
        assert (await story.fetch(16, node=2, rack="b")).error_code == OFFSET_OUT_OF_RANGE
        await story.until(lambda: story.high_watermark(2) == 15)
        assert (await story.fetch(10, node=2, rack="b")).records
        # One that has not got as far as the consumer is not preferred.
        story.cluster.cut_link(1, 2)
        assert await story.produce(1, acks=1) == NONE
        assert (await story.fetch(16, rack="b")).preferred_read_replica == -1
        assert (await story.fetch(15, rack="b")).preferred_read_replica == 2

    tell(
        body,
        options={"racks": ["a", "b", "c"], "config": {"replica.selector.class": RACK_AWARE}},
    )
