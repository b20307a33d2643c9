"""TxnOffsetCommit: offsets that wait for the end of a transaction, and who may put them there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.coordinator.groups.records import OffsetCommitValue, decode
from ottla.broker.coordinator.internal_topics import OFFSETS_TOPIC, coordinator_partition
from ottla.errors import BrokerError
from ottla.wire import ZERO_UUID
from ottla.wire.batches import batch_headers
from ottla.wire.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from ottla.wire.records import decode_fetch
from tests.broker.coordinator.scripted import ScriptedCoordinator
from tests.broker.handlers.transactions import write_markers
from tests.broker.worlds import Body as WorldBody
from tests.broker.worlds import Client, World, in_simulation

Run = Callable[[WorldBody], object]

UNKNOWN_PARTITION, NOT_LEADER, METADATA_TOO_LARGE, ILLEGAL_GENERATION, INVALID_GROUP = 3, 6, 12, 22, 24
UNKNOWN_MEMBER = 25
UNSTABLE, INVALID_EPOCH, INVALID_STATE, CONCURRENT, ABORTABLE, FENCED = 88, 47, 48, 51, 120, 90
LOADING, NOT_AVAILABLE, NOT_COORDINATOR, COORDINATOR_FENCED = 14, 15, 16, 52
PARTITIONS = 5


@dataclass
class World28:
    """A cluster with a coordinator of transactions that a test plays, and a client of the group's coordinator."""

    world: World
    cluster: AsyncCluster
    transactions: ScriptedCoordinator
    client: Client
    group: str = "g"

    @property
    def key(self) -> tuple[str, int]:
        return (OFFSETS_TOPIC, coordinator_partition(self.group, PARTITIONS))

    async def commit(
        self,
        offset: int = 10,
        *,
        producer: tuple[int, int] = (1, 0),
        version: int = 5,
        index: int = 0,
        topic: str = "orders",
        metadata: str | None = "",
        member: tuple[str, int] = ("", -1),
        instance: str | None = None,
    ) -> int:
        part = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=metadata
        )
        request = TxnOffsetCommitRequest(
            transactional_id="tx",
            group_id=self.group,
            producer_id=producer[0],
            producer_epoch=producer[1],
            generation_id=member[1],
            member_id=member[0],
            group_instance_id=instance,
            topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=topic, partitions=[part])],
        )
        response = await self.client.ask(request, version, TxnOffsetCommitResponse)
        return response.topics[0].partitions[0].error_code

    async def plain_commit(self, offset: int) -> int:
        part = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=self.group,
            topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name="orders", partitions=[part])],
        )
        response = await self.client.ask(request, 9, OffsetCommitResponse)
        return response.topics[0].partitions[0].error_code

    async def fetch(self, *, stable: bool = True, all_partitions: bool = False) -> tuple[int, int] | None:
        """Code and offset; None where no offset is told."""
        wanted = OffsetFetchRequest.OffsetFetchRequestTopics(name="orders", partition_indexes=[0])
        group = OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=self.group, topics=None if all_partitions else [wanted]
        )
        request = OffsetFetchRequest(groups=[group], require_stable=stable)
        response = await self.client.ask(request, 9, OffsetFetchResponse)
        (found,) = response.groups
        assert found.error_code == 0
        if not found.topics:
            return None
        part = found.topics[0].partitions[0]
        return part.error_code, part.committed_offset

    async def end(
        self, *, commit: bool = True, epoch: int = 1, producer_id: int = 1, version: int = 2
    ) -> int:
        codes = await write_markers(
            self.client, producer_id, epoch, self.key, commit=commit, transaction_version=version
        )
        return codes[0]

    async def connect(self) -> None:
        """To the coordinator of the group, once it has loaded."""
        any_node = next(iter(self.cluster.nodes))
        asking = await self.world.client(self.cluster, any_node)
        request = FindCoordinatorRequest(key=self.group)
        while True:
            found = await asking.ask(request, 3, FindCoordinatorResponse)
            if not found.error_code and self._is_loaded(found.node_id):
                break
            await self.world.runtime.clock.sleep(0.05)
        self.client = await self.world.client(self.cluster, found.node_id)

    def _is_loaded(self, node_id: int) -> bool:
        try:
            self.cluster.node(node_id).groups.read(self.group, lambda shard: None)
        except BrokerError:
            return False
        return True


