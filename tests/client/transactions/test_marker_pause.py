"""The first Produce of a transaction waits for the markers of the last one, as long as the last ones took."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.client.client import AsyncClient
from ottla.client.transactions.marker_pause import LATE_S, LONGEST_S, RESTING, STEP_S, MarkerPause
from ottla.errors import TransactionAbortedError
from ottla.net.connection import Connection
from ottla.wire import decode_request
from ottla.wire.messages import EndTxnRequest, ProduceRequest
from tests.client.transactions.played import OPTIONS, TOPIC, PlayedKafka
from tests.client.worlds import World, in_simulation

END_S = 0.001
PRODUCE_S = 0.001
BACK_OFF_S = 0.02


class Transactions:
    """Transactions one after the other, on a cluster that needs `markers_s` for the markers of each."""

    def __init__(self, markers_s: float, *, own_s: float = 0.0) -> None:
        self.pause = MarkerPause()
        self.markers_s = markers_s
        self.own_s = own_s
        """What the program takes from one to the next."""
        self.now = 100.0
        self.held_back = 0.0

    def run(self, count: int) -> int:
        """How many of them were too early."""
        return sum(self._is_too_early() for _ in range(count))

    def _is_too_early(self) -> bool:
        self.now += END_S
        self.pause.ended(self.now - END_S, self.now)
        ended_at = self.now
        self.now += self.own_s
        left = self.pause.left(self.now)
        self.held_back += left
        self.now += left
        assert self.pause.left(self.now) == 0.0
        self.pause.sent(self.now)
        is_too_early = self.now - ended_at < self.markers_s
        self.now += PRODUCE_S + (BACK_OFF_S if is_too_early else 0)
        self.pause.delivered(self.now)
        self.pause.delivered(self.now + 1)  # another batch of the same transaction
        return is_too_early


def test_nothing_is_held_back_where_markers_are_quick() -> None:
    transactions = Transactions(0.0)
    assert transactions.run(100) == 0
    assert transactions.held_back == 0.0


@pytest.mark.parametrize("markers_s", [0.0004, 0.001, 0.004, 0.008])
def test_the_pause_becomes_as_long_as_markers_take_and_hardly_longer(markers_s: float) -> None:
    transactions = Transactions(markers_s)
    assert transactions.run(60) < 40, "after these it is long enough"
    assert transactions.run(1000) < 60
    assert 0.9 * markers_s < transactions.pause.seconds < 1.2 * markers_s + STEP_S


def test_the_pause_shrinks_when_markers_have_become_quick() -> None:
    transactions = Transactions(0.004)
    transactions.run(200)
    transactions.markers_s = 0.0
    assert transactions.run(1000) == 0
    assert transactions.pause.seconds < 0.000_05


def test_a_program_that_takes_longer_than_markers_is_not_held_back() -> None:
    transactions = Transactions(0.001)
    transactions.run(200)
    transactions.own_s, transactions.held_back = 0.002, 0.0
    assert transactions.run(100) == 0
    assert transactions.held_back == 0.0


def test_what_takes_long_behind_a_long_gap_says_nothing() -> None:
    pause = MarkerPause()
    for number in range(100):
        pause.ended(number, number + END_S)
        pause.sent(number + 0.1)
        pause.delivered(number + 0.5)
    assert pause.seconds == 0.0


def test_a_cluster_that_needs_longer_for_everything_is_not_taken_for_one_that_backs_off() -> None:
    pause = MarkerPause()
    for number in range(100):
        pause.ended(number, number + 0.05)
        pause.sent(number + 0.051)
        pause.delivered(number + 0.051 + 0.05 + 0.9 * LATE_S)
    assert pause.seconds == 0.0


def test_where_the_longest_pause_is_too_short_nothing_is_held_back_for_a_while() -> None:
    transactions = Transactions(2 * LONGEST_S)
    while transactions.pause.seconds < LONGEST_S:
        assert transactions.run(1) == 1
    transactions.run(3)
    assert transactions.pause.seconds == 0.0
    transactions.held_back = 0.0
    transactions.run(RESTING - 1)
    assert transactions.held_back == 0.0
    transactions.run(2)
    assert transactions.pause.seconds > 0.0, "things may have changed"


# In a client


class SlowMarkers(PlayedKafka):
    """Like a leader of Kafka: a Produce that comes before the markers of the last transaction is put off."""

    def __init__(self, world: World, markers_s: float) -> None:
        super().__init__(version=2)
        self.markers_s = markers_s
        self.early = 0
        self._clock = world.runtime.clock
        self._ended_at = float("-inf")

    def _take(self, connection: Connection, frame: memoryview) -> None:
        _, request = decode_request(bytes(frame))
        now = self._clock.monotonic()
        if isinstance(request, EndTxnRequest):
            self._ended_at = now
        if isinstance(request, ProduceRequest) and now < self._ended_at + self.markers_s:
            self.early += 1
            kept = memoryview(bytes(frame))
            self._clock.call_later(BACK_OFF_S, super()._take, connection, kept)
        else:
            super()._take(connection, frame)


async def _commit(client: AsyncClient, count: int) -> None:
    for number in range(count):
        async with client.transaction():
            await client.produce(TOPIC, b"%d" % number, partition=0)
            await client.produce(TOPIC, b"%d" % number, partition=1)


def _with_markers(
    markers_s: float, body: Callable[[World, SlowMarkers, AsyncClient], Awaitable[None]]
) -> None:
    async def main(world: World) -> None:
        kafka = SlowMarkers(world, markers_s)
        await kafka.listen(world)
        client = world.client(kafka.bootstrap, **OPTIONS)
        try:
            await body(world, kafka, client)
        finally:
            await client.close(1.0)
            await kafka.close()

    in_simulation(main)


def test_a_client_that_commits_one_after_the_other_learns_to_wait_for_markers() -> None:
    async def body(world: World, kafka: SlowMarkers, client: AsyncClient) -> None:
        await _commit(client, 60)
        kafka.early = 0
        began = world.runtime.clock.monotonic()
        await _commit(client, 200)
        took = world.runtime.clock.monotonic() - began
        assert kafka.early < 30, "of 400 batches"
        assert took < 200 * BACK_OFF_S
        assert (kafka.stored(0), kafka.stored(1)) == (260, 260)
        assert [commit for commit, _ in kafka.ends] == [True] * 260

    _with_markers(0.005, body)


def test_what_is_held_back_can_be_aborted_and_the_next_transaction_goes_on() -> None:
    async def body(world: World, kafka: SlowMarkers, client: AsyncClient) -> None:
        await _commit(client, 60)
        stored = kafka.stored(0)
        transaction = await client.begin_transaction()
        delivery = await client.produce(TOPIC, b"held back", partition=0)
        await asyncio.sleep(0)
        await transaction.abort()
        with pytest.raises(TransactionAbortedError):
            await delivery
        assert kafka.stored(0) == stored
        await _commit(client, 1)
        assert kafka.stored(0) == stored + 1

    _with_markers(0.008, body)


def test_a_client_that_is_closed_while_it_holds_back_leaves_no_timer() -> None:
    async def body(world: World, kafka: SlowMarkers, client: AsyncClient) -> None:
        await _commit(client, 60)
        stored = kafka.stored(0)
        await client.begin_transaction()
        await client.produce(TOPIC, b"held back", partition=0)
        await asyncio.sleep(0)
        await client.close(0.0)
        await world.runtime.clock.sleep(1.0)
        assert kafka.stored(0) == stored

    _with_markers(0.008, body)
