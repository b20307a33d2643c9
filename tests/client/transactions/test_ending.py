"""The moments between the end of a transaction and what comes next, each of which another caller may hit."""

from __future__ import annotations

import asyncio

import pytest

from ottla.client.client import AsyncClient
from ottla.client.group.membership import GroupMetadata
from ottla.client.produce.producer_id import ProducerIdentity
from ottla.client.topic_partition import TopicPartition
from ottla.client.transactions.machine import TransactionMachine, TransactionStatus
from ottla.errors import (
    AbortNeededError,
    ClientClosedError,
    TransactionAbortedError,
    TransactionPendingError,
    TransactionStateError,
)
from tests.client.transactions.played import ABORTABLE, CONCURRENT, TOPIC, PlayedKafka, with_played
from tests.client.worlds import World

S = TransactionStatus
BOTH = pytest.mark.parametrize("version", [1, 2])
GROUP = GroupMetadata("readers", 3, "member-1", None)
ONE = TopicPartition("requests", 0)


def when_ended(machine: TransactionMachine) -> asyncio.Future[None]:
    """Done as soon as the machine knows it, which is before anyone that waits for the end does."""
    known: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    ended = machine.ended

    def ended_and_known(following: ProducerIdentity | None) -> None:
        ended(following)
        if not known.done():
            known.set_result(None)

    machine.ended = ended_and_known  # type: ignore[method-assign]
    return known


@BOTH
@pytest.mark.parametrize("commits", [True, False])
def test_an_end_is_never_taken_for_that_of_the_transaction_before(version: int, commits: bool) -> None:
    """A caller that watches the state begins and ends the next one before the last one's waiters have heard."""

    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        first = await client.begin_transaction()
        await (await client.produce(TOPIC, b"first"))
        kafka.will("EndTxn", CONCURRENT)
        ready = when_ended(client._transactions().machine)
        with pytest.raises(TransactionPendingError):
            await (first.commit(timeout=0.001) if commits else first.abort(timeout=0.001))
        await ready
        second = await client.begin_transaction()
        await client.produce(TOPIC, b"second")
        kafka.will("EndTxn", ABORTABLE if commits else 0)
        if commits:
            with pytest.raises(AbortNeededError):
                await second.commit()
            await second.abort()
        else:
            await second.abort()
        assert client.transaction_state.status is S.READY
        assert [commit for commit, _ in kafka.ends][:1] == [commits]

    with_played(body, version)


@BOTH
def test_a_commit_comes_behind_offsets_that_wait_for_their_turn(version: int) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        await (await client.produce(TOPIC, b""))
        turn = client._transactions().turn
        await turn.acquire()
        sending = asyncio.create_task(transaction.send_offsets({ONE: 5}, GROUP))
        await asyncio.sleep(0.1)
        committing = asyncio.create_task(transaction.commit())
        # The commit has begun, and looks whether all is as usual in the next moment: the turn is free by then, and
        # the offsets have not got it yet.
        await asyncio.sleep(0)
        turn.release()
        await sending
        await committing
        assert kafka.offsets == {"readers": {("requests", 0): 5}}
        assert [name for name, _, _ in kafka.asked][-2:] == ["TxnOffsetCommit", "EndTxn"]

    with_played(body, version)


def test_initializing_in_the_middle_of_a_transaction_is_refused_and_harms_nothing() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        await (await client.produce(TOPIC, b""))
        kafka.will("Produce", 45)
        await client.produce(TOPIC, b"")
        with pytest.raises(AbortNeededError):
            await transaction.commit()
        assert client._transactions().machine.needs_bump
        with pytest.raises(TransactionStateError, match="abort it first"):
            await client.init_transactions()
        await transaction.abort()
        await client.init_transactions()
        async with client.transaction():
            await client.produce(TOPIC, b"")
        assert [commit for commit, _ in kafka.ends] == [False, True]

    with_played(body, 1)


def test_of_two_that_begin_at_once_the_second_is_told_what_is_wrong() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        begun = await asyncio.gather(
            client.begin_transaction(), client.begin_transaction(), return_exceptions=True
        )
        (error,) = [each for each in begun if isinstance(each, BaseException)]
        assert isinstance(error, TransactionStateError)
        assert "has not ended (in transaction): commit or abort it first" in str(error)

    with_played(body)


@BOTH
def test_what_is_appended_while_it_is_prepared_is_delivered_before_that_is_told(version: int) -> None:
    """A thread has passed the check for an open transaction, and appends when all before it is delivered."""

    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        await (await client.produce(TOPIC, b"", partition=0))
        manager = client._transactions()
        await manager.turn.acquire()
        preparing = asyncio.create_task(transaction.prepare())
        await asyncio.sleep(0.1)
        # The loop is held up in the turn of another request when the thread comes.
        manager.machine.status = S.IN_TRANSACTION
        late = await client.produce(TOPIC, b"", partition=1)
        manager.machine.status = S.PREPARED
        manager.turn.release()
        await preparing
        assert late.done()
        assert kafka.stored(1) == 1
        await transaction.commit()

    with_played(body, version)


def test_a_client_that_is_closed_in_the_middle_of_a_block_says_that_it_was_aborted() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        async def close_inside() -> None:
            async with client.transaction():
                await (await client.produce(TOPIC, b""))
                await client.close()

        with pytest.raises(TransactionStateError, match="the transaction is aborted already"):
            await close_inside()
        assert [commit for commit, _ in kafka.ends] == [False]

    with_played(body)


@BOTH
@pytest.mark.parametrize("commits", [True, False])
def test_who_waits_for_an_end_is_told_that_the_client_was_closed(
    version: int, commits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        await (await client.produce(TOPIC, b""))
        kafka.will("EndTxn", *[15] * 10_000)
        waiting = asyncio.create_task(transaction.commit() if commits else transaction.abort())
        await asyncio.sleep(0.2)
        await client.close(0.5)
        with pytest.raises(ClientClosedError):
            await waiting

    with_played(body, version)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def test_an_abort_of_records_for_a_topic_that_is_not_known_yet_is_no_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        record = await client.produce(TOPIC, b"")
        await transaction.abort()
        with pytest.raises(TransactionAbortedError):
            await record

    with_played(body, linger_ms=1000)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == []
