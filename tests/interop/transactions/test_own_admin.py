"""Transactions through Ottla's own administration, and `ottla txn`: what is open, what hangs, and how it ends."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest
from typer.testing import CliRunner

from ottla.cli.app import app
from ottla.client.admin import FencedProducer, HangingTransaction, ListedTransaction, ProducerState
from ottla.client.blocking.client import Client
from ottla.client.topic_partition import TopicPartition
from ottla.errors import (
    ConfigurationError,
    InvalidProducerEpochError,
    InvalidRegularExpressionError,
    TransactionalIdNotFoundError,
    TransactionCoordinatorFencedError,
    UnknownBrokerError,
    UnknownTopicOrPartitionError,
)
from tests.interop import tools
from tests.interop.transactions.conftest import Unverified, producer_of, refuse_markers
from tests.interop.transactions.producer import Links, TxnProducer, patiently
from tests.interop.waiting import eventually

LONG_AGO_MS = 3_600_000


@pytest.fixture
def client(txn: Links) -> Iterator[Client]:
    with Client(txn.broker.bootstrap, default_api_timeout_ms=30_000) as client:
        yield client


Cli = Callable[..., list[dict[str, object]]]


@pytest.fixture
def cli(txn: Links, monkeypatch: pytest.MonkeyPatch, own_logging: None) -> Cli:
    """Runs `ottla txn` with --json, where it prints rows: these."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP", txn.broker.bootstrap)

    def run(*arguments: str) -> list[dict[str, object]]:
        result = CliRunner().invoke(app, ["txn", *arguments])
        assert result.exit_code == 0, (result.output, result.exception)
        return [json.loads(line) for line in result.stdout.splitlines()]

    return run


def open_unknown(txn: Links, unverified: Unverified, topic: str, age_ms: int = LONG_AGO_MS) -> TxnProducer:
    """A producer whose records of some time ago no coordinator knows of: it wrote without a word to any."""
    unverified(txn)
    producer = producer_of(txn)
    written = int(time.time() * 1000) - age_ms
    eventually(
        lambda: producer.try_send(topic, version=11, timestamp=written) == "NONE", "verification to be off"
    )
    return producer


def test_transactions_are_listed_by_state_producer_age_and_pattern(
    txn: Links, client: Client, cli: Cli
) -> None:
    topic = txn.create_topic()
    idle, busy = producer_of(txn), producer_of(txn)
    busy.send(topic)
    listed = client.admin.list_transactions()
    (node,) = txn.broker.node_ids
    assert listed[busy.id] == ListedTransaction(busy.id, busy.producer_id, "Ongoing", node)
    assert listed[idle.id].state == "Empty"
    assert idle.id not in client.admin.list_transactions(states=["ongoing"])
    assert list(client.admin.list_transactions(producer_ids=[busy.producer_id])) == [busy.id]
    assert list(client.admin.list_transactions(pattern=busy.id[:8] + ".*")) == [busy.id]
    assert client.admin.list_transactions(pattern=busy.id[:8]) == {}, "the whole id has to match"
    assert busy.id not in client.admin.list_transactions(states=["Ongoing"], older_than=3600)
    eventually(lambda: busy.id in client.admin.list_transactions(older_than=0.01), "a moment to pass")
    with pytest.raises(InvalidRegularExpressionError):
        client.admin.list_transactions(pattern="(")
    with pytest.raises(ConfigurationError, match="PrepareCommit"):
        client.admin.list_transactions(states=["Ongoin"])
    assert cli("list", "--pattern", busy.id, "--state", "ongoing", "--json") == [
        {"id": busy.id, "state": "Ongoing", "producer_id": busy.producer_id, "coordinator": node}
    ]
    busy.end(commit=True)


