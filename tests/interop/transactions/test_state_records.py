"""What coordinators write into __transaction_state: on both brokers the same states, in the same bytes."""

from __future__ import annotations

from itertools import pairwise

from ottla.broker.coordinator.transactions.records import decode, encode
from ottla.broker.coordinator.transactions.state import TransactionalIdState
from ottla.wire.batch_header import LOG_OVERHEAD, unpack_prefix
from ottla.wire.records import decode_fetch
from tests.interop.transactions.producer import STATE_TOPIC, Links, TxnProducer

Stored = tuple[str, int, int, int, bool]
"""Status, epoch, the number of partitions, the version of the producer, and whether the transaction has a start."""


def stored(producer: TxnProducer, level: int) -> list[TransactionalIdState]:
    """The states of a producer's id, each read from bytes that the embedded cluster would have written."""
    links = producer.links
    partition = links.state_partition(producer.id)
    link = links.leader(STATE_TOPIC, partition)
    found: list[TransactionalIdState] = []
    position = 0
    while True:
        fetched = link.fetch(STATE_TOPIC, position, partition)
        data = bytes(fetched.records or b"")
        at = 0
        while at + LOG_OVERHEAD <= len(data) and at + LOG_OVERHEAD + unpack_prefix(data, at)[1] <= len(data):
            end = at + LOG_OVERHEAD + unpack_prefix(data, at)[1]
            records = decode_fetch(data[at:end], STATE_TOPIC, partition, offset=position)
            for record in records:
                assert record.key is not None
                decoded = decode(record.key, record.value)
                assert decoded is not None
                transactional_id, state = decoded
                if transactional_id == producer.id:
                    assert state is not None
                    again = encode(transactional_id, state, transaction_version=level)
                    assert (again.key, again.value) == (record.key, record.value), state
                    found.append(state)
            position = records.next_offset
            at = end
        if position >= fetched.high_watermark:
            return found


def shown(states: list[TransactionalIdState]) -> list[Stored]:
    for before, after in pairwise(states):
        assert after.updated_ms >= before.updated_ms
    return [
        (state.status.label, state.epoch, len(state.partitions), state.client_version, state.started_ms > 0)
        for state in states
    ]


def test_transactions_of_version_2(txn: Links) -> None:
    topic = txn.create_topic(2)
    producer = TxnProducer(txn).init()
    producer.send(topic)
    producer.send(topic, partition=1)
    producer.end(commit=True)
    assert producer.try_add(topic, 0) == "NONE"
    TxnProducer(txn, transactional_id=producer.id).init()
    states = stored(producer, level=2)
    assert shown(states) == [
        ("Empty", 0, 0, 0, False),
        ("Ongoing", 0, 1, 2, True),
        ("Ongoing", 0, 2, 2, True),
        ("PrepareCommit", 1, 2, 2, True),
        ("CompleteCommit", 1, 0, 2, True),
        ("Ongoing", 1, 1, 0, True),
        ("PrepareAbort", 2, 1, 2, True),
        ("CompleteAbort", 2, 0, 2, True),
        ("Empty", 3, 0, 2, False),
    ]
    ids = {(state.producer_id, state.previous_producer_id, state.next_producer_id) for state in states}
    assert ids == {(producer.producer_id, producer.producer_id, -1)}


def test_transactions_of_version_1(txn1: Links) -> None:
    topic = txn1.create_topic(1)
    producer = TxnProducer(txn1, level=1).init()
    for commit in (True, False):
        producer.add(topic, 0)
        producer.send(topic)
        producer.end(commit)
    producer.add(topic, 0)
    TxnProducer(txn1, level=1, transactional_id=producer.id).init()
    assert shown(stored(producer, level=1)) == [
        ("Empty", 0, 0, 0, False),
        ("Ongoing", 0, 1, 0, True),
        ("PrepareCommit", 0, 1, 0, True),
        ("CompleteCommit", 0, 0, 0, True),
        ("Ongoing", 0, 1, 0, True),
        ("PrepareAbort", 0, 1, 0, True),
        ("CompleteAbort", 0, 0, 0, True),
        ("Ongoing", 0, 1, 0, True),
        ("PrepareAbort", 1, 1, 0, True),
        ("CompleteAbort", 1, 0, 0, True),
        ("Empty", 2, 0, 0, False),
    ]
