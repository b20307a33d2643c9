"""Who may use a transactional id: other producers, timeouts, epochs that run out, ids that are forgotten."""

from __future__ import annotations

from tests.interop.transactions.conftest import producer_of
from tests.interop.transactions.producer import Links, TxnProducer, patiently
from tests.interop.waiting import eventually

SOON_MS = 4000
"""When a transaction is to time out; long enough for its first records, on a busy machine."""


def test_tv2_another_producer_aborts_and_gets_the_epoch_after_the_next(txn: Links) -> None:
    topic = txn.create_topic()
    old = producer_of(txn)
    old.send(topic)
    new = TxnProducer(txn, transactional_id=old.id)
    assert new.try_init() == "CONCURRENT_TRANSACTIONS"
    new.init()
    assert (new.producer_id, new.epoch) == (old.producer_id, 2)
    assert txn.log(topic).batches() == ["d@0 e0 s0", "A@3 e1"]
    assert old.try_send(topic) == "INVALID_PRODUCER_EPOCH"
    assert old.try_end(True) == "PRODUCER_FENCED"
    assert old.try_end(False) == "PRODUCER_FENCED"


def test_tv1_another_producer_aborts_and_gets_the_epoch_after_the_next(txn1: Links) -> None:
    topic = txn1.create_topic()
    old = producer_of(txn1, 1)
    old.send(topic)
    new = TxnProducer(txn1, 1, old.id)
    assert new.try_init() == "CONCURRENT_TRANSACTIONS"
    new.init()
    assert (new.producer_id, new.epoch) == (old.producer_id, 2)
    assert txn1.log(topic).batches() == ["d@0 e0 s0", "A@3 e1"]
    assert old.try_send(topic) == "INVALID_PRODUCER_EPOCH"
    assert old.try_end(True) == "PRODUCER_FENCED"


def test_tv1_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(txn1: Links) -> None:
    topic = txn1.create_topic()
    producer = TxnProducer(txn1, 1).init(timeout_ms=SOON_MS)
    producer.send(topic)
    producer.wait_for("CompleteAbort")
    assert txn1.log(topic).batches() == ["d@0 e0 s0", "A@3 e1"]
    assert producer.try_send(topic) == "INVALID_PRODUCER_EPOCH"
    assert producer.try_end(False) == "PRODUCER_FENCED"
    assert producer.try_end(True) == "PRODUCER_FENCED"
    assert producer.try_init(again=True) == "PRODUCER_FENCED"


def test_tv2_a_transaction_that_takes_too_long_is_aborted_and_its_producer_may_go_on(txn: Links) -> None:
    topic = txn.create_topic()
    producer = TxnProducer(txn).init(timeout_ms=SOON_MS)
    producer.send(topic)
    producer.wait_for("CompleteAbort")
    assert txn.log(topic).batches() == ["d@0 e0 s0", "A@3 e1"]
    assert producer.try_end(True) == "INVALID_TXN_STATE"
    answer = producer.ask_end(False)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, producer.producer_id, 1)
    assert producer.try_init(again=True) == "NONE"
    assert producer.epoch == 1


def test_an_init_that_names_its_epoch_is_repeatable_until_a_stranger_comes(txn: Links) -> None:
    topic = txn.create_topic()
    producer = producer_of(txn)
    producer.send(topic)
    producer.end(commit=True)
    assert producer.epoch == 1
    first, second = (
        TxnProducer(txn, transactional_id=producer.id),
        TxnProducer(txn, transactional_id=producer.id),
    )
    for each in (first, second):
        each.producer_id, each.epoch = producer.producer_id, 1
        assert each.try_init(again=True) == "NONE"
        assert (each.producer_id, each.epoch) == (producer.producer_id, 2)
    stranger = TxnProducer(txn, transactional_id=producer.id).init()
    assert stranger.epoch == 3
    assert first.try_init(again=True) == "PRODUCER_FENCED"
    assert producer.try_init(again=True) == "PRODUCER_FENCED"


def test_a_forgotten_id_is_unknown_and_begins_anew(forgetful: Links) -> None:
    topic = forgetful.create_topic()
    producer = producer_of(forgetful)
    first = producer.producer_id
    eventually(lambda: producer.described().error_code == 105, "the id to be forgotten")
    assert producer.try_add(topic) == "INVALID_PRODUCER_ID_MAPPING"
    assert producer.try_end(True) == "INVALID_PRODUCER_ID_MAPPING"
    assert patiently(producer.try_init) == "NONE"
    assert (producer.producer_id > first, producer.epoch) == (True, 0)
