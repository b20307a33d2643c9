"""The runtime of coordinators: what an operation writes is replicated, replayed and loaded again, or not at all.

The shard is a counter for each key; the topic is one of the tests' own, on a cluster with virtual time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla._native.record_batch import Batch, whole_batch
from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.cluster.node import Node
from ottla.broker.coordinator.runtime import CoordinatorRuntime, TransactionWriter, translate
from ottla.broker.coordinator.shard import CoordinatorRecord, Parked, Result, ShardContext
from ottla.broker.log.producers import Origin
from ottla.broker.metadata.image import Delta
from ottla.errors import (
    BrokerError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaStorageError,
    MessageTooLargeError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from ottla.wire.batches import ControlType, encode_batch, end_transaction_marker
from tests.broker.log.support import guard_of, make_marker
from tests.broker.worlds import World, in_simulation

TOPIC = "counters"


class Counters:
    """Counts what is written for each key."""

    def __init__(self, context: ShardContext) -> None:
        self.context = context
        self.counts: dict[bytes, int] = {}
        self.events: list[object] = []

    def replay(self, key: bytes, value: bytes | None, offset: int) -> None:
        if value == b"poison":
            raise ValueError("poison")
        self.counts[key] = self.counts.get(key, 0) + 1

    def replay_transactional(self, producer_id: int, key: bytes, value: bytes | None, offset: int) -> None:
        self.events.append(("pending", producer_id, key, offset))

    def end_transaction(self, producer_id: int, is_commit: bool, offset: int) -> None:
        self.events.append(("end", producer_id, is_commit))

    def on_loaded(self) -> None:
        self.events.append("loaded")

    def on_unloaded(self) -> None:
        self.events.append("unloaded")

    def on_metadata(self, delta: Delta) -> None:
        self.events.append("metadata")

    def on_committed(self, offset: int) -> None:
        self.committed = offset


class Coordinators:
    """A cluster with one partition of the topic, and a runtime on each node."""

    def __init__(self, world: World, cluster: AsyncCluster) -> None:
        self.world = world
        self.cluster = cluster
        self.runtimes: dict[int, CoordinatorRuntime[Counters]] = {}
        self._known: dict[int, Any] = {}

    async def begin(self) -> None:
        await self.cluster.create_topic(TOPIC, 1, replicas=len(self.cluster.nodes))
        await self.cluster.wait_until_in_sync(TOPIC)
        for node in self.cluster.nodes.values():
            self.runtimes[node.id] = CoordinatorRuntime(
                TOPIC,
                Counters,
                node_id=node.id,
                image=node.image,
                configs=node.configs,
                replicas=node.replicas,
                runtime=node.runtime,
            )
            self.tell(node)

    def tell(self, node: Node) -> None:
        """The node's image has changed."""
        delta = Delta()
        topic = node.image.topics.get(TOPIC)
        if topic is not None:
            delta.note_partition(TOPIC, topic.id, 0, self._known.get(node.id), topic.partitions[0])
            self._known[node.id] = topic.partitions[0]
        self.runtimes[node.id].apply(delta)

    @property
    def leader(self) -> int:
        return self.cluster.leader(TOPIC)

    @property
    def led(self) -> CoordinatorRuntime[Counters]:
        return self.runtimes[self.leader]

    async def loaded(self) -> CoordinatorRuntime[Counters]:
        def is_loaded() -> bool:
            try:
                self.led.read("k", lambda shard: None)
            except BrokerError:
                return False
            return True

        await self.cluster.wait_for(is_loaded, "the load")
        return self.led

    async def move(self, node_id: int) -> None:
        await self.cluster.move_leader(TOPIC, 0, node_id)
        for node in self.cluster.nodes.values():
            await self.cluster.wait_for(
                lambda node=node: node.image.topics[TOPIC].partitions[0].leader == node_id,  # type: ignore[misc]
                "the move",
            )
            self.tell(node)

    def cut_followers(self) -> None:
        for node_id in self.cluster.nodes:
            if node_id != self.leader:
                self.cluster.cut_link(node_id, self.leader)

    def heal(self) -> None:
        for node_id in self.cluster.nodes:
            if node_id != self.leader:
                self.cluster.heal_link(node_id, self.leader)

    async def close(self) -> None:
        for runtime in self.runtimes.values():
            await runtime.close()


def count(key: bytes = b"k", **options: Any) -> Callable[[Counters], Result[int]]:
    """Writes a record; the response is how many there were before."""
    return lambda shard: Result([CoordinatorRecord(key, b"+")], shard.counts.get(key, 0), **options)


def park(parked: Parked[int]) -> Callable[[Counters], Result[int]]:
    return lambda shard: Result([], parked)


