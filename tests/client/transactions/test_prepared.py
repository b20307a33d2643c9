"""A transaction as a value: prepared by one client, ended by another."""

from __future__ import annotations

import pickle

import pytest

from ottla.client.client import AsyncClient
from ottla.client.transactions.machine import TransactionStatus
from ottla.client.transactions.prepared import PreparedTransaction
from ottla.client.transactions.transaction import AsyncTransaction
from ottla.errors import (
    AbortNeededError,
    PreparedTransactionError,
    TransactionPendingError,
    TransactionStateError,
)
from ottla.wire.messages import InitProducerIdRequest, ProduceRequest
from tests.client.transactions.played import (
    DROP,
    FENCED,
    INVALID_STATE,
    LOSE,
    OPTIONS,
    TOPIC,
    PlayedKafka,
    with_played,
)
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


@pytest.mark.parametrize("replaced", [False, True])
def test_a_commit_of_before_the_version_rose_is_none_of_another_outcome(replaced: bool) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        value = await prepared(kafka, client)
        kafka.version = 1
        await stranger(world, kafka).commit_prepared(value)
        kafka.version, kafka.features_epoch = 2, 2
        if not replaced:
            await stranger(world, kafka).commit_prepared(value)
            return
        # A coordinator refuses the commit of an earlier epoch as one in no state for it also then.
        kafka.known.epoch, kafka.known.outcome = value.epoch + 1, None
        kafka.will("EndTxn", INVALID_STATE)
        with pytest.raises(PreparedTransactionError, match="either way") as caught:
            await stranger(world, kafka).commit_prepared(value)
        assert not caught.value.is_other_outcome

    with_played(body)


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


# Another transactional id


@BOTH
def test_one_client_prepares_under_many_names(version: int) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        first = await prepared(kafka, client)
        await client.take_transactional_id("transfers", transaction_timeout_ms=1234)
        assert client.transaction_state.status is TransactionStatus.UNINITIALIZED
        second = await prepared(kafka, client)
        assert (first.transactional_id, second.transactional_id) == ("billing", "transfers")
        assert second.epoch > first.epoch
        inits = [request for _, _, request in kafka.asked if isinstance(request, InitProducerIdRequest)]
        assert [each.transactional_id for each in inits] == ["billing", "transfers"]
        assert inits[1].transaction_timeout_ms == 1234
        produced = [request for _, _, request in kafka.asked if isinstance(request, ProduceRequest)]
        assert [each.transactional_id for each in produced] == ["billing", "transfers"]
        await stranger(world, kafka).commit_prepared(second)
        assert kafka.ends[-1] == (True, second.epoch)

    with_played(body, version)


@BOTH
def test_an_identity_of_another_process_is_never_initialized(version: int) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        await client.init_transactions()
        state = client.transaction_state
        other = world.client(kafka.bootstrap, **OPTIONS)
        await other.take_transactional_id("billing", (state.producer_id, state.epoch))
        transaction = await other.begin_transaction()
        await other.produce(TOPIC, b"", partition=0)
        await transaction.commit()
        assert kafka.ends == [(True, state.epoch)]
        assert kafka.count("InitProducerId") == 1
        assert other.transaction_state.transaction_version == version

    with_played(body, version)


def test_an_identity_that_has_failed_does_not_go_on() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        await client.init_transactions()
        state = client.transaction_state
        await client.take_transactional_id("billing", (state.producer_id, state.epoch))
        transaction = await client.begin_transaction()
        kafka.will("Produce", 87)  # INVALID_RECORD: given up, and the sequence has a gap
        await client.produce(TOPIC, b"", partition=0)
        with pytest.raises(AbortNeededError):
            await transaction.commit()
        await transaction.abort()
        with pytest.raises(TransactionStateError, match="initialized by another process"):
            await client.begin_transaction()
        assert kafka.count("InitProducerId") == 1

    with_played(body, 1)


def test_another_name_is_not_taken_while_a_transaction_is_open() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        await client.produce(TOPIC, b"", partition=0)
        with pytest.raises(TransactionStateError, match="has not ended"):
            await client.take_transactional_id("transfers")
        await transaction.abort()
        await client.take_transactional_id("transfers")
        with pytest.raises(ValueError, match="not empty"):
            await client.take_transactional_id("")
        # What was of the other name is over.
        with pytest.raises(TransactionStateError, match="another one has begun since"):
            await (await _begun(client, transaction)).commit()

    with_played(body)


async def _begun(client: AsyncClient, older: AsyncTransaction) -> AsyncTransaction:
    await client.begin_transaction()
    older._outcome = ""
    return older


def test_an_initialization_that_hangs_ends_with_the_name() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        kafka.will("InitProducerId", *[DROP] * 3)
        with pytest.raises(TransactionPendingError):
            await client.init_transactions(timeout=0.01)
        await client.take_transactional_id("transfers")
        await client.init_transactions()
        inits = [request for _, _, request in kafka.asked if isinstance(request, InitProducerIdRequest)]
        names = [each.transactional_id for each in inits]
        # Only what was sent when the other name was taken.
        assert names.count("billing") == 1
        assert names[-1] == "transfers"

    with_played(body)
