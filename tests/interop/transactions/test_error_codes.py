"""Which code comes for which mistake, request by request: what a client has to tell apart (KIP-1050).

The names of the tests say where a transaction can still be saved: by another try, by an abort, or not at all.
"""

from __future__ import annotations

import pytest

from ottla.wire.messages import FindCoordinatorRequest, FindCoordinatorResponse
from tests.interop.transactions.conftest import producer_of, write_marker
from tests.interop.transactions.producer import Links, TxnProducer

MAX_TIMEOUT_MS = 900_000


def test_init_refuses_what_no_producer_may_ask_for(txn: Links) -> None:
    producer = TxnProducer(txn)
    assert producer.try_init(timeout_ms=0) == "INVALID_TRANSACTION_TIMEOUT"
    assert producer.try_init(timeout_ms=MAX_TIMEOUT_MS + 1) == "INVALID_TRANSACTION_TIMEOUT"
    producer.producer_id = 5
    assert producer.try_init(again=True) == "INVALID_REQUEST", "an id without an epoch"
    producer.producer_id, producer.epoch = -1, 5
    assert producer.try_init(again=True) == "INVALID_REQUEST", "an epoch without an id"
    producer.producer_id, producer.epoch = -1, -1
    assert producer.init().epoch == 0


def test_a_producer_id_that_is_not_the_ids_own_is_fatal(txn: Links) -> None:
    topic = txn.create_topic()
    producer = producer_of(txn)
    producer.producer_id += 1_000_000
    assert producer.try_add(topic) == "INVALID_PRODUCER_ID_MAPPING"
    assert producer.try_add_offsets("group") == "INVALID_PRODUCER_ID_MAPPING"
    assert producer.try_end(True) == "INVALID_PRODUCER_ID_MAPPING"
    assert producer.try_end(True, version=4) == "INVALID_PRODUCER_ID_MAPPING"
    assert producer.try_send(topic) == "INVALID_PRODUCER_ID_MAPPING"
    assert producer.try_init(again=True) == "PRODUCER_FENCED"


def test_an_older_epoch_is_fatal_at_the_coordinator_and_abortable_at_the_leader(txn: Links) -> None:
    topic = txn.create_topic()
    old = producer_of(txn)
    old.send(topic)
    old.end(commit=True)
    new = TxnProducer(txn, transactional_id=old.id).init()
    assert (old.epoch, new.epoch) == (1, 2)
    assert old.try_add(topic) == "PRODUCER_FENCED"
    assert old.try_add(topic, version=1) == "INVALID_PRODUCER_EPOCH"
    assert old.try_end(True) == "PRODUCER_FENCED"
    assert old.try_end(True, version=4) == "PRODUCER_FENCED"
    assert old.try_end(True, version=1) == "INVALID_PRODUCER_EPOCH"
    assert old.try_init(again=True, version=3) == "INVALID_PRODUCER_EPOCH"
    assert old.try_init(again=True) == "PRODUCER_FENCED"
    assert old.try_send(topic) == "INVALID_PRODUCER_EPOCH"


def test_one_bad_partition_fails_all(txn: Links) -> None:
    topic = txn.create_topic()
    producer = producer_of(txn)
    answers = producer.add_each({topic: [0], "no-such-topic": [0]})
    assert sorted(answers) == ["OPERATION_NOT_ATTEMPTED", "UNKNOWN_TOPIC_OR_PARTITION"]
    assert producer.state == "Empty"


def test_sequences_that_do_not_follow_can_be_sent_again_in_order(txn: Links) -> None:
    topic = txn.create_topic()
    producer, log = producer_of(txn), txn.log(topic)
    assert producer.try_send(topic, sequence=5) == "OUT_OF_ORDER_SEQUENCE_NUMBER", "the first is 0"
    producer.send(topic)
    assert producer.try_send(topic, sequence=4) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert producer.try_send(topic, sequence=0) == "NONE", "a duplicate"
    assert log.batches() == ["d@0 e0 s0"]
    producer.end(commit=True)


def test_plain_records_of_a_producer_with_an_open_transaction_are_refused(txn: Links) -> None:
    topic = txn.create_topic()
    producer = producer_of(txn)
    producer.send(topic)
    assert producer.try_send(topic, transactional=False) == "INVALID_TXN_STATE"
    producer.end(commit=True)


def test_a_request_to_another_than_the_coordinator_looks_it_up_again(txn3: Links) -> None:
    topic = txn3.create_topic()
    producer = producer_of(txn3)
    found = txn3.any().get(
        FindCoordinatorRequest(key_type=1, coordinator_keys=[producer.id]), 4, FindCoordinatorResponse
    )
    others = [node for node in txn3.broker.node_ids if node != found.coordinators[0].node_id]
    producer.coordinator = txn3.to(txn3.broker.address(others[0]))
    assert producer.try_init() == "NOT_COORDINATOR"
    assert producer.try_add(topic) == "NOT_COORDINATOR"
    assert producer.try_add("no-such-topic") == "UNKNOWN_TOPIC_OR_PARTITION", "which is looked at first"
    assert producer.try_add_offsets("group") == "NOT_COORDINATOR"
    assert producer.try_end(True) == "NOT_COORDINATOR"


@pytest.mark.parametrize("transactional_id", ["", None], ids=["empty", "none"])
def test_an_empty_id_is_no_id(txn: Links, transactional_id: str | None) -> None:
    producer = TxnProducer(txn)
    producer.id = transactional_id  # type: ignore[assignment]
    expected = "INVALID_REQUEST" if transactional_id == "" else "NONE"
    assert producer.try_init() == expected


def test_markers_need_an_epoch_and_a_coordinator_that_are_not_older(txn: Links) -> None:
    topic = txn.create_topic()
    producer, log = producer_of(txn), txn.log(topic)
    producer.send(topic)
    producer.end(commit=True)
    before = log.batches()
    assert write_marker(producer, topic, commit=False, epoch=0) == "INVALID_PRODUCER_EPOCH"
    assert log.batches() == before
    producer.send(topic)
    assert write_marker(producer, topic, commit=False, level=2) == "INVALID_PRODUCER_EPOCH", (
        "open at this epoch"
    )
    assert write_marker(producer, topic, commit=True, epoch=2, level=2, coordinator_epoch=1) == "NONE"
    assert write_marker(producer, topic, commit=False, epoch=2, level=2) == "TRANSACTION_COORDINATOR_FENCED"
    assert write_marker(producer, topic, commit=True, epoch=2, level=2, coordinator_epoch=1) == "NONE", (
        "a retry"
    )
    assert log.batches() == [*before, "d@4 e1 s0", "C@7 e2", "C@8 e2"]