Body = Callable[[World28], Awaitable[None]]


def played(run: Run, body: Body, *codes: int, brokers: int = 1, **config: object) -> None:
    async def main(world: World) -> None:
        named = {name.replace("_", "."): value for name, value in config.items()}
        named["offsets.topic.num.partitions"] = PARTITIONS
        async with world.cluster(brokers, topics={"orders": 2}, config=named) as cluster:
            transactions = ScriptedCoordinator(*codes)
            transactions.install([cluster.node(number) for number in cluster.nodes])
            played = World28(world, cluster, transactions, await world.client(cluster))
            await played.connect()
            await body(played)

    run(main)


@pytest.mark.parametrize(("commit", "expected"), [(True, 10), (False, 5)])
def test_an_offset_is_unstable_until_its_transaction_ends(run: Run, commit: bool, expected: int) -> None:
    async def body(w: World28) -> None:
        assert await w.plain_commit(5) == 0
        assert await w.commit(10) == 0
        assert await w.fetch() == (UNSTABLE, -1)
        assert await w.fetch(all_partitions=True) == (UNSTABLE, -1)
        assert await w.fetch(stable=False) == (0, 5)
        assert await w.end(commit=commit) == 0
        assert await w.fetch() == (0, expected)
        assert await w.fetch(stable=False) == (0, expected)

    played(run, body)


def test_the_groups_partition_is_asked_for_once_and_added_since_version_5() -> None:
    async def body(w: World28) -> None:
        for version in (4, 3):
            assert await w.commit(1, version=version) == 0
        assert await w.end(version=1) == 0
        assert await w.commit(1, producer=(1, 1), version=5) == 0
        assert w.transactions.asked == [("tx", 1, 0, True, [w.key]), ("tx", 1, 1, False, [w.key])]

    played(in_simulation, body)


@pytest.mark.parametrize(
    ("answer", "version", "expected"),
    [
        (FENCED, 5, INVALID_EPOCH),
        (ABORTABLE, 5, ABORTABLE),
        (ABORTABLE, 4, ABORTABLE),
        (ABORTABLE, 3, INVALID_STATE),
        (CONCURRENT, 5, CONCURRENT),
        (CONCURRENT, 3, CONCURRENT),
        (13, 5, LOADING),
        (LOADING, 5, LOADING),
        (LOADING, 2, LOADING),
        (LOADING, 1, NOT_AVAILABLE),
        (LOADING, 0, NOT_AVAILABLE),
        (NOT_AVAILABLE, 5, NOT_AVAILABLE),
        (NOT_COORDINATOR, 5, NOT_COORDINATOR),
        (19, 5, NOT_AVAILABLE),
        (7, 5, NOT_AVAILABLE),
        (49, 5, 49),
    ],
)
def test_an_error_of_the_transaction_coordinator_is_one_of_the_groups(
    answer: int, version: int, expected: int
) -> None:
    async def body(w: World28) -> None:
        assert await w.commit(version=version) == expected
        assert await w.fetch() == (0, -1)
        assert len(w.transactions.asked) == 1

    played(in_simulation, body, answer)