def look(shard: Counters) -> Result[int]:
    return Result([], shard.counts.get(b"k", 0))


def on(brokers: int, story: Callable[[Coordinators], Awaitable[None]], **config: object) -> None:
    async def main(world: World) -> None:
        async with world.cluster(brokers, config=config or None) as cluster:
            coordinators = Coordinators(world, cluster)
            await coordinators.begin()
            try:
                await story(coordinators)
            finally:
                await coordinators.close()

    in_simulation(main)


def test_what_is_written_is_replayed_and_found_by_the_next_leader() -> None:
    async def story(world: Coordinators) -> None:
        runtime = await world.loaded()
        assert [await runtime.write("k", count()) for _ in range(3)] == [0, 1, 2]
        await world.move(world.leader % 3 + 1)
        runtime = await world.loaded()
        assert runtime.read("k", lambda shard: (shard.counts, shard.events)) == ({b"k": 3}, ["loaded"])

    on(3, story)


def test_a_load_goes_through_all_pieces_of_a_long_log() -> None:
    async def story(world: Coordinators) -> None:
        runtime = await world.loaded()
        large = CoordinatorRecord(b"k", b"x" * 100_000)
        for _ in range(20):
            await runtime.write("k", lambda shard: Result([large, large], None))
        await world.move(world.leader % 2 + 1)
        with pytest.raises(CoordinatorLoadInProgressError):
            world.led.read("k", lambda shard: None)
        runtime = await world.loaded()
        assert runtime.read("k", lambda shard: shard.counts) == {b"k": 40}

    on(2, story)


def test_a_response_waits_for_the_replicas_and_one_without_records_for_what_it_has_seen() -> None:
    async def story(world: Coordinators) -> None:
        runtime = await world.loaded()
        world.cut_followers()
        written, seen = runtime.write("k", count()), runtime.write("k", look)
        await world.cluster.node(world.leader).runtime.clock.sleep(1)
        assert not written.done()
        assert not seen.done()
        world.heal()
        assert (await written, await seen) == (0, 1)

    on(3, story)


def test_a_write_that_is_not_replicated_in_time_is_not_available_and_stays_written() -> None:
    async def story(world: Coordinators) -> None:
        runtime = await world.loaded()
        world.cut_followers()
        ends: list[BrokerError | None] = []
        with pytest.raises(CoordinatorNotAvailableError):
            await runtime.write("k", count(on_commit=ends.append))
        assert [type(end) for end in ends] == [CoordinatorNotAvailableError]
        world.heal()
        assert await runtime.write("k", look) == 1

    on(3, story)


def test_records_that_the_log_refuses_change_nothing() -> None:
    async def story(world: Coordinators) -> None:
        runtime = await world.loaded()
        ends: list[BrokerError | None] = []
        partition = world.cluster.node(world.leader).replicas.partitions[TOPIC, 0]
        partition.min_in_sync = 2
        for node_id in list(world.cluster.nodes):
            if node_id != world.leader:
                await world.cluster.stop_node(node_id)
        await world.cluster.wait_for(lambda: partition.is_under_min_isr, "the smaller ISR")
        with pytest.raises(CoordinatorNotAvailableError):
            await runtime.write("k", count(on_commit=ends.append))
        assert runtime.read("k", lambda shard: shard.counts) == {}
        assert [type(end) for end in ends] == [CoordinatorNotAvailableError]

    on(2, story)


def test_many_records_that_stand_for_themselves_are_several_batches() -> None:
    async def story(world: Coordinators) -> None:
        runtime = await world.loaded()
        many = [CoordinatorRecord(b"k" * 1000, b"+")] * 2500
        with pytest.raises(UnknownServerError):
            await runtime.write("k", lambda shard: Result(many, None))
        assert runtime.read("k", lambda shard: shard.counts) == {}
        await runtime.write("k", lambda shard: Result(many, None, atomic=False))
        assert runtime.read("k", lambda shard: shard.counts) == {b"k" * 1000: 2500}

    on(1, story)


def test_who_does_not_lead_is_not_the_coordinator() -> None:
    async def story(world: Coordinators) -> None:
        await world.loaded()
        other = world.runtimes[world.leader % 2 + 1]
        with pytest.raises(NotCoordinatorError):
            await other.write("k", count())
        with pytest.raises(NotCoordinatorError):
            other.read("k", lambda shard: None)
        assert other.read_all(lambda shard: None) == []

    on(2, story)


