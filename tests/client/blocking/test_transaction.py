"""Transactions of the client that blocks: the same as those of asyncio, from any thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from ottla.client.blocking.client import Client
from ottla.client.group.membership import GroupMetadata
from ottla.client.topic_partition import TopicPartition
from ottla.client.transactions.machine import TransactionStatus
from ottla.errors import (
    AbortNeededError,
    TransactionAbortedError,
    TransactionPendingError,
    TransactionStateError,
)
from ottla.runtime import MovableClock, SystemRuntime
from tests.client.transactions.played import OPTIONS, TOPIC, PlayedKafka
from tests.client.worlds import World


@pytest.fixture
def played() -> Iterator[PlayedKafka]:
    """A played cluster, on sockets, served by a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def done(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(60)

    async def listening() -> PlayedKafka:
        clock = MovableClock()
        kafka = PlayedKafka()
        await kafka.listen(World(SystemRuntime(clock), clock, simulated=False))
        return kafka

    kafka: PlayedKafka = done(listening())
    try:
        yield kafka
    finally:
        done(kafka.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def client(played: PlayedKafka) -> Iterator[Client]:
    with Client(played.bootstrap, **OPTIONS) as client:
        yield client


def test_a_block_commits_and_an_exception_aborts(played: PlayedKafka, client: Client) -> None:
    def divide() -> None:
        with client.transaction():
            client.produce(TOPIC, b"").result(timeout=60)
            raise ZeroDivisionError

    with client.transaction() as transaction:
        client.produce(TOPIC, b"", partition=0)
        transaction.send_offsets({TopicPartition("requests", 0): 5}, GroupMetadata("readers"))
    assert transaction.is_over
    with pytest.raises(ZeroDivisionError):
        divide()
    assert played.ends == [(True, 0), (False, 1)]
    assert played.offsets == {"readers": {("requests", 0): 5}}
    assert client.transaction_state.status is TransactionStatus.READY


def test_producing_needs_a_transaction_also_for_a_topic_that_is_known(
    played: PlayedKafka, client: Client
) -> None:
    for _ in range(2):
        with pytest.raises(TransactionStateError, match="begin_transaction"):
            client.produce(TOPIC, b"")
        with client.transaction():
            client.produce(TOPIC, b"").result(timeout=60)
            client.produce(TOPIC, b"")
    assert played.stored(0) + played.stored(1) == 4


def test_a_failed_record_is_an_error_of_the_block(played: PlayedKafka, client: Client) -> None:
    played.will("Produce", 120)
    with pytest.raises(AbortNeededError), client.transaction():
        client.produce(TOPIC, b"")
    assert played.ends == [(False, 0)]


def test_what_was_not_sent_is_dropped_by_an_abort(played: PlayedKafka) -> None:
    with Client(played.bootstrap, **{**OPTIONS, "linger_ms": 60_000}) as client:
        transaction = client.begin_transaction()
        dropped = client.produce(TOPIC, b"")
        transaction.abort()
        with pytest.raises(TransactionAbortedError):
            dropped.result(timeout=60)
    assert played.ends == []


def test_a_commit_that_is_pending_is_waited_for_by_the_next_call(played: PlayedKafka, client: Client) -> None:
    client.init_transactions()
    transaction = client.begin_transaction()
    client.produce(TOPIC, b"").result(timeout=60)
    played.will("EndTxn", *[15] * 100_000)
    with pytest.raises(TransactionPendingError):
        transaction.commit(timeout=0.05)
    played.will("EndTxn")
    transaction.commit()
    assert played.ends == [(True, 0)]


def test_a_prepared_transaction_is_ended_by_another_client(played: PlayedKafka, client: Client) -> None:
    for commit in (True, False):
        transaction = client.begin_transaction()
        client.produce(TOPIC, b"")
        prepared = transaction.prepare()
        with Client(played.bootstrap, **{**OPTIONS, "transactional_id": ""}) as other:
            (other.commit_prepared if commit else other.abort_prepared)(prepared)
        (transaction.commit if commit else transaction.abort)()
    assert played.ends == [(True, 0), (False, 1)]


def test_a_coroutine_function_runs_with_the_client_on_its_loop(played: PlayedKafka, client: Client) -> None:
    async def prepares(kafka: ottla.AsyncClient, name: str) -> ottla.PreparedTransaction:
        await kafka.take_transactional_id(name)
        transaction = await kafka.begin_transaction()
        await kafka.produce(TOPIC, b"1", partition=0)
        return await transaction.prepare()

    value = client.run(lambda kafka: prepares(kafka, "transfers"))
    assert value.transactional_id == "transfers"
    client.take_transactional_id("billing")
    client.commit_prepared(value)
    assert played.ends == [(True, value.epoch)]


def test_producing_needs_a_transaction_also_with_another_transactional_id(client: Client) -> None:
    for name in ("transfers", "billing"):
        client.take_transactional_id(name)
        transaction = client.begin_transaction()
        client.produce(TOPIC, b"1", partition=0)
        transaction.prepare()
        with pytest.raises(TransactionStateError, match="no transaction"):
            client.produce(TOPIC, b"2", partition=0)