def test_what_the_metadata_does_not_have_is_refused_alone() -> None:
    async def body(w: World28) -> None:
        parts = [
            TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=1)
            for index in (0, 9)
        ]
        request = TxnOffsetCommitRequest(
            transactional_id="tx",
            group_id="g",
            producer_id=1,
            producer_epoch=0,
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=name, partitions=parts)
                for name in ("orders", "nowhere")
            ],
        )
        response = await w.client.ask(request, 3, TxnOffsetCommitResponse)
        assert {
            topic.name: {part.partition_index: part.error_code for part in topic.partitions}
            for topic in response.topics
        } == {
            "orders": {0: 0, 9: UNKNOWN_PARTITION},
            "nowhere": {0: UNKNOWN_PARTITION, 9: UNKNOWN_PARTITION},
        }
        assert await w.commit(index=9) == UNKNOWN_PARTITION

    played(in_simulation, body)


def test_the_offsets_of_a_request_are_one_batch_of_the_producer_as_kafka_writes_it() -> None:
    async def body(w: World28) -> None:
        for offset in (1, 2):
            assert await w.commit(offset) == 0
        log = w.cluster.partition(*w.key).log
        data = b"".join(log.read(0, 1 << 20).parts)
        assert [
            (each.is_transactional, each.producer_id, each.producer_epoch, each.base_sequence)
            for each in batch_headers(data)
        ] == [(True, 1, 0, 0)] * 2
        keyed = [decode(record.key or b"", record.value) for record in decode_fetch(data, *w.key)]
        assert [content.topic_id for _, content in keyed if isinstance(content, OffsetCommitValue)] == [
            ZERO_UUID
        ] * 2

    played(in_simulation, body)


def test_metadata_that_is_too_long_and_a_group_without_a_name_are_refused() -> None:
    async def body(w: World28) -> None:
        assert await w.commit(member=("", 1)) == ILLEGAL_GENERATION
        assert await w.commit(metadata="x" * 4097) == METADATA_TOO_LARGE
        assert await w.fetch() == (0, -1)
        # Nothing was written, but from now on there is a group, which has no members.
        assert await w.commit(member=("", 1)) == UNKNOWN_MEMBER
        w.group = ""
        assert await w.commit() == INVALID_GROUP

    played(in_simulation, body)


def test_who_is_no_member_of_a_group_that_is_not_there_has_no_generation() -> None:
    async def body(w: World28) -> None:
        assert await w.commit(member=("someone", 3)) == ILLEGAL_GENERATION
        assert await w.fetch() == (0, -1)
        assert await w.commit(member=("", -1)) == 0
        assert await w.fetch() == (UNSTABLE, -1)

    played(in_simulation, body)


def test_a_producer_of_an_older_epoch_is_fenced() -> None:
    async def body(w: World28) -> None:
        assert await w.commit(producer=(1, 3)) == 0
        assert await w.commit(producer=(1, 2)) == INVALID_EPOCH
        assert await w.end(epoch=4) == 0
        assert await w.commit(producer=(1, 3)) == INVALID_EPOCH
        assert await w.commit(producer=(1, 4)) == 0

    played(in_simulation, body)


def test_a_plain_commit_after_the_one_in_the_transaction_wins(run: Run) -> None:
    async def body(w: World28) -> None:
        assert await w.commit(10) == 0
        assert await w.plain_commit(4) == 0
        assert await w.end() == 0
        assert await w.fetch() == (0, 4)

    played(run, body)


def test_two_producers_hold_a_partition_back_until_both_have_ended() -> None:
    async def body(w: World28) -> None:
        assert await w.commit(10) == 0
        assert await w.commit(20, producer=(2, 0)) == 0
        assert await w.end(producer_id=2) == 0
        assert await w.fetch() == (UNSTABLE, -1)
        assert await w.end() == 0
        assert await w.fetch() == (0, 20), "the record of the other producer is the later one"

    played(in_simulation, body)


def test_offsets_that_are_deleted_do_not_come_back_with_the_commit() -> None:
    async def body(w: World28) -> None:
        assert await w.plain_commit(5) == 0
        assert await w.commit(10) == 0
        part = OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)
        request = OffsetDeleteRequest(
            group_id="g",
            topics=[OffsetDeleteRequest.OffsetDeleteRequestTopic(name="orders", partitions=[part])],
        )
        assert (await w.client.ask(request, 0, OffsetDeleteResponse)).error_code == 0
        assert await w.end() == 0
        assert await w.fetch() == (0, -1)

    played(in_simulation, body)


