"""Transactions of the whole cluster: begun, produced to, ended, and read by readers of committed records only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.broker.coordinator.shard import Result
from ottla.wire.messages import UpdateFeaturesRequest, UpdateFeaturesResponse
from tests.broker.coordinator.transactions.producers import (
    CONCURRENT,
    FENCED,
    ID,
    INVALID_EPOCH,
    INVALID_STATE,
    MAPPING,
    NONE,
    TOPIC,
    TransactionsWorld,
    play,
)

ABORTABLE = 120


async def set_version(world: TransactionsWorld, level: int) -> None:
    update = UpdateFeaturesRequest.FeatureUpdateKey(
        feature="transaction.version", max_version_level=level, upgrade_type=2
    )
    response = await (await world.client(1)).ask(
        UpdateFeaturesRequest(feature_updates=[update], timeout_ms=1000), 1, UpdateFeaturesResponse
    )
    assert response.error_code == 0
    await world.cluster.wait_for(
        lambda: all(
            node.image.features.get("transaction.version", 0) == level
            for node in world.cluster.nodes.values()
        ),
        "the new level",
    )


def test_a_commit_is_read_and_the_next_transaction_has_the_next_epoch() -> None:
    async def story(world: TransactionsWorld) -> None:
        producer = await world.init()
        assert await world.produce(producer, b"a", b"b", b"c") == NONE
        assert await world.produce(producer, b"d", partition=1) == NONE
        assert await world.read() == ([], 0)
        following = await world.ended(producer, commit=True)
        assert following == (producer[0], 1)
        assert await world.settled() == "CompleteCommit"
        assert await world.read() == ([b"a", b"b", b"c"], 4)
        assert await world.read(1) == ([b"d"], 2)
        # A record of the transaction that has ended is late.
        assert await world.produce(producer, b"late", sequence=3) == INVALID_EPOCH
        assert await world.produce(following, b"e") == NONE
        assert await world.read() == ([b"a", b"b", b"c"], 4)
        await world.ended(following, commit=True)
        await world.settled()
        assert await world.read() == ([b"a", b"b", b"c", b"e"], 6)

    play(story)


def test_an_abort_is_not_read() -> None:
    async def story(world: TransactionsWorld) -> None:
        producer = await world.init()
        assert await world.produce(producer, b"a", b"b", b"c") == NONE
        following = await world.ended(producer, commit=False)
        assert await world.settled() == "CompleteAbort"
        assert await world.read() == ([], 4)
        assert await world.produce(following, b"d") == NONE
        await world.ended(following, commit=True)
        await world.settled()
        assert await world.read() == ([b"d"], 6)

    play(story)


@pytest.mark.parametrize("level", [0, 1])
def test_producers_up_to_version_1_add_their_partitions_and_keep_their_epoch(level: int) -> None:
    async def story(world: TransactionsWorld) -> None:
        await set_version(world, level)
        producer = await world.init()
        assert await world.produce(producer, b"unknown", version=11) == ABORTABLE
        for number in range(2):
            assert await world.add(producer, 0) == NONE
            assert await world.produce(producer, b"a", sequence=number, version=11) == NONE
            await world.ended(producer, commit=True, version=4)
            assert await world.settled() == "CompleteCommit"
        assert await world.read() == ([b"a", b"a"], 4)
        assert await world.end(producer, commit=False, version=4) == (INVALID_STATE, (-1, -1))

    play(story)


def test_a_producer_that_is_fenced_writes_nothing_more() -> None:
    async def story(world: TransactionsWorld) -> None:
        old = await world.init()
        assert await world.produce(old, b"never") == NONE
        assert (await world.init_once())[0] == CONCURRENT
        new = await world.init()
        assert new == (old[0], 2)
        assert await world.produce(old, b"more", sequence=1) == INVALID_EPOCH
        assert (await world.end(old, commit=True))[0] == FENCED
        assert await world.produce(new, b"mine") == NONE
        await world.ended(new, commit=True)
        await world.settled()
        assert await world.read() == ([b"mine"], 4)

    play(story)


def test_a_transaction_that_takes_too_long_is_aborted() -> None:
    async def story(world: TransactionsWorld) -> None:
        producer = await world.init(timeout_ms=5_000)
        assert await world.produce(producer, b"slow") == NONE
        await world.clock.sleep(16)
        assert await world.settled() == "CompleteAbort"
        assert await world.read() == ([], 2)
        assert await world.produce(producer, b"slower", sequence=1) == INVALID_EPOCH
        assert await world.end(producer, commit=False) == (NONE, (producer[0], 1))
        assert (await world.end(producer, commit=True))[0] == INVALID_STATE

    play(story)


def test_an_id_that_is_not_used_is_forgotten() -> None:
    async def story(world: TransactionsWorld) -> None:
        producer = await world.init()
        await world.clock.sleep(100)
        assert await world.add(producer) == MAPPING
        assert (await world.init())[1] == 0

    play(
        story,
        **{
            "transactional.id.expiration.ms": 60_000,
            "transaction.remove.expired.transaction.cleanup.interval.ms": 10_000,
        },
    )


def test_a_topic_that_is_deleted_does_not_hold_up_the_end() -> None:
    async def story(world: TransactionsWorld) -> None:
        producer = await world.init()
        assert await world.produce(producer, b"gone") == NONE
        await world.cluster.delete_topic(TOPIC)
        await world.ended(producer, commit=True)
        assert await world.settled() == "CompleteCommit"

    play(story)


def test_the_last_epoch_ends_with_another_producer_id() -> None:
    async def story(world: TransactionsWorld) -> None:
        producer_id, _ = await world.init()
        shard = world.cluster.node(world.coordinator).transactions
        await shard.write(
            ID, lambda shard: Result([shard._write(ID, replace(shard.states[ID], epoch=32766))], None)
        )
        last = (producer_id, 32766)
        assert await world.produce(last, b"a") == NONE
        following = await world.ended(last, commit=True)
        assert following[0] != producer_id
        assert following[1] == 0
        await world.settled()
        assert await world.ended(last, commit=True) == following
        assert await world.produce(following, b"b") == NONE
        await world.ended(following, commit=True)
        await world.settled()
        assert await world.read() == ([b"a", b"b"], 4)

    play(story)


def test_a_paused_coordinator_aborts_nothing() -> None:
    async def story(world: TransactionsWorld) -> None:
        producer = await world.init(timeout_ms=5_000)
        assert await world.produce(producer, b"slow") == NONE
        node = world.cluster.node(world.coordinator)
        node.transactions.pause()
        await world.clock.sleep(30)
        assert world.status() == "Ongoing"
        node.transactions.resume()
        assert await world.settled() in ("Ongoing", "CompleteAbort")
        await world.clock.sleep(20)
        assert await world.settled() == "CompleteAbort"

    play(story)
