"""Partitions that come and go: in which order things happen, and what an interruption leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.coordinator.groups.consumer_group import ConsumerGroup
from ottla.broker.server import faults
from ottla.client.group.reactions import Reaction
from ottla.client.topic_partition import TopicPartition
from ottla.errors import KafkaError
from ottla.hooks import Hook
from tests.client.group.grouping import (
    COOPERATIVE,
    EAGER,
    KIP_848,
    PROTOCOLS,
    QUICK,
    Told,
    until,
    until_shared,
)
from tests.client.worlds import Body, World, in_simulation

Run = Callable[[Body], object]
NUMBERS = [b"%d" % number for number in range(10)]
ORDERS = TopicPartition("orders", 0)


class Requested(Hook):
    """The names of requests, and of what else happens, in order."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def on_broker_write(self, node_id: int, api_key: int, size: int, error: Any) -> None:
        names = {
            1: "Fetch",
            8: "OffsetCommit",
            9: "OffsetFetch",
            11: "JoinGroup",
            12: "Heartbeat",
            13: "LeaveGroup",
        }
        if api_key in names:
            self.log.append(names[api_key])

    def on_session_stopped(self) -> None:
        self.log.append("stopped")


def test_the_program_is_told_before_anything_is_fetched_and_what_is_done_is_committed_before_it_is_told(
    run: Run,
) -> None:
    async def body(world: World) -> None:
        requested = Requested()
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            kafka = world.client(cluster, **{**EAGER, "heartbeat_interval_ms": 2900}, hooks=[requested])

            def note(what: str) -> Callable[..., None]:
                return lambda *_: requested.log.append(what)

            consumer = kafka.consume("orders", group="g", on_assigned=note("told"), on_revoked=note("untold"))
            async with consumer:
                await consumer.poll(timeout=60)
                await consumer.poll(timeout=0)
            order = list(dict.fromkeys(requested.log))
            assert order == [
                "JoinGroup",
                "OffsetFetch",
                "told",
                "Fetch",
                "OffsetCommit",
                "untold",
                "stopped",
                "LeaveGroup",
            ]

    run(body)


