"""Transactions begin, commit and abort: what coordinator and leader answer, and what is in the log afterwards.

The same batches stand in the log of either broker. Epochs: at TV1 a transaction ends at the epoch at which it was
written, at TV2 its markers have the next one.
"""

from __future__ import annotations

from ottla.wire.batches import batch_headers
from tests.interop.transactions.conftest import Unverified, delete_topic, producer_of, refuse_markers
from tests.interop.transactions.producer import STATE_TOPIC, Links, TxnProducer, patiently
from tests.interop.waiting import eventually


def test_the_first_init_is_one_record_of_the_coordinator(txn: Links) -> None:
    producer = TxnProducer(txn)
    assert producer.described().error_code == 105
    log = txn.log(STATE_TOPIC, txn.state_partition(producer.id))
    before = log.high_watermark
    producer.init()
    assert producer.epoch == 0
    assert (producer.state, producer.partitions()) == ("Empty", [])
    # Transactions that other tests have left open end whenever they are overdue.
    data = bytes(log.fetch(before).records or b"")
    mine = [
        header
        for header in batch_headers(data)
        if producer.id.encode() in data[header.position : header.position + header.size]
    ]
    assert len(mine) == 1


def test_tv1_commits_at_the_epoch_of_its_data_and_goes_on_with_its_sequences(txn1: Links) -> None:
    topic = txn1.create_topic()
    producer, log = producer_of(txn1, 1), txn1.log(topic)
    producer.send(topic)
    assert (log.stable_end, log.read_committed(), producer.state) == (0, [], "Ongoing")
    producer.end(commit=True)
    assert log.batches() == ["d@0 e0 s0", "C@3 e0"]
    eventually(lambda: log.stable_end == 4, "the marker to be replicated")
    assert log.read_committed() == [0, 1, 2]
    producer.send(topic)
    assert log.batches()[2:] == ["d@4 e0 s3"]
    producer.end(commit=False)


def test_tv2_commits_at_the_next_epoch_and_begins_its_sequences_anew(txn: Links) -> None:
    topic = txn.create_topic()
    producer, log = producer_of(txn), txn.log(topic)
    first = producer.producer_id
    producer.send(topic)
    assert (log.stable_end, producer.state) == (0, "Ongoing")
    producer.end(commit=True)
    assert (producer.producer_id, producer.epoch) == (first, 1)
    assert log.batches() == ["d@0 e0 s0", "C@3 e1"]
    eventually(lambda: log.stable_end == 4, "the marker to be replicated")
    assert log.read_committed() == [0, 1, 2]
    producer.send(topic)
    assert log.batches()[2:] == ["d@4 e1 s0"]
    producer.end(commit=False)


def test_tv2_while_markers_travel_everything_else_waits(txn: Links) -> None:
    held, free = txn.create_topic(), txn.create_topic()
    producer = producer_of(txn)
    refuse_markers(producer, held)
    producer.send(held)
    producer.send(free)
    assert producer.ask_end(True).error_code == 0
    eventually(lambda: txn.log(free).batches() == ["d@0 e0 s0", "C@3 e1"], "the other marker to be written")
    assert producer.state == "PrepareCommit"
    assert producer.try_end(True) == "CONCURRENT_TRANSACTIONS"
    assert producer.try_end(False) == "CONCURRENT_TRANSACTIONS"
    assert producer.try_init() == "CONCURRENT_TRANSACTIONS"
    assert producer.try_init(again=True) == "CONCURRENT_TRANSACTIONS"
    assert producer.try_add(free, epoch=1) == "CONCURRENT_TRANSACTIONS"
    assert producer.try_add_offsets("group", epoch=1) == "CONCURRENT_TRANSACTIONS"
    assert producer.try_send(free, epoch=1, sequence=0) == "CONCURRENT_TRANSACTIONS"
    assert producer.try_send(free, epoch=1, sequence=0, version=11) == "NOT_ENOUGH_REPLICAS"
    assert txn.log(free).batches() == ["d@0 e0 s0", "C@3 e1"]
    assert txn.log(held).stable_end == 1


def test_tv1_data_of_a_partition_that_was_not_added_is_refused(txn1: Links) -> None:
    topic = txn1.create_topic()
    producer = producer_of(txn1, 1)
    assert producer.try_send(topic, version=11) == "TRANSACTION_ABORTABLE"
    assert producer.try_send(topic, version=10) == "INVALID_TXN_STATE"
    assert txn1.log(topic).batches() == []


def test_tv2_a_commit_whose_answer_was_lost_is_asked_for_again(txn: Links) -> None:
    topic = txn.create_topic()
    producer = producer_of(txn)
    producer.send(topic)
    assert producer.ask_end(True).error_code == 0
    assert patiently(lambda: producer.try_end(True)) == "NONE"
    assert producer.epoch == 1
    assert txn.log(topic).batches() == ["d@0 e0 s0", "C@3 e1"]


def test_tv2_a_commit_that_comes_late_finds_the_next_transaction_and_is_fenced(txn: Links) -> None:
    topic = txn.create_topic()
    producer = producer_of(txn)
    producer.send(topic)
    producer.end(commit=True)
    producer.send(topic)
    assert producer.try_end(True, epoch=0) == "PRODUCER_FENCED"
    assert (producer.state, producer.known_epoch) == ("Ongoing", 1)
    producer.end(commit=False)
    assert txn.log(topic).batches() == ["d@0 e0 s0", "C@3 e1", "d@4 e1 s0", "A@7 e2"]


