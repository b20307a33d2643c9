"""Coordinators and leaders that move or die: an end that was decided is carried out, once and by all means.

Three nodes, each with a replica of everything, and virtual time.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.broker.coordinator.transactions.producers import (
    CONCURRENT,
    FENCED,
    INVALID_STATE,
    NONE,
    NOT_AVAILABLE,
    NOT_COORDINATOR,
    TOPIC,
    TransactionsWorld,
    play,
)


def cut_off(world: TransactionsWorld, node: int, *, heal: bool = False) -> None:
    """No node reaches this one, and it reaches none; clients and the controller do."""
    for other in world.cluster.nodes:
        if other != node:
            for sender, receiver in ((node, other), (other, node)):
                (world.cluster.heal_link if heal else world.cluster.cut_link)(sender, receiver)


def test_a_transaction_goes_on_when_its_coordinator_moves() -> None:
    async def story(world: TransactionsWorld) -> None:
        producer = await world.init()
        assert await world.produce(producer, b"a") == NONE
        before = world.coordinator
        await world.move()
        assert await world.end_at(before, producer, commit=False) == NOT_COORDINATOR
        assert await world.produce(producer, b"b", sequence=1) == NONE
        assert await world.produce(producer, b"c", partition=1) == NONE
        assert await world.ended(producer, commit=True) == (producer[0], 1)
        assert await world.settled() == "CompleteCommit"
        assert await world.read() == ([b"a", b"b"], 3)
        assert await world.read(1) == ([b"c"], 2)

    play(story)


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_that_was_answered_survives_the_coordinator_that_answered(commit: bool) -> None:
    async def story(world: TransactionsWorld) -> None:
        following = await world.init()
        for number in range(4):
            producer = following
            assert await world.produce(producer, b"%d" % number) == NONE
            code, following = await world.end(producer, commit=commit)
            assert code == NONE
            # Before or after its markers: whatever has left the coordinator by now.
            await world.kill(before := world.coordinator)
            await world.loaded()
            assert await world.ended(producer, commit=commit) == following
            assert await world.settled() == ("CompleteCommit" if commit else "CompleteAbort")
            values, stable = await world.read()
            assert values == ([b"%d" % n for n in range(number + 1)] if commit else [])
            assert stable == world.end_offset()
            await world.cluster.start_node(before)
            await world.cluster.wait_until_in_sync(TOPIC)
            await world.cluster.wait_until_in_sync("__transaction_state")

    play(story)


def test_an_end_whose_markers_cannot_leave_is_finished_by_the_next_coordinator() -> None:
    async def story(world: TransactionsWorld) -> None:
        leader = await world.lead_from_outside()
        producer = await world.init()
        assert await world.produce(producer, b"a") == NONE
        coordinator = world.coordinator
        world.cluster.cut_link(coordinator, leader)
        code, following = await world.end(producer, commit=True)
        assert code == NONE
        await world.clock.sleep(2)
        assert world.status() == "PrepareCommit"
        assert await world.read() == ([], 0)
        for commit in (True, False):
            assert (await world.end(producer, commit=commit))[0] == CONCURRENT
        assert (await world.init_once())[0] == CONCURRENT
        assert await world.add(following) == CONCURRENT
        await world.kill(coordinator)
        await world.loaded()
        assert await world.ended(producer, commit=True) == following
        assert (await world.end(producer, commit=False))[0] == INVALID_STATE
        assert await world.settled() == "CompleteCommit"
        assert await world.read() == ([b"a"], world.end_offset())

    play(story, brokers=4)


def test_markers_follow_the_leader_of_their_partition() -> None:
    async def story(world: TransactionsWorld) -> None:
        leader = await world.lead_from_outside()
        producer = await world.init()
        assert await world.produce(producer, b"a") == NONE
        world.cluster.cut_link(world.coordinator, leader)
        assert (await world.end(producer, commit=True))[0] == NONE
        await world.clock.sleep(1)
        assert world.status() == "PrepareCommit"
        await world.kill(leader)
        await world.clock.sleep(
            30
        )  # as long as a request may take: the link does not say that its end is gone
        assert await world.settled() == "CompleteCommit"
        assert await world.read() == ([b"a"], world.end_offset())

    play(story, brokers=4)


def test_a_leader_that_is_down_gets_its_markers_when_it_is_back() -> None:
    async def story(world: TransactionsWorld) -> None:
        leader = await world.lead_from_outside()
        producer = await world.init()
        assert await world.produce(producer, b"a") == NONE
        world.cluster.pause_node(leader)
        code, following = await world.end(producer, commit=False)
        assert code == NONE
        await world.clock.sleep(1)
        assert world.status() == "PrepareAbort"
        world.cluster.resume_node(leader)
        assert await world.settled() == "CompleteAbort"
        assert await world.produce(following, b"b") == NONE

    play(story, brokers=4)


def test_an_end_that_followers_do_not_get_is_not_promised_and_sends_no_marker() -> None:
    async def story(world: TransactionsWorld) -> None:
        producer = await world.init()
        assert await world.produce(producer, b"a") == NONE
        before = world.coordinator
        cut_off(world, before)
        waiting = asyncio.ensure_future(world.end(producer, commit=True))
        await world.clock.sleep(0.5)
        assert not waiting.done()
        assert world.end_offset() == 1 or world.cluster.leader(TOPIC, 0) != before
        # The cluster gives it up: the next coordinator has never heard of the commit, and aborts.
        await world.cluster.fence_node(before)
        await world.cluster.wait_for(lambda: world.coordinator != before, "the next coordinator")
        await world.loaded()
        following = await world.ended(producer, commit=False)
        assert following == (producer[0], 1)
        # A node that lives and was in sync a moment ago may join again: leaders wait for it, as long as it may lag.
        await world.clock.sleep(31)
        assert await world.settled() == "CompleteAbort"
        cut_off(world, before, heal=True)
        assert (await waiting)[0] in (NOT_COORDINATOR, NOT_AVAILABLE)
        await world.cluster.wait_until_in_sync(TOPIC)
        values, _ = await world.read()
        assert values == []

    play(story)


def test_a_fenced_producer_stays_fenced_with_the_next_coordinator() -> None:
    async def story(world: TransactionsWorld) -> None:
        old = await world.init()
        new = await world.init()
        await world.move()
        assert (await world.end(old, commit=False))[0] == FENCED
        assert await world.add(old) == FENCED
        assert await world.add(new) == NONE

    play(story)


def test_a_transaction_that_is_loaded_times_out_by_its_own_start() -> None:
    async def story(world: TransactionsWorld) -> None:
        producer = await world.init(timeout_ms=20_000)
        assert await world.produce(producer, b"a") == NONE
        await world.clock.sleep(15)
        await world.move()
        await world.clock.sleep(16)
        assert await world.settled() == "CompleteAbort"

    play(story)