def test_a_transaction_is_described_with_the_partitions_that_wait_for_its_marker(
    txn: Links, client: Client, cli: Cli
) -> None:
    held, free = txn.create_topic(), txn.create_topic(2)
    producer = TxnProducer(txn)
    with pytest.raises(TransactionalIdNotFoundError, match=producer.id):
        client.admin.describe_transaction(producer.id)
    producer.init(timeout_ms=45_000)
    before = client.admin.describe_transaction(producer.id)
    assert (before.state, before.started_at, before.partitions) == ("Empty", None, ())
    refuse_markers(producer, held)
    began = time.time() * 1000
    producer.send(held)
    producer.send(free, partition=1)
    described = client.admin.describe_transaction(producer.id)
    assert (described.state, described.timeout_ms, described.producer_epoch) == ("Ongoing", 45_000, 0)
    assert described.partitions == tuple(sorted([TopicPartition(held, 0), TopicPartition(free, 1)]))
    assert described.started_at is not None
    assert abs(described.started_at - began) < 60_000
    assert producer.try_end(True) == "NONE"
    waiting = (TopicPartition(held, 0),)
    eventually(
        lambda: client.admin.describe_transaction(producer.id).partitions == waiting,
        "one marker to be written",
    )
    (row,) = cli("describe", producer.id, "--json")
    assert (row["state"], row["partitions"]) == ("PrepareCommit", f"{held}:0")
    both = client.admin.describe_transactions([producer.id, "no-such-id"], errors="collect")
    assert list(both) == [producer.id]
    assert isinstance(both.errors["no-such-id"], TransactionalIdNotFoundError)


def test_producers_of_a_partition_are_described_with_where_their_transactions_begin(
    txn: Links, client: Client, cli: Cli
) -> None:
    topic = txn.create_topic(2)
    producer = producer_of(txn)
    producer.send(topic)
    producer.end(commit=True)
    producer.send(topic)
    (state,) = client.admin.describe_producers(topic)[TopicPartition(topic, 0)]
    assert (state.producer_id, state.producer_epoch, state.last_sequence) == (producer.producer_id, 1, 2)
    assert (state.transaction_start_offset, state.coordinator_epoch) == (4, 0)
    (node,) = txn.broker.node_ids
    by_broker = client.admin.describe_producers([TopicPartition(topic, 0)], broker=node)
    assert by_broker == {TopicPartition(topic, 0): (state,)}
    (row,) = cli("producers", topic, "--open", "--json")
    assert (row["partition"], row["open_from"], row["epoch"]) == (0, 4, 1)
    producer.end(commit=False)
    assert cli("producers", topic, "--open", "--json") == []


def test_what_no_coordinator_knows_hangs_until_it_is_aborted(
    txn: Links, client: Client, cli: Cli, unverified: Unverified
) -> None:
    topic = txn.create_topic()
    producer, log = open_unknown(txn, unverified, topic), txn.log(topic)
    young = txn.create_topic()
    open_unknown(txn, unverified, young, age_ms=0)
    (hanging,) = client.admin.find_hanging_transactions([topic, young])
    partition = TopicPartition(topic, 0)
    assert hanging == HangingTransaction(partition, hanging.producer, producer.id)
    assert (hanging.producer.producer_id, hanging.producer.transaction_start_offset) == (
        producer.producer_id,
        0,
    )
    assert partition in [each.partition for each in client.admin.find_hanging_transactions()]
    (node,) = txn.broker.node_ids
    assert client.admin.find_hanging_transactions(topic, broker=node) == (hanging,)
    with pytest.raises(UnknownBrokerError, match=f"no broker with id {node + 1} is alive"):
        client.admin.find_hanging_transactions(topic, broker=node + 1)
    assert client.admin.find_hanging_transactions(topic, max_timeout=2 * LONG_AGO_MS / 1000) == ()
    (row,) = cli("find-hanging", "--topic", topic, "--max-timeout", "30m", "--json")
    assert (row["partition"], row["open_from"], row["id"]) == (0, 0, producer.id)
    assert log.stable_end == 0
    assert client.admin.abort_transaction(partition, producer=hanging.producer) == hanging.producer
    assert log.batches() == ["d@0 e0 s0", "A@3 e0"]
    eventually(lambda: log.stable_end == 4, "the marker to be replicated")
    assert (log.read_committed(), log.aborted()) == ([], [(producer.producer_id, 0)])
    assert client.admin.find_hanging_transactions(topic) == ()