def test_a_leader_that_is_replaced_ends_what_waits_what_is_parked_and_its_timers() -> None:
    async def story(world: Coordinators) -> None:
        runtime = await world.loaded()
        parked: Parked[int] = Parked()
        waiting = runtime.write("k", park(parked))
        ran: list[int] = []

        def due(shard: Counters) -> Result[None]:
            ran.append(1)
            return Result([], None)

        runtime.read("k", lambda shard: shard.context.timers.schedule("t", 1.0, due))
        await world.move(world.leader % 2 + 1)
        with pytest.raises(NotCoordinatorError):
            await waiting
        parked.complete(5)
        await world.cluster.node(1).runtime.clock.sleep(2)
        assert ran == []

    on(2, story)


def test_a_topic_that_is_deleted_has_no_coordinator() -> None:
    async def story(world: Coordinators) -> None:
        runtime = await world.loaded()
        node = world.cluster.node(world.leader)
        topic = node.image.topics[TOPIC]
        old = topic.partitions[0]
        await world.cluster.delete_topic(TOPIC)
        await world.cluster.wait_for(lambda: TOPIC not in node.image.topics, "the deletion")
        delta = Delta()
        delta.note_partition(TOPIC, topic.id, 0, old, None)
        runtime.apply(delta)
        with pytest.raises(NotCoordinatorError):
            await runtime.write("k", count())

    on(1, story)


def test_a_parked_response_comes_when_another_operation_completes_it() -> None:
    async def story(world: Coordinators) -> None:
        runtime = await world.loaded()
        parked: Parked[int] = Parked()
        waiting = runtime.write("k", park(parked))

        def complete(shard: Counters) -> Result[None]:
            parked.complete(7)
            parked.complete(8)
            return Result([], None)

        assert not waiting.done()
        await runtime.write("k", complete)
        assert await waiting == 7

    on(1, story)


def test_a_request_whose_connection_is_lost_takes_effect_all_the_same() -> None:
    async def story(world: Coordinators) -> None:
        runtime = await world.loaded()
        world.cut_followers()
        written = runtime.write("k", count())
        written.cancel()
        world.heal()
        assert await runtime.write("k", look) == 1

    on(2, story)


def test_timers_write_and_the_newest_of_a_key_counts() -> None:
    async def story(world: Coordinators) -> None:
        runtime = await world.loaded()
        timers = runtime.read("k", lambda shard: shard.context.timers)
        timers.schedule("t", 1.0, count(b"never"))
        timers.schedule("t", 2.0, count())
        timers.schedule("cancelled", 1.0, count(b"never"))
        timers.cancel("cancelled")
        assert "t" in timers
        await world.cluster.node(1).runtime.clock.sleep(3)
        assert runtime.read("k", lambda shard: shard.counts) == {b"k": 1}

    on(1, story)


def test_what_no_request_waits_for_is_tried_again_until_the_log_takes_it() -> None:
    async def story(world: Coordinators) -> None:
        runtime = await world.loaded()
        shard = runtime.read("k", lambda shard: shard)
        partition = world.cluster.node(world.leader).replicas.partitions[TOPIC, 0]
        partition.min_in_sync = 2
        await world.cluster.stop_node(world.leader % 2 + 1)
        await world.cluster.wait_for(lambda: partition.is_under_min_isr, "the smaller ISR")
        shard.context.timers.schedule("t", 1.0, count(b"timer"))
        shard.context.timers.schedule("replaced", 1.0, count(b"never"))
        shard.context.submit(count(b"submitted"))
        sleep = world.cluster.node(world.leader).runtime.clock.sleep
        await sleep(5)
        assert shard.counts == {}
        shard.context.timers.schedule("replaced", 0.0, count(b"newer"))
        partition.min_in_sync = 1
        await sleep(2)
        assert shard.counts == {b"timer": 1, b"submitted": 1, b"newer": 1}

    on(2, story)


def test_no_timer_does_anything_while_the_node_is_paused() -> None:
    async def story(world: Coordinators) -> None:
        runtime = await world.loaded()
        runtime.read("k", lambda shard: shard.context.timers.schedule("t", 1.0, count()))
        runtime.pause()
        await world.cluster.node(1).runtime.clock.sleep(5)
        assert runtime.read("k", lambda shard: shard.counts) == {}
        runtime.resume()
        assert runtime.read("k", lambda shard: shard.counts) == {b"k": 1}

    on(1, story)


def test_an_operation_that_fails_is_logged_and_the_shard_goes_on() -> None:
    async def story(world: Coordinators) -> None:
        runtime = await world.loaded()

        def broken(shard: Counters) -> Result[None]:
            raise ZeroDivisionError

        def refused(shard: Counters) -> Result[None]:
            raise NotCoordinatorError

        for operation in (broken, refused, count()):
            runtime.read("k", lambda shard, operation=operation: shard.context.submit(operation))  # type: ignore[misc]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert await runtime.write("k", look) == 1

    on(1, story)


def test_a_shard_hears_of_changes_of_the_image_once_it_is_loaded() -> None:
    async def story(world: Coordinators) -> None:
        runtime = await world.loaded()
        runtime.apply(Delta())
        assert runtime.read("k", lambda shard: shard.events) == ["loaded", "metadata"]

    on(1, story)


def test_records_of_transactions_are_loaded_with_their_producers_and_markers() -> None:
    async def story(world: Coordinators) -> None:
        await world.loaded()
        node = world.cluster.node(world.leader)
        partition = node.replicas.partitions[TOPIC, 0]
        data = encode_batch(
            [(0, 1, b"k", b"v", [])], transactional=True, producer_id=7, producer_epoch=0, base_sequence=0
        )
        marker = end_transaction_marker(
            ControlType.COMMIT, producer_id=7, producer_epoch=0, timestamp=1, coordinator_epoch=0
        )
        for each, origin in ((data, Origin.CLIENT), (marker, Origin.COORDINATOR)):
            batch = whole_batch(bytearray(each))
            assert batch is not None
            guard = guard_of(partition.log, batch)
            partition.log.append_as_leader(batch, partition.leader_epoch, 1, origin=origin, guard=guard)
        world.runtimes[node.id]._elect(partition)
        runtime = await world.loaded()
        events = runtime.read("k", lambda shard: shard.events)
        assert events == [("pending", 7, b"k", 0), ("end", 7, True), "loaded"]

    on(1, story)


def test_records_of_a_transaction_are_pending_until_their_marker_is_written() -> None:
    async def story(world: Coordinators) -> None:
        runtime = await world.loaded()
        partition = world.cluster.node(world.leader).replicas.partitions[TOPIC, 0]
        guard = partition.log.producers.guard(7, 0, -1, 1, adds_partitions=True)
        writer = TransactionWriter(7, 0, guard)
        assert await runtime.write("k", count(), writer) == 0
        await runtime.end_transaction(
            0, 7, ended(ControlType.COMMIT, epoch=1), is_commit=True, transaction_version=2
        )
        events = [("pending", 7, b"k", 0), ("end", 7, True)]
        assert runtime.read("k", lambda shard: shard.events) == ["loaded", *events]
        runtime._elect(partition)
        await world.loaded()
        assert runtime.read("k", lambda shard: shard.events) == [*events, "loaded"]

    on(1, story)


def test_a_transaction_that_the_log_refuses_is_neither_pending_nor_ended() -> None:
    async def story(world: Coordinators) -> None:
        runtime = await world.loaded()
        with pytest.raises(InvalidTxnStateError):
            await runtime.write("k", count(), TransactionWriter(7, 0, None))
        await runtime.end_transaction(
            0, 7, ended(ControlType.ABORT, epoch=3), is_commit=False, transaction_version=1
        )
        with pytest.raises(InvalidProducerEpochError):
            await runtime.end_transaction(
                0, 7, ended(ControlType.ABORT, epoch=2), is_commit=False, transaction_version=1
            )
        with pytest.raises(NotCoordinatorError):
            await runtime.end_transaction(
                9, 7, ended(ControlType.ABORT, epoch=3), is_commit=False, transaction_version=1
            )
        assert runtime.read("k", lambda shard: shard.events) == ["loaded", ("end", 7, False)]

    on(1, story)


def ended(outcome: ControlType, epoch: int) -> Batch:
    batch = whole_batch(bytearray(make_marker(outcome, 7, epoch=epoch)))
    assert batch is not None
    return batch


def test_a_log_that_cannot_be_loaded_has_no_coordinator() -> None:
    async def story(world: Coordinators) -> None:
        runtime = await world.loaded()
        record = CoordinatorRecord(b"k", b"poison")
        await runtime.write("k", lambda shard: Result([record], None, replay=False))
        node = world.cluster.node(world.leader)
        runtime._elect(node.replicas.partitions[TOPIC, 0])
        await node.runtime.clock.sleep(1)
        with pytest.raises(CoordinatorLoadInProgressError):
            runtime.read("k", lambda shard: None)
        with pytest.raises(CoordinatorLoadInProgressError):
            runtime.read_all(lambda shard: None)

    on(1, story)


@pytest.mark.parametrize(
    ("error", "translated"),
    [
        (UnknownTopicOrPartitionError(), CoordinatorNotAvailableError),
        (NotEnoughReplicasError(), CoordinatorNotAvailableError),
        (NotLeaderOrFollowerError(), NotCoordinatorError),
        (KafkaStorageError(), NotCoordinatorError),
        (MessageTooLargeError(), UnknownServerError),
        (CoordinatorLoadInProgressError(), CoordinatorLoadInProgressError),
    ],
)
def test_errors_of_the_log_are_those_of_a_coordinator(
    error: BrokerError, translated: type[BrokerError]
) -> None:
    assert type(translate(error)) is translated
