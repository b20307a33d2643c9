"""Transactions of Ottla's own client on both brokers, with transaction.version 1 and 2."""

from __future__ import annotations

import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

import ottla
from ottla.broker import Cluster
from ottla.client.group.membership import GroupMetadata
from ottla.client.topic_partition import TopicPartition
from ottla.client.transactions.machine import TransactionStatus
from ottla.errors import (
    AbortNeededError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaError,
    PreparedTransactionError,
    ProducerFencedError,
    ProducerLostError,
    TransactionAbortedError,
    TransactionStateError,
)
from ottla.wire import Message
from ottla.wire.messages import EndTxnRequest, EndTxnResponse
from tests.client.group.grouping import PROTOCOLS
from tests.interop.apache import ApacheKafka
from tests.interop.brokers import ApacheBroker, Broker, EmbeddedBroker
from tests.interop.conftest import BROKERS
from tests.interop.plain import Connection
from tests.interop.transactions.producer import Links
from tests.interop.waiting import eventually

S = TransactionStatus
PRODUCER_FENCED = 90
SOON_MS = 4000
"""When a transaction is to time out; long enough for its first record, on a busy machine."""
_APACHE = [pytest.param(name, marks=pytest.mark.kafka) for name in ("older_apache", "newest_apache")]
# Transactions that are overdue are looked for as often as that.
_ALERT = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
}


@pytest.fixture(scope="module")
def newest_apache(kafka_installed: None) -> Iterator[Broker]:
    with ApacheKafka(nodes=1, properties=_ALERT) as kafka:
        yield ApacheBroker(kafka)


@pytest.fixture(scope="module")
def older_apache(kafka_installed: None) -> Iterator[Broker]:
    """The same with transaction.version 1, as after an upgrade that is not finalized."""
    with ApacheKafka(nodes=1, properties=_ALERT) as kafka:
        kafka.tool("kafka-features", "downgrade", "--feature", "transaction.version=1").check_returncode()
        yield ApacheBroker(kafka)


@pytest.fixture(scope="module")
def newest_ottla() -> Iterator[Broker]:
    with Cluster(brokers=1, config=_ALERT) as cluster:
        yield EmbeddedBroker(cluster)


@pytest.fixture(scope="module")
def older_ottla() -> Iterator[Broker]:
    """As the last release before transaction.version 2."""
    with Cluster(brokers=1, config=_ALERT, max_versions="3.9") as cluster:
        yield EmbeddedBroker(cluster)


@pytest.fixture(params=BROKERS)
def newest(request: pytest.FixtureRequest) -> Broker:
    found: Broker = request.getfixturevalue(f"newest_{request.param}")
    return found


@pytest.fixture(params=["older_ottla", "newest_ottla", *_APACHE])
def broker(request: pytest.FixtureRequest) -> Broker:
    found: Broker = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def transactional_id() -> str:
    return f"id-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic(partitions=2)


def committed(broker: Broker, topic: str) -> list[bytes | None]:
    with ottla.Client(broker.bootstrap, isolation_level="read_committed") as reader:
        return [record.value for record in reader.consume(topic, start="earliest", stop="latest")]


def client(broker: Broker, transactional_id: str, **options: object) -> ottla.Client:
    return ottla.Client(broker.bootstrap, transactional_id=transactional_id, **options)  # type: ignore[arg-type]


def status_of(kafka: ottla.Client) -> TransactionStatus:
    return kafka.transaction_state.status


def test_a_block_commits_and_an_exception_aborts(broker: Broker, topic: str, transactional_id: str) -> None:
    def fail(kafka: ottla.Client) -> None:
        with kafka.transaction():
            kafka.produce(topic, b"aborted").result(timeout=30)
            raise ZeroDivisionError

    with client(broker, transactional_id) as kafka:
        assert status_of(kafka) is S.UNINITIALIZED
        with pytest.raises(TransactionStateError):
            kafka.produce(topic, b"outside")
        for number in range(3):
            with kafka.transaction():
                for partition in range(2):
                    kafka.produce(topic, b"%d" % number, partition=partition)
            with pytest.raises(ZeroDivisionError):
                fail(kafka)
        assert status_of(kafka) is S.READY
    eventually(
        lambda: sorted(committed(broker, topic)) == [b"0", b"0", b"1", b"1", b"2", b"2"],  # type: ignore[type-var]
        "the last marker",
    )