def test_a_transaction_is_aborted_by_where_it_begins(
    txn: Links, client: Client, cli: Cli, unverified: Unverified
) -> None:
    topic = txn.create_topic()
    producer = open_unknown(txn, unverified, topic)
    partition = TopicPartition(topic, 0)
    with pytest.raises(ConfigurationError, match="they begin at 0"):
        client.admin.abort_transaction(partition, start_offset=7)
    with pytest.raises(ConfigurationError, match="one of"):
        client.admin.abort_transaction(partition)
    with pytest.raises(UnknownTopicOrPartitionError):
        client.admin.abort_transaction(TopicPartition(topic, 9), producer=ProducerState(1, 0, 0, 0, 0, 0))
    assert cli("abort", "--topic", f"{topic}:0", "--start-offset", "0", "--yes") == []
    assert txn.log(topic).batches() == ["d@0 e0 s0", "A@3 e0"]
    with pytest.raises(ConfigurationError, match="none is open"):
        client.admin.abort_transaction(partition, start_offset=0)
    assert producer.state == "Empty", "the coordinator has not been told"


def test_markers_of_an_older_epoch_are_refused(txn: Links, client: Client) -> None:
    topic = txn.create_topic()
    producer = producer_of(txn)
    for _ in range(2):
        producer.send(topic)
        producer.end(commit=True)
    (state,) = client.admin.describe_producers(topic)[TopicPartition(topic, 0)]
    older = ProducerState(state.producer_id, 1, 0, 0, 0, 0)
    with pytest.raises(InvalidProducerEpochError, match="describe_producers"):
        client.admin.abort_transaction(TopicPartition(topic, 0), producer=older)
    replaced = ProducerState(state.producer_id, state.producer_epoch, 0, 0, 7, 0)
    client.admin.abort_transaction(TopicPartition(topic, 0), producer=replaced)
    with pytest.raises(TransactionCoordinatorFencedError):
        client.admin.abort_transaction(TopicPartition(topic, 0), producer=state)


def test_a_fenced_producer_loses_its_transaction_and_its_id(txn: Links, client: Client, cli: Cli) -> None:
    topic = txn.create_topic()
    producer = producer_of(txn)
    producer.send(topic)
    fenced = client.admin.fence_producers([producer.id])
    assert fenced == {producer.id: FencedProducer(producer.producer_id, 2)}
    assert txn.log(topic).batches() == ["d@0 e0 s0", "A@3 e1"]
    assert producer.try_send(topic) == "INVALID_PRODUCER_EPOCH"
    assert producer.try_end(True) == "PRODUCER_FENCED"
    other = producer_of(txn)
    other.send(topic)
    assert cli("abort", "--id", other.id, "--yes") == []
    assert patiently(lambda: other.try_end(True)) == "PRODUCER_FENCED"
    with pytest.raises(TransactionalIdNotFoundError):
        client.admin.force_terminate_transaction("no-such-id")


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_installed")
def test_kafkas_own_tool_sees_the_same(txn: Links, client: Client, unverified: Unverified) -> None:
    topic = txn.create_topic()
    producer = open_unknown(txn, unverified, topic)
    bootstrap = txn.broker.bootstrap

    def rows(*arguments: str) -> list[list[str]]:
        output = tools.output(bootstrap, "kafka-transactions", *arguments)
        return [line.split() for line in output.splitlines()[1:]]

    assert producer.id in [row[0] for row in rows("list")]
    (found,) = rows("find-hanging", "--topic", topic, "--partition", "0")
    assert found[:3] == [topic, "0", str(producer.producer_id)]
    tools.output(
        bootstrap, "kafka-transactions", "abort", "--topic", topic, "--partition", "0", "--start-offset", "0"
    )
    assert client.admin.find_hanging_transactions(topic) == ()
    assert txn.log(topic).batches() == ["d@0 e0 s0", "A@3 e0"]