def test_tv2_whatever_comes_late_changes_nothing_in_the_next_transaction(txn: Links) -> None:
    """Of both: partitions that both have written to, and one that the first has not got to."""
    topic, untouched = txn.create_topic(), txn.create_topic()
    producer = producer_of(txn)
    group = f"group-of-{producer.id}"
    producer.send(topic)
    producer.end(commit=True)
    producer.send(topic)
    for version in (12, 11):
        for late, sequence in ((topic, 0), (topic, 3), (untouched, 0)):
            answer = producer.try_send(late, epoch=0, sequence=sequence, version=version)
            assert answer == "INVALID_PRODUCER_EPOCH", (late == topic, sequence, version)
    for version in (5, 4):
        answer = patiently(
            lambda version=version: producer.try_commit_offset(group, topic, 7, epoch=0, version=version)  # type: ignore[misc]
        )
        assert answer == "INVALID_PRODUCER_EPOCH", version
    assert producer.try_add(untouched, epoch=0) == "PRODUCER_FENCED"
    assert producer.try_add_offsets(group, epoch=0) == "PRODUCER_FENCED"
    for commit in (True, False):
        assert producer.try_end(commit, epoch=0) == "PRODUCER_FENCED"
    assert (producer.state, producer.known_epoch, producer.partitions()) == ("Ongoing", 1, [(topic, 0)])
    producer.end(commit=True)
    assert txn.log(topic).batches() == ["d@0 e0 s0", "C@3 e1", "d@4 e1 s0", "C@7 e2"]
    assert txn.log(untouched).batches() == []


def test_tv1_a_commit_that_comes_late_commits_the_next_transaction(txn1: Links) -> None:
    topic = txn1.create_topic()
    producer = producer_of(txn1, 1)
    producer.send(topic)
    producer.end(commit=True)
    producer.send(topic)
    assert producer.try_end(True, epoch=0) == "NONE"
    producer.wait_for("CompleteCommit")
    assert txn1.log(topic).batches() == ["d@0 e0 s0", "C@3 e0", "d@4 e0 s3", "C@7 e0"]


def test_tv2_data_of_the_last_epoch_is_refused_after_the_marker(txn: Links) -> None:
    topic = txn.create_topic()
    producer = producer_of(txn)
    producer.send(topic)
    producer.end(commit=True)
    for version in (12, 11):
        assert producer.try_send(topic, epoch=0, sequence=3, version=version) == "INVALID_PRODUCER_EPOCH"
    assert txn.log(topic).batches() == ["d@0 e0 s0", "C@3 e1"]


def test_tv1_data_after_the_marker_is_refused_unless_nothing_is_verified_and_hangs_then(
    txn1: Links, unverified: Unverified
) -> None:
    topic = txn1.create_topic()
    producer, log = producer_of(txn1, 1), txn1.log(topic)
    producer.send(topic)
    producer.end(commit=True)
    assert producer.try_send(topic) == "TRANSACTION_ABORTABLE"
    assert log.batches() == ["d@0 e0 s0", "C@3 e0"]
    unverified(txn1)
    eventually(lambda: producer.try_send(topic) == "NONE", "verification to be off")
    assert log.batches() == ["d@0 e0 s0", "C@3 e0", "d@4 e0 s3"]
    assert (log.stable_end, producer.state) == (4, "CompleteCommit")


def test_tv2_an_abort_of_nothing_bumps_the_epoch_and_writes_no_marker(txn: Links) -> None:
    producer = producer_of(txn)
    first = producer.producer_id
    assert producer.try_end(False) == "NONE"
    assert (producer.producer_id, producer.epoch) == (first, 1)
    producer.wait_for("CompleteAbort")
    assert patiently(lambda: producer.try_end(False)) == "NONE"
    assert producer.epoch == 2


def test_tv2_a_commit_of_nothing_is_refused(txn: Links) -> None:
    assert producer_of(txn).try_end(True) == "INVALID_TXN_STATE"


def test_tv1_any_end_of_nothing_is_refused(txn1: Links) -> None:
    older = producer_of(txn1, 1)
    assert older.try_end(True) == "INVALID_TXN_STATE"
    assert older.try_end(False) == "INVALID_TXN_STATE"


def test_tv1_the_same_end_again_is_fine_and_the_other_is_not(txn1: Links) -> None:
    topic = txn1.create_topic()
    producer = producer_of(txn1, 1)
    producer.send(topic)
    producer.end(commit=True)
    assert producer.try_end(True) == "NONE"
    assert producer.try_end(False) == "INVALID_TXN_STATE"


def test_tv2_the_other_end_of_a_transaction_that_has_ended_is_refused(txn: Links) -> None:
    topic = txn.create_topic()
    producer = producer_of(txn)
    producer.send(topic)
    producer.end(commit=True)
    answer = producer.ask_end(True, epoch=0)
    assert (answer.error_code, answer.producer_epoch) == (0, 1)
    assert producer.try_end(False, epoch=0) == "INVALID_TXN_STATE"
    assert producer.try_end(True) == "INVALID_TXN_STATE"


def test_a_deleted_topic_does_not_hold_up_the_commit(txn: Links) -> None:
    kept, deleted = txn.create_topic(), txn.create_topic()
    producer = producer_of(txn)
    producer.send(kept)
    producer.send(deleted)
    delete_topic(txn, deleted)
    producer.end(commit=True)
    assert txn.log(kept).batches() == ["d@0 e0 s0", "C@3 e1"]