def test_what_was_not_sent_is_dropped_by_an_abort(broker: Broker, topic: str, transactional_id: str) -> None:
    with client(broker, transactional_id, linger_ms=60_000, delivery_timeout_ms=120_000) as kafka:
        transaction = kafka.begin_transaction()
        dropped = kafka.produce(topic, b"dropped")
        transaction.abort()
        with pytest.raises(TransactionAbortedError):
            dropped.result(timeout=30)
        with kafka.transaction():
            kafka.produce(topic, b"kept")
    eventually(lambda: committed(broker, topic) == [b"kept"], "its marker")


def test_offsets_are_committed_with_the_records(broker: Broker, topic: str, transactional_id: str) -> None:
    group = f"group-{uuid.uuid4().hex[:12]}"
    tp = TopicPartition(topic, 0)
    with client(broker, transactional_id) as kafka:
        with kafka.transaction() as transaction:
            kafka.produce(topic, b"1", partition=1)
            transaction.send_offsets({tp: 7}, GroupMetadata(group))
        assert kafka.admin.group_offsets(group, tp, require_stable=True)[tp].offset == 7  # type: ignore[union-attr]
        transaction = kafka.begin_transaction()
        transaction.send_offsets({tp: 9}, GroupMetadata(group))
        transaction.abort()
        assert kafka.admin.group_offsets(group, tp, require_stable=True)[tp].offset == 7  # type: ignore[union-attr]


def test_offsets_of_a_consumer_name_its_member_and_a_former_one_is_refused(
    broker: Broker, topic: str, transactional_id: str
) -> None:
    group = f"group-{uuid.uuid4().hex[:12]}"
    tp = TopicPartition(topic, 0)
    with client(broker, transactional_id, enable_auto_commit=False) as kafka:
        with kafka.transaction():
            kafka.produce(topic, b"1", partition=0)
        with kafka.consume(topic, group=group, start="earliest") as consumer:
            (record,) = consumer.poll(1, timeout=60)
            with kafka.transaction() as transaction:
                transaction.send_offsets({tp: record.offset + 1}, consumer)
            former = consumer.group_metadata()
            assert former.generation > 0
        transaction = kafka.begin_transaction()
        with pytest.raises(AbortNeededError):
            transaction.send_offsets({tp: 5}, former)
        transaction.abort()
        found = kafka.admin.group_offsets(group, tp, require_stable=True)[tp]
        assert found is not None
        assert found.offset == record.offset + 1


def test_a_newer_client_fences_the_older_one(broker: Broker, topic: str, transactional_id: str) -> None:
    with client(broker, transactional_id) as older, client(broker, transactional_id) as newer:
        transaction = older.begin_transaction()
        older.produce(topic, b"older").result(timeout=30)
        with newer.transaction():
            newer.produce(topic, b"newer")
        with pytest.raises(ProducerLostError) as caught:
            transaction.commit()
        assert not caught.value.may_be_committed
        assert older.transaction_state.status is S.FATAL_ERROR
        with pytest.raises(ProducerLostError):
            older.begin_transaction()
        with newer.transaction():
            newer.produce(topic, b"newer")
    eventually(lambda: committed(broker, topic) == [b"newer"] * 2, "the last marker")


def test_a_transaction_that_is_open_too_long_is_not_committed(
    broker: Broker, topic: str, transactional_id: str
) -> None:
    with client(broker, transactional_id, transaction_timeout_ms=SOON_MS) as kafka:
        transaction = kafka.begin_transaction()
        kafka.produce(topic, b"late").result(timeout=30)
        with ottla.Client(broker.bootstrap) as other:
            eventually(lambda: _stable_end(other, topic) > 0, "the coordinator to abort it")
        with pytest.raises(ProducerLostError, match="not committed by it"):
            transaction.commit()
    assert committed(broker, topic) == []


def _stable_end(client: ottla.Client, topic: str) -> int:
    """How many offsets of the topic are behind the last stable one: with the marker of each transaction."""
    ends = client.admin.list_offsets(topic, isolation="read_committed")
    return sum(each.offset or 0 for each in ends.values())


FENCED, OLD_EPOCH, OTHER_STATE = ProducerFencedError, InvalidProducerEpochError, InvalidTxnStateError
# By what has happened to the producer, and what it does next: the error by transaction version, and the state.
LATE: dict[tuple[str, str], tuple[type[KafkaError] | None, type[KafkaError] | None, TransactionStatus]] = {
    ("replaced", "commit"): (FENCED, FENCED, S.FATAL_ERROR),
    ("replaced", "abort"): (FENCED, FENCED, S.FATAL_ERROR),
    ("replaced", "produce"): (OLD_EPOCH, OLD_EPOCH, S.ABORTABLE_ERROR),
    ("replaced", "send offsets"): (FENCED, OLD_EPOCH, S.FATAL_ERROR),
    ("timed out", "commit"): (FENCED, OTHER_STATE, S.FATAL_ERROR),
    ("timed out", "abort"): (FENCED, None, S.FATAL_ERROR),
    ("timed out", "produce"): (OLD_EPOCH, OLD_EPOCH, S.ABORTABLE_ERROR),
    ("timed out", "send offsets"): (FENCED, OLD_EPOCH, S.FATAL_ERROR),
}


