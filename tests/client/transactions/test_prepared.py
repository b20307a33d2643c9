"""A transaction as a value: prepared by one client, ended by another."""

from __future__ import annotations

import pickle

import pytest

from ottla.client.client import AsyncClient
from ottla.client.transactions.machine import TransactionStatus
from ottla.client.transactions.prepared import PreparedTransaction
from ottla.errors import (
    AbortNeededError,
    PreparedTransactionError,
    TransactionPendingError,
    TransactionStateError,
)
from tests.client.transactions.played import FENCED, LOSE, OPTIONS, TOPIC, PlayedKafka, with_played
from tests.client.worlds import World

BOTH = pytest.mark.parametrize("version", [1, 2])


def stranger(world: World, kafka: PlayedKafka) -> AsyncClient:
    """A client that has no transactional id itself."""
    return world.client(kafka.bootstrap, **{**OPTIONS, "transactional_id": ""})


async def prepared(kafka: PlayedKafka, client: AsyncClient) -> PreparedTransaction:
    transaction = await client.begin_transaction()
    await client.produce(TOPIC, b"", partition=0)
    return await transaction.prepare()


@BOTH
@pytest.mark.parametrize("commit", [True, False])
def test_another_client_ends_it(version: int, commit: bool) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        value = await prepared(kafka, client)
        assert pickle.loads(pickle.dumps(value)) == value == ("billing", 7, 0)
        assert (kafka.stored(0), kafka.ends) == (1, [])
        await client.close()
        assert kafka.ends == []
        other = stranger(world, kafka)
        kafka.will("EndTxn", LOSE)
        await (other.commit_prepared(value) if commit else other.abort_prepared(value))
        assert kafka.ends == [(commit, 0)]
        assert kafka.count("InitProducerId") == 1

    with_played(body, version)


@BOTH
def test_what_has_ended_the_other_way_is_said_so(version: int) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        value = await prepared(kafka, client)
        other = stranger(world, kafka)
        await other.abort_prepared(value)
        await other.abort_prepared(value)
        with pytest.raises(PreparedTransactionError, match="it is aborted") as caught:
            await other.commit_prepared(value)
        assert caught.value.is_other_outcome

    with_played(body, version)


def test_a_producer_that_was_replaced_leaves_both_outcomes_open() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        value = await prepared(kafka, client)
        kafka.will("EndTxn", FENCED)
        with pytest.raises(PreparedTransactionError, match="either way") as caught:
            await stranger(world, kafka).commit_prepared(value)
        assert not caught.value.is_other_outcome

    with_played(body)


def test_what_is_not_known_in_time_is_asked_for_again() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        value = await prepared(kafka, client)
        other = stranger(world, kafka)
        kafka.will("EndTxn", *[15] * 1000)
        with pytest.raises(TransactionPendingError, match="commit it again"):
            await other.commit_prepared(value, timeout=1.0)
        kafka.will("EndTxn")
        await other.commit_prepared(value)
        assert kafka.ends == [(True, 0)]

    with_played(body)


@BOTH
def test_the_client_that_has_prepared_it_can_end_it_and_go_on(version: int) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        await client.produce(TOPIC, b"", partition=0)
        value = await transaction.prepare()
        assert client.transaction_state.status is TransactionStatus.PREPARED
        assert await transaction.prepare() == value
        with pytest.raises(TransactionStateError):
            await client.produce(TOPIC, b"")
        await transaction.commit()
        value = await prepared(kafka, client)
        await client.abort_prepared(value)
        async with client.transaction():
            await client.produce(TOPIC, b"", partition=0)
        assert [commit for commit, _ in kafka.ends] == [True, False, True]

    with_played(body, version)


def test_the_client_learns_that_another_one_has_ended_it() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        await client.produce(TOPIC, b"", partition=0)
        value = await transaction.prepare()
        await stranger(world, kafka).commit_prepared(value)
        await transaction.commit()
        async with client.transaction():
            await client.produce(TOPIC, b"", partition=0)
        assert kafka.ends == [(True, 0), (True, 1)]

    with_played(body)


def test_records_that_fail_are_not_prepared() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        kafka.will("Produce", 120)
        await client.produce(TOPIC, b"", partition=0)
        with pytest.raises(AbortNeededError):
            await transaction.prepare()
        await transaction.abort()
        assert kafka.ends == [(False, 0)]

    with_played(body)


def test_a_transaction_without_records_is_not_prepared() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        with pytest.raises(TransactionStateError, match="nothing was produced"):
            await transaction.prepare()
        await transaction.abort()
        assert kafka.count("EndTxn") == 0

    with_played(body)
