"""Sessions: stopping discards what is buffered and loses nothing; transactions; memory; closing in any state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.server import faults
from ottla.client.consume.cursor import State
from ottla.client.topic_partition import TopicPartition
from ottla.errors import ApiTimeoutError, UnsupportedApiError
from ottla.wire.batches import ControlType, PlainRecord, encode_batch
from tests.broker.log.support import append_marker, append_to
from tests.client.consume.consuming import consuming, numbered, read, values
from tests.client.worlds import Body, World, in_simulation

Run = Callable[[Body], object]
ORDERS = TopicPartition("orders", 0)


class Sessions:
    """A hook that writes down what sessions and fetches do."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.unread = 0
        self.most_unread = 0

    def on_session_started(self) -> None:
        self.seen.append("started")

    def on_session_stopped(self) -> None:
        self.seen.append("stopped")

    def on_fetch_read(self, fetched: Any) -> None:
        self.unread += fetched.bytes
        self.most_unread = max(self.most_unread, self.unread)

    def on_fetch_taken(self, fetched: Any) -> None:
        self.unread -= fetched.bytes


def test_what_was_buffered_when_a_session_stops_is_fetched_again(run: Run) -> None:
    async def body(world: World) -> None:
        told = Sessions()
        async with world.cluster(3, topics={"orders": 6}) as cluster:
            for partition in range(6):
                cluster.seed("orders", numbered(3000), partition)
            options: dict[str, Any] = {"max_partition_fetch_bytes": 5000, "hooks": (told,), "stop": "latest"}
            async with consuming(world, cluster, "orders", start="earliest", **options) as consumer:
                found: list[tuple[int, int]] = []
                async for record in consumer:
                    found.append((record.partition, record.offset))
                    if len(found) % 2500 == 0:
                        await consumer._session.stop()
                        assert len(consumer.queue) == 0
                        consumer._session.start()
            assert sorted(found) == [(partition, offset) for partition in range(6) for offset in range(3000)]
            assert told.seen == ["started", *["stopped", "started"] * 7, "stopped"]

    run(body)


def test_lookups_that_are_pending_are_handed_to_the_next_session(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", numbered(3))
            fault = cluster.faults.add("ListOffsets", action=faults.delay(0.3), count=1)
            async with consuming(world, cluster, "orders", start="earliest") as consumer:
                await fault.wait()
                await consumer._session.stop()
                assert consumer._session.cursors[ORDERS].state is State.LOADING
                consumer._session.start()
                assert values(await read(consumer, 3)) == numbered(3)

    run(body)


def test_a_reader_that_does_not_come_holds_up_fetches(run: Run) -> None:
    async def body(world: World) -> None:
        told = Sessions()
        async with world.cluster(topics={"orders": 4}) as cluster:
            for partition in range(4):
                cluster.seed("orders", [b"x" * 1000] * 3000, partition)
            options: dict[str, Any] = {
                "fetch_max_bytes": 1_000_000,
                "max_partition_fetch_bytes": 1_000_000,
                "hooks": (told,),
            }
            async with consuming(world, cluster, "orders", start="earliest", **options) as consumer:
                assert len(await read(consumer, 12_000)) == 12_000
            # Batches are of a megabyte here: one answer, give or take a batch, lies unread at most twice.
            assert told.most_unread < 2 * 2_100_000

    run(body)


def test_only_committed_records_are_read_and_up_to_the_last_stable_offset(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            transactions(cluster)
            options: dict[str, Any] = {"isolation_level": "read_committed", "start": "earliest"}
            async with consuming(world, cluster, "orders", stop="latest", **options) as consumer:
                assert values([record async for record in consumer]) == [b"committed"]
            async with consuming(world, cluster, "orders", **options) as consumer:
                assert values(await read(consumer, 1)) == [b"committed"]
                assert consumer.lag() == {ORDERS: 1}
            async with consuming(world, cluster, "orders", start="earliest", stop="latest") as consumer:
                found = values([record async for record in consumer])
            assert found == [b"aborted", b"committed", b"open"]

    run(body)


def transactions(cluster: Any) -> None:
    """An aborted transaction, a committed one, and one that is open."""
    partition = cluster.partition("orders")
    for producer, value, outcome in (
        (1, b"aborted", ControlType.ABORT),
        (2, b"committed", ControlType.COMMIT),
        (3, b"open", None),
    ):
        records: list[PlainRecord] = [(0, 1_700_000_000_000, None, value, [])]
        batch = encode_batch(
            records, transactional=True, producer_id=producer, producer_epoch=0, base_sequence=0
        )
        append_to(partition, batch)
        if outcome is not None:
            append_marker(partition.log, outcome, producer)
        partition.commit(0)


@pytest.mark.parametrize("api", ["Metadata", "ListOffsets", "Fetch"])
def test_closes_at_once_while_a_broker_does_not_answer(run: Run, api: str) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            fault = cluster.faults.add(api, action=faults.never)
            before = world.runtime.clock.monotonic()
            async with consuming(world, cluster, "orders", start="earliest"):
                await fault.wait()
            assert world.runtime.clock.monotonic() - before < 2

    run(body)


def test_who_gives_up_waiting_for_a_position_leaves_nothing_behind(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(topics={"orders": 1}) as cluster,
            consuming(world, cluster, "orders", start="earliest") as consumer,
        ):
            for _ in range(5):
                with pytest.raises(ApiTimeoutError):
                    await consumer.position(TopicPartition("orders", 7), timeout=0.01)
            assert not consumer._session._offset_waiters

    run(body)


def test_a_broker_that_cannot_be_fetched_from_is_reported_once_until_the_reader_has_heard_of_it() -> None:
    async def body(world: World) -> None:
        async with (
            # The client speaks none of these.
            world.cluster(topics={"orders": 1}, max_versions={"Fetch": 3}) as cluster,
            consuming(world, cluster, "orders", start="earliest") as consumer,
        ):
            for _ in range(2):
                # Long enough for many tries, each after a back-off.
                await world.runtime.clock.sleep(60)
                assert len(consumer.queue) == 1
                with pytest.raises(UnsupportedApiError):
                    await consumer.poll(timeout=1)

    in_simulation(body)