@pytest.mark.parametrize(("fate", "call"), LATE, ids=str)
def test_what_a_producer_learns_that_is_too_late(
    broker: Broker, topic: str, transactional_id: str, fate: str, call: str
) -> None:
    timeout = SOON_MS if fate == "timed out" else 60_000
    kafka = client(broker, transactional_id, transaction_timeout_ms=timeout, linger_ms=0)
    transaction = kafka.begin_transaction()
    kafka.produce(topic, b"1", partition=0).result(timeout=30)
    with ottla.Client(broker.bootstrap, transactional_id=transactional_id) as rival:
        if fate == "replaced":
            rival.init_transactions()
        eventually(lambda: _stable_end(rival, topic) > 0, "the coordinator to abort it")
    calls: dict[str, Callable[[], object]] = {
        "commit": transaction.commit,
        "abort": transaction.abort,
        "produce": lambda: kafka.produce(topic, b"2", partition=0).result(timeout=30),
        "send offsets": lambda: transaction.send_offsets(
            {TopicPartition(topic, 0): 1}, GroupMetadata(f"group-{transactional_id}")
        ),
    }
    by_version = LATE[fate, call]
    expected = by_version[kafka.transaction_state.transaction_version - 1]
    learnt: BaseException | None = None
    try:
        calls[call]()
    except KafkaError as error:
        learnt = error.__cause__ if isinstance(error, ProducerLostError) else error
    assert type(learnt) is (expected or type(None))
    assert status_of(kafka) is (S.READY if expected is None else by_version[2])
    with suppress(KafkaError):
        kafka.close(1.0)


_END = """
import sys, ottla
from ottla.client.transactions.prepared import PreparedTransaction
bootstrap, action, transactional_id, producer_id, epoch = sys.argv[1:]
prepared = PreparedTransaction(transactional_id, int(producer_id), int(epoch))
with ottla.Client(bootstrap) as kafka:
    (kafka.commit_prepared if action == "commit" else kafka.abort_prepared)(prepared)
"""


@pytest.mark.parametrize("action", ["commit", "abort"])
def test_a_prepared_transaction_is_ended_by_another_process(
    broker: Broker, topic: str, transactional_id: str, action: str
) -> None:
    with client(broker, transactional_id) as kafka:
        transaction = kafka.begin_transaction()
        kafka.produce(topic, b"prepared")
        prepared = transaction.prepare()
        assert committed(broker, topic) == []
    assert committed(broker, topic) == []
    command = [sys.executable, "-c", _END, broker.bootstrap, action, *map(str, prepared)]
    subprocess.run(command, check=True, timeout=60)
    expected = [b"prepared"] if action == "commit" else []
    with ottla.Client(broker.bootstrap) as other:
        eventually(lambda: _stable_end(other, topic) == 2, "its marker")
        (other.commit_prepared if action == "commit" else other.abort_prepared)(prepared)
        with pytest.raises(PreparedTransactionError) as caught:
            (other.abort_prepared if action == "commit" else other.commit_prepared)(prepared)
        assert caught.value.is_other_outcome
    assert committed(broker, topic) == expected


@pytest.mark.parametrize("ended", ["commit", "abort"])
def test_a_prepared_transaction_that_ended_before_the_version_rose_is_known_to_have(
    newest: Broker, transactional_id: str, ended: str
) -> None:
    topic = newest.create_topic(partitions=2)
    with client(newest, transactional_id) as kafka:
        transaction = kafka.begin_transaction()
        kafka.produce(topic, b"prepared")
        prepared = transaction.prepare()
    with Links(newest) as links:
        # As a call whose response was lost has sent it then: the epoch stays, which says "no such end" to newer ones.
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=prepared.producer_id,
            producer_epoch=prepared.epoch,
            committed=ended == "commit",
        )
        coordinator = links.coordinator(transactional_id)
        assert coordinator.get(request, 4, EndTxnResponse).error_code == 0
    with ottla.Client(newest.bootstrap) as other:
        eventually(lambda: _stable_end(other, topic) == 2, "its marker")
        if ended == "commit":
            other.commit_prepared(prepared)
        else:
            with pytest.raises(PreparedTransactionError) as caught:
                other.commit_prepared(prepared)
            assert caught.value.is_other_outcome
    assert committed(newest, topic) == ([b"prepared"] if ended == "commit" else [])