def test_a_group_that_is_deleted_does_not_come_back_with_the_commit() -> None:
    async def body(w: World28) -> None:
        assert await w.commit(10) == 0
        response = await w.client.ask(DeleteGroupsRequest(groups_names=["g"]), 2, DeleteGroupsResponse)
        assert response.results[0].error_code == 0
        assert await w.end() == 0
        assert await w.fetch() == (0, -1)

    played(in_simulation, body)


def test_a_pending_offset_keeps_the_older_one_from_expiring() -> None:
    async def body(w: World28) -> None:
        assert await w.plain_commit(5) == 0
        assert await w.commit(10) == 0
        await pass_time(w, 8 * 24 * 3600)
        assert await w.fetch(stable=False) == (0, 5)
        assert await w.end(commit=False) == 0
        await pass_time(w, 3600)
        assert await w.fetch() == (0, -1)

    played(in_simulation, body, offsets_retention_check_interval_ms=1000)


async def pass_time(w: World28, seconds: float) -> None:
    """Connections that are idle for so long are closed; then offsets expire, once each second."""
    w.cluster.clock.advance(seconds)
    await w.world.runtime.clock.sleep(2)
    await w.connect()


def test_pending_offsets_and_their_ends_are_found_by_the_next_coordinator() -> None:
    async def body(w: World28) -> None:
        assert await w.plain_commit(5) == 0
        assert await w.commit(10) == 0
        await move(w)
        assert await w.fetch() == (UNSTABLE, -1)
        assert await w.end() == 0
        await move(w)
        assert await w.fetch() == (0, 10)

    played(in_simulation, body, brokers=3)


async def move(w: World28) -> None:
    leader = w.cluster.leader(*w.key)
    await w.cluster.wait_until_in_sync(w.key[0])
    await w.cluster.move_leader(*w.key, leader % 3 + 1)
    await w.cluster.wait_for(lambda: w.cluster.leader(*w.key) != leader)
    await w.connect()


def test_a_marker_for_a_group_is_fenced_like_any_other_and_needs_the_leader() -> None:
    async def body(w: World28) -> None:
        assert await w.commit(10) == 0
        codes = [
            (await write_markers(w.client, 1, 1, w.key, coordinator_epoch=epoch, transaction_version=2))[0]
            for epoch in (5, 4, 5)
        ]
        assert codes == [0, COORDINATOR_FENCED, 0]
        other = w.cluster.leader(*w.key) % 3 + 1
        assert await write_markers(await w.world.client(w.cluster, other), 1, 1, w.key) == [NOT_LEADER]

    played(in_simulation, body, brokers=3)


def test_a_marker_waits_until_the_coordinator_has_loaded() -> None:
    async def body(w: World28) -> None:
        assert await w.commit(10) == 0
        groups = w.cluster.node(1).groups
        led = groups._led[w.key[1]]
        state, led.state = led.state, type(led.state).LOADING
        assert await w.end() == NOT_LEADER
        led.state = state
        assert await w.end() == 0
        assert await w.fetch() == (0, 10)

    played(in_simulation, body)


def test_the_offset_counts_when_the_marker_is_on_all_replicas() -> None:
    async def body(w: World28) -> None:
        assert await w.plain_commit(5) == 0
        assert await w.commit(10) == 0
        leader = w.cluster.leader(*w.key)
        for other in {1, 2, 3} - {leader}:
            w.cluster.cut_link(leader, other)
        assert await w.end() == NOT_LEADER, "the write was not replicated in time"
        assert await w.fetch(stable=False) == (0, 5)
        for other in {1, 2, 3} - {leader}:
            w.cluster.heal_link(leader, other)
        assert await w.fetch() == (0, 10)

    played(in_simulation, body, brokers=3, replica_lag_time_max_ms=60_000)