def test_offsets_that_cannot_be_read_are_an_error_that_is_raised_and_tried_again(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            refused = faults.error("GROUP_AUTHORIZATION_FAILED")
            cluster.faults.add("OffsetFetch", action=refused, count=1, when="response")
            kafka = world.client(cluster, **EAGER)
            async with kafka.consume("orders", group="billing") as consumer:
                with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
                    await consumer.poll(timeout=60)
                assert len(await consumer.poll(timeout=60)) == 10

    run(body)


@pytest.mark.parametrize("options", PROTOCOLS.values(), ids=PROTOCOLS)
def test_a_program_that_asks_seldom_hears_once_that_offsets_cannot_be_read(options: dict[str, Any]) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            action = faults.error("GROUP_AUTHORIZATION_FAILED")
            refused = cluster.faults.add("OffsetFetch", action=action, count=20)
            kafka = world.client(cluster, **options)
            async with kafka.consume("orders", group="billing") as consumer:
                await refused.wait(20)
                await until_shared(world, consumer, count=1)
                with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
                    await consumer.poll(timeout=60)
                assert len(await consumer.poll(timeout=60)) == 10

    in_simulation(body)


def test_offsets_are_read_at_the_epoch_of_the_member_also_after_an_interruption(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs: list[int] = []
    validate = ConsumerGroup.validate_fetch

    def validated(self: ConsumerGroup, member_id: str | None, member_epoch: int) -> None:
        epochs.append(member_epoch)
        validate(self, member_id, member_epoch)

    monkeypatch.setattr(ConsumerGroup, "validate_fetch", validated)

    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1, "audit": 1}, config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            kafka = world.client(cluster, **KIP_848)
            unstable = cluster.faults.add("OffsetFetch", action=faults.error("UNSTABLE_OFFSET_COMMIT"))
            async with kafka.consume("orders", "audit", group="billing") as consumer:
                await unstable.wait()
                # That fetch is given up, and another one begun without this topic.
                await kafka.purge_topics("audit")
                cluster.faults.clear()
                assert len(await consumer.poll(timeout=60)) == 10

    run(body)
    assert epochs
    assert -1 not in epochs


def test_offsets_of_open_transactions_are_waited_for(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            unstable = faults.error("UNSTABLE_OFFSET_COMMIT")
            fault = cluster.faults.add("OffsetFetch", action=unstable, count=3, when="response")
            kafka = world.client(cluster, **EAGER, isolation_level="read_committed")
            async with kafka.consume("orders", group="billing") as consumer:
                assert len(await consumer.poll(timeout=60)) == 10
            assert fault.hits == 3

    run(body)


def test_a_rebalance_that_cuts_the_fetch_of_offsets_makes_no_second_callback_and_no_silent_partition(
    run: Run,
) -> None:
    async def body(world: World) -> None:
        told = Told()
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            slow = cluster.faults.add("OffsetFetch", action=faults.delay(1.0), count=1)
            kafka = world.client(cluster, **COOPERATIVE)
            async with kafka.consume("orders", group="billing", **told.callbacks) as consumer:
                await slow.wait()
                consumer._member.interrupt(Reaction.REJOIN, "a test wants it")
                assert len(await consumer.poll(timeout=60)) == 10
                assert consumer.health().generation == 2
            assert told.log == [("assigned", [0]), ("revoked", [0])]

    run(body)


@pytest.mark.parametrize("options", PROTOCOLS.values(), ids=PROTOCOLS)
def test_latest_is_remembered_by_a_member_that_read_nothing(options: dict[str, Any], run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            latest = {**options, "auto_offset_reset": "latest"}
            async with world.client(cluster, **latest).consume("orders", group="billing") as consumer:
                await until_shared(world, consumer, count=1)
                await consumer.position(ORDERS)
            cluster.seed("orders", [b"between"])
            async with world.client(cluster, **latest).consume("orders", group="billing") as consumer:
                assert [record.value for record in await consumer.poll(timeout=60)] == [b"between"]

    run(body)


def test_what_is_paused_is_not_paused_for_the_next_time(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            kafka = world.client(cluster, **EAGER)
            async with kafka.consume("orders", group="billing") as consumer:
                await until_shared(world, consumer, count=1)
                consumer.pause()
                generation = consumer.health().generation
                consumer._member.interrupt(Reaction.REJOIN, "a test wants it")
                await until(world, lambda: consumer.health().generation > generation)
                assert len(await consumer.poll(timeout=60)) == 10
                assert consumer.paused() == []

    run(body)


def test_hooks_see_partitions_come_and_go_and_commits(run: Run) -> None:
    async def body(world: World) -> None:
        class Watch(Hook):
            def __init__(self) -> None:
                self.log: list[Any] = []

            def on_partitions_assigned(self, group: str, partitions: Any) -> None:
                self.log.append(("assigned", group, partitions))

            def on_partitions_revoked(self, group: str, partitions: Any, lost: bool) -> None:
                self.log.append(("lost" if lost else "revoked", group, partitions))

            def on_offsets_committed(self, group: str, offsets: Any, seconds: float, error: Any) -> None:
                assert seconds >= 0
                self.log.append(("committed", group, offsets, error and type(error).__name__))

        watch = Watch()
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            kafka = world.client(cluster, **EAGER, enable_auto_commit=False, hooks=[watch])
            async with kafka.consume("orders", group="billing") as consumer:
                await until_shared(world, consumer, count=1)
                await consumer.commit({ORDERS: 3})
                refused = faults.error("OFFSET_METADATA_TOO_LARGE")
                cluster.faults.add("OffsetCommit", action=refused, count=1, when="response")
                with pytest.raises(KafkaError):
                    await consumer.commit({ORDERS: 4})
        assert watch.log == [
            ("assigned", "billing", [ORDERS]),
            ("committed", "billing", {ORDERS: 3}, None),
            ("committed", "billing", {ORDERS: 4}, "CommitFailedError"),
            ("revoked", "billing", [ORDERS]),
        ]

    run(body)
