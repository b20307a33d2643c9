"""This client's transactions while nodes are killed: what is committed is there once, what is aborted never.

A producer writes numbers in transactions into one topic, two sessions copy them to another, and confluent-kafka reads
both. Topics, transactions and offsets of groups are on three nodes, two of which must have what is acknowledged.
"""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType
from typing import Self, TypeVar

import pytest

import ottla
from ottla.errors import AbortNeededError, TransactionPendingError
from tests.interop.brokers import Broker
from tests.interop.transactions.bounced import (
    DURABLE,
    CommittedReader,
    bounce_brokers,
    committed_numbers,
    make_durable,
)
from tests.interop.transactions.copier import Copier
from tests.interop.waiting import eventually

PARTITIONS = 3
SIZE = 20
"""Numbers of a transaction. Copiers take up to five of those at once."""
PAUSE_S = 0.02
"""Between two transactions: copiers are to keep up."""
ABORTED_OF_TEN = 2
WITHIN_S = 240.0
T = TypeVar("T")


class NumberProducer:
    """Writes 0, 1, 2 and so on in transactions, in a thread; the numbers of an aborted one are written again."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.transactional_id = f"numbers-{uuid.uuid4().hex[:12]}"
        self.count = 0
        """How many are committed."""
        self._bootstrap, self._topic = bootstrap, topic
        self._is_over = threading.Event()
        self._random = random.Random(1)
        self._pool = ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        self._running = self._pool.submit(self._run)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._pool.shutdown()

    def wait_for_more(self) -> None:
        """Until it has committed another transaction."""
        before = self.count
        eventually(
            lambda: self.count > before or self._running.done(), "a transaction to be committed", WITHIN_S
        )
        if self._running.done():
            self._running.result()

    def stop(self) -> int:
        """Ends it after its transaction; how many numbers there are."""
        self._is_over.set()
        self._running.result(WITHIN_S)
        return self.count

    def _run(self) -> None:
        with ottla.Client(self._bootstrap, transactional_id=self.transactional_id, linger_ms=1) as kafka:
            while not self._is_over.wait(PAUSE_S):
                self._write(kafka)

    def _write(self, kafka: ottla.Client) -> None:
        transaction = _until_known(kafka.begin_transaction)
        try:
            for number in range(self.count, self.count + SIZE):
                kafka.produce(self._topic, b"%d" % number, partition=number % PARTITIONS)
            if self._random.randrange(10) >= ABORTED_OF_TEN:
                _until_known(transaction.commit)
                self.count += SIZE
                return
        except AbortNeededError:
            # A leader that went away may leave records behind whose fate is not known: they are written again.
            pass
        _until_known(transaction.abort)


def _until_known(call: Callable[[], T]) -> T:
    while True:
        try:
            return call()
        except TransactionPendingError:
            # Nodes are away. The same call again waits on.
            continue


def _check_numbers(bootstrap: str, topic: str, count: int) -> None:
    values = committed_numbers(bootstrap, topic)
    assert len(values) == len(set(values)), "numbers are there twice"
    assert sorted(values) == list(range(count)), "numbers are missing, or aborted ones are there"


def exactly_once_while_nodes_are_killed(broker: Broker, rounds: list[list[int]]) -> None:
    """Each round kills nodes one after the other, once the producer and the sessions are at work again."""
    source, target = (broker.create_topic(PARTITIONS, DURABLE) for _ in range(2))
    group = f"copy-{uuid.uuid4().hex[:12]}"
    make_durable(broker, group)
    with ExitStack() as stack:
        following = stack.enter_context(CommittedReader(broker.bootstrap, target))
        copiers = [
            stack.enter_context(
                Copier("ottla", broker.bootstrap, group, f"{group}-{number}", source, target, str(5 * SIZE))
            )
            for number in range(2)
        ]
        numbers = stack.enter_context(NumberProducer(broker.bootstrap, source))
        for nodes in rounds:
            for node in nodes:
                numbers.wait_for_more()
                following.wait_for(len(following.values) + SIZE, WITHIN_S)
                bounce_brokers(broker, [node], hard=True, topics=[source, target])
        count = numbers.stop()
        following.wait_for(count, WITHIN_S)
        for copier in copiers:
            copier.stop()
    assert sorted(following.values) == list(range(count))
    _check_numbers(broker.bootstrap, source, count)
    _check_numbers(broker.bootstrap, target, count)


def test_transactions_and_sessions_are_exact_while_a_node_is_killed(failing3: Broker) -> None:
    exactly_once_while_nodes_are_killed(failing3, [failing3.node_ids[:1]])


@pytest.mark.kafka_full
@pytest.mark.parametrize(
    "failing3",
    [pytest.param("ottla", id="ottla"), pytest.param("apache", id="apache")],
    indirect=True,
)
def test_transactions_and_sessions_are_exact_while_all_nodes_are_killed_again_and_again(
    failing3: Broker,
) -> None:
    exactly_once_while_nodes_are_killed(failing3, [failing3.node_ids] * 3)