def test_a_prepared_transaction_whose_producer_was_replaced_is_refused(
    broker: Broker, topic: str, transactional_id: str
) -> None:
    with client(broker, transactional_id) as kafka:
        transaction = kafka.begin_transaction()
        kafka.produce(topic, b"prepared")
        prepared = transaction.prepare()
    with client(broker, transactional_id) as newer:
        newer.init_transactions()
    with ottla.Client(broker.bootstrap) as other, pytest.raises(PreparedTransactionError) as caught:
        other.commit_prepared(prepared)
    assert not caught.value.is_other_outcome
    assert committed(broker, topic) == []


def test_a_delayed_end_changes_nothing_in_the_next_transaction(newest: Broker, transactional_id: str) -> None:
    topic = newest.create_topic(partitions=2)
    with client(newest, transactional_id) as kafka:
        with kafka.transaction():
            kafka.produce(topic, b"first", partition=0)
            first = kafka.transaction_state
        transaction = kafka.begin_transaction()
        kafka.produce(topic, b"second", partition=0).result(timeout=30)
        for commit in (True, False):
            request = EndTxnRequest(
                transactional_id=transactional_id,
                producer_id=first.producer_id,
                producer_epoch=first.epoch,
                committed=commit,
            )
            assert _code(newest, request) == PRODUCER_FENCED
        assert committed(newest, topic) == [b"first"]
        transaction.commit()
    eventually(lambda: committed(newest, topic) == [b"first", b"second"], "the last marker")


def _code(broker: Broker, request: Message) -> int:
    with Connection(broker.bootstrap) as connection:
        response = connection.ask(request, 5)
        assert isinstance(response, EndTxnResponse)
        return response.error_code


def test_the_version_may_change_between_two_transactions(newest: Broker, transactional_id: str) -> None:
    """As a client sees it that connects anew: the cluster's features come with a connection."""
    topic = newest.create_topic(partitions=1)
    seen = []
    with client(newest, transactional_id) as kafka:
        features = kafka._core._brokers.features
        for level in (1, 2, 2, 1, 1):
            # A broker takes the requests of both versions, whatever is finalized.
            features._levels["transaction.version"] = level
            with kafka.transaction():
                kafka.produce(topic, b"%d" % level).result(timeout=30)
                seen.append(kafka.transaction_state.epoch)
    assert seen == sorted(seen)
    eventually(lambda: committed(newest, topic) == [b"1", b"2", b"2", b"1", b"1"], "the last marker")


RECORDS = 300


class Copier:
    """A program with a session, in a thread of its own: copies a topic until it is told to stop."""

    def __init__(self, broker: Broker, source: str, target: str, name: str, options: dict[str, Any]) -> None:
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(broker, source, target, name, options))
        self.outcomes: Counter[bool] = Counter()
        self._thread.start()

    def _run(self, broker: Broker, source: str, target: str, name: str, options: dict[str, Any]) -> None:
        with (
            client(broker, name, **options) as kafka,
            kafka.transact_session(source, group=f"copy-{source}") as session,
        ):
            while not self._ends.is_set():
                records = session.poll(20, timeout=0.1)
                session.begin()
                for record in records:
                    session.produce(target, record.value)
                self.outcomes[session.end()] += 1

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_sessions_that_come_and_go_copy_every_record_once(newest: Broker, protocol: str) -> None:
    source, target = newest.create_topic(partitions=4), newest.create_topic(partitions=4)
    values = [b"%d" % number for number in range(RECORDS)]
    with ottla.Client(newest.bootstrap) as kafka:
        for value in values:
            kafka.produce(source, value)
    options = {**PROTOCOLS[protocol], "session_timeout_ms": 6000}
    stays = Copier(newest, source, target, f"{source}-0", options)
    try:
        for number in range(1, 4):
            guest = Copier(newest, source, target, f"{source}-{number}", options)
            try:
                eventually(lambda: sum(guest.outcomes.values()) >= 3, "a guest to take part", 60)  # noqa: B023
            finally:
                guest.stop()
        eventually(lambda: len(committed(newest, target)) >= RECORDS, "every record to be copied", within=120)
    finally:
        stays.stop()
    assert sorted(committed(newest, target)) == sorted(values)  # type: ignore[type-var]
