"""confluent-kafka, aiokafka, kafka-python and Kafka's own tools: they write transactions, read commits, and copy."""

from __future__ import annotations

import uuid

import pytest

from tests.interop import tools
from tests.interop.transactions.foreign import FOREIGN, ForeignClient
from tests.interop.transactions.producer import Links, TxnProducer, patiently

SCRIPT = (
    ([b"a", b"b"], True),
    ([b"no", b"nor this"], False),
    ([b"c"], True),
    ([b"never"], False),
    ([b"end"], True),
)
COMMITTED = [b"a", b"b", b"c", b"end"]
ALL = [b"a", b"b", b"no", b"nor this", b"c", b"never", b"end"]

by_client = pytest.mark.parametrize("client", FOREIGN, ids=lambda client: str(client.name))


def new_id() -> str:
    return f"id-{uuid.uuid4().hex[:12]}"


@by_client
def test_transactions_of_one_client_are_read_by_all(txn: Links, client: ForeignClient) -> None:
    topic, bootstrap = txn.create_topic(), txn.broker.bootstrap
    client.write(bootstrap, new_id(), topic, SCRIPT)
    for reader in FOREIGN:
        assert reader.read_until(bootstrap, topic, b"end", committed=True) == COMMITTED, reader.name
        assert reader.read_until(bootstrap, topic, b"end", committed=False) == ALL, reader.name


@by_client
def test_transactions_of_one_client_at_tv1(txn1: Links, client: ForeignClient) -> None:
    topic, bootstrap = txn1.create_topic(), txn1.broker.bootstrap
    client.write(bootstrap, new_id(), topic, SCRIPT)
    assert client.read_until(bootstrap, topic, b"end", committed=True) == COMMITTED


@by_client
def test_records_and_offsets_are_copied_in_one_transaction(txn: Links, client: ForeignClient) -> None:
    source, target, bootstrap = txn.create_topic(), txn.create_topic(), txn.broker.bootstrap
    copier, group = new_id(), f"group-{uuid.uuid4().hex[:12]}"
    client.write(bootstrap, new_id(), source, SCRIPT)

    def copy(count: int, commit: bool) -> list[bytes]:
        return client.copy(bootstrap, copier, group, source, target, count=count, commit=commit)

    assert copy(2, commit=True) == [b"a", b"b"]
    assert copy(2, commit=False) == [b"c", b"end"]
    assert copy(2, commit=True) == [b"c", b"end"], "the aborted one has moved nothing"
    assert client.read_until(bootstrap, target, b"end", committed=True) == COMMITTED


@by_client
def test_the_next_of_an_id_takes_over_from_one_that_left_its_transaction_open(
    txn: Links, client: ForeignClient
) -> None:
    topic, bootstrap = txn.create_topic(), txn.broker.bootstrap
    left = TxnProducer(txn).init()
    left.send(topic)
    client.write(bootstrap, left.id, topic, [([b"end"], True)])
    assert patiently(lambda: left.try_end(True)) == "PRODUCER_FENCED"
    assert client.read_until(bootstrap, topic, b"end", committed=True) == [b"end"]


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_installed")
def test_the_java_producer_writes_transactions_and_the_console_consumer_reads_commits(txn: Links) -> None:
    topic, bootstrap = txn.create_topic(), txn.broker.bootstrap
    open_one = TxnProducer(txn).init()
    open_one.send(topic)
    open_one.end(commit=False)
    tools.output(
        bootstrap,
        tools.PERFORMANCE,
        *("--topic", topic, "--num-records", "300", "--record-size", "10", "--throughput", "3000"),
        *("--transactional-id", new_id(), "--transaction-duration-ms", "20"),
    )

    def read(*arguments: str, count: int) -> list[str]:
        return tools.output(
            bootstrap,
            "kafka-console-consumer",
            *("--topic", topic, "--from-beginning", "--max-messages", str(count), *arguments),
        ).split()

    committed = read("--isolation-level", "read_committed", count=300)
    assert len(committed) == 300
    assert "x" not in committed
    assert read(count=303)[:3] == ["x", "x", "x"]
    assert len([line for line in txn.log(topic).batches() if line.startswith("C")]) > 1
