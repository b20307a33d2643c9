"""Coordinators and leaders that move while a transaction is open, or ending; epochs that run out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.wire.messages import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    EndTxnResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.interop.transactions.conftest import producer_of, write_marker
from tests.interop.transactions.producer import STATE_TOPIC, Links, TxnProducer, name_of, patiently
from tests.interop.transactions.state_log import begin_at, move_coordinator
from tests.interop.waiting import eventually

LAST_EPOCH = 32_766
"""Of data; only markers have 32767."""
LEADER_ASKS_FOR_S = 0.08
"""A leader asks the coordinator again every 20 ms, up to 100 ms, before it says CONCURRENT_TRANSACTIONS."""
FEW_TRIES = 5


@contextmanager
def one_node_down(links: Links, producer: TxnProducer, *topics: str) -> Iterator[None]:
    """A node is gone that neither leads these topics nor coordinates the producer."""
    broker = links.broker
    busy = [broker.leader(topic) for topic in topics]
    busy.append(broker.leader(STATE_TOPIC, links.state_partition(producer.id)))
    down = next(node for node in broker.node_ids if node not in busy)
    broker.stop_node(down)
    # Leaders are to know that they have lost a replica.
    broker.wait_until_fenced(down)
    links.forget()
    producer.reconnect()
    try:
        yield
    finally:
        broker.start_node(down)
        links.forget()


def create_held_and_free(links: Links) -> tuple[str, str]:
    """Two topics with one leader; while a node is down, no marker is written to the first."""
    # All three replicas have to have what is written to it.
    held = links.create_topic(config={"min.insync.replicas": "3"})
    free = links.create_topic()
    leader = links.broker.leader(held)
    if links.broker.leader(free) != leader:
        links.broker.move_leader(free, 0, leader)
    return held, free


def test_tv2_a_commit_whose_answer_was_lost_is_answered_again_when_its_markers_are_written(
    txn3: Links,
) -> None:
    held, free = create_held_and_free(txn3)
    producer = producer_of(txn3)
    first = producer.producer_id
    producer.send(held)
    with one_node_down(txn3, producer, held, free):
        assert producer.ask_end(True).error_code == 0
        assert producer.try_end(True) == "CONCURRENT_TRANSACTIONS"
        assert producer.try_end(True) == "CONCURRENT_TRANSACTIONS", "however often"
        began = time.monotonic()
        assert producer.try_send(free, epoch=1, sequence=0) == "CONCURRENT_TRANSACTIONS"
        assert time.monotonic() - began >= LEADER_ASKS_FOR_S
        assert producer.state == "PrepareCommit"
        assert (txn3.log(held).batches(), txn3.log(free).batches()) == (["d@0 e0 s0"], [])
    producer.reconnect()
    assert patiently(lambda: producer.try_end(True)) == "NONE"
    assert (producer.producer_id, producer.epoch) == (first, 1)
    producer.wait_for("CompleteCommit")
    assert txn3.log(held).batches() == ["d@0 e0 s0", "C@3 e1"]
    producer.send(free)
    assert (producer.state, producer.known_epoch) == ("Ongoing", 1)
    producer.end(commit=False)
    assert txn3.log(free).batches() == ["d@0 e1 s0", "A@3 e2"]


def test_a_coordinator_that_takes_over_writes_all_markers_again_with_a_higher_epoch(txn3: Links) -> None:
    held, free = create_held_and_free(txn3)
    producer = producer_of(txn3)
    producer.send(held)
    producer.send(free)
    first = producer.epoch
    with one_node_down(txn3, producer, held, free):
        assert producer.ask_end(True).error_code == 0
        eventually(lambda: txn3.log(free).batches() == ["d@0 e0 s0", "C@3 e1"], "the first marker")
        assert producer.state == "PrepareCommit"
        assert txn3.log(held).batches() == ["d@0 e0 s0"]
        (old_epoch,) = txn3.log(free).coordinator_epochs()
        move_coordinator(producer)
        assert producer.try_end(True) == "CONCURRENT_TRANSACTIONS"
        eventually(lambda: len(txn3.log(free).batches()) == 3, "the marker to be written again")
    producer.reconnect()
    assert patiently(lambda: producer.try_end(True)) == "NONE"
    assert producer.epoch == first + 1
    producer.wait_for("CompleteCommit")
    assert txn3.log(held).batches() == ["d@0 e0 s0", "C@3 e1"]
    log = txn3.log(free)
    assert log.batches() == ["d@0 e0 s0", "C@3 e1", "C@4 e1"]
    assert log.read_committed() == [0, 1, 2]
    epochs = log.coordinator_epochs()
    assert epochs[0] == old_epoch
    assert epochs[1] > old_epoch
    late = write_marker(producer, free, commit=True, coordinator_epoch=old_epoch, level=2)
    assert late == "TRANSACTION_COORDINATOR_FENCED"


def test_an_open_transaction_goes_on_under_another_leader_and_another_coordinator(txn3: Links) -> None:
    topic = txn3.create_topic()
    producer = producer_of(txn3)
    producer.send(topic)
    old = txn3.broker.leader(topic)
    txn3.broker.wait_until_in_sync(topic, 1)
    txn3.broker.move_leader(topic, 0, next(node for node in txn3.broker.node_ids if node != old))
    assert txn3.log(topic).stable_end == 0
    producer.send(topic)
    move_coordinator(producer)
    assert (producer.state, producer.partitions()) == ("Ongoing", [(topic, 0)])
    producer.send(topic)
    producer.end(commit=True)
    assert txn3.log(topic).batches() == ["d@0 e0 s0", "d@3 e0 s3", "d@6 e0 s6", "C@9 e1"]


def test_a_marker_ends_a_transaction_when_it_is_replicated(txn3: Links) -> None:
    # A follower that is held stays in sync for as long as its session: where it was dropped before the marker was
    # looked at, nothing is shown, and it is tried again.
    assert any(look_at_a_marker_that_one_replica_lacks(txn3) == (3, 0) for _ in range(FEW_TRIES))


def look_at_a_marker_that_one_replica_lacks(links: Links) -> tuple[int, int]:
    """High watermark and last stable offset, right behind the append of the marker."""
    topic = links.create_topic(config={"min.insync.replicas": "1"})
    producer = producer_of(links)
    producer.send(topic)
    leader = links.broker.leader(topic)
    log = links.log(topic)
    eventually(lambda: log.high_watermark == 3, "the records to be replicated")
    follower = next(node for node in links.broker.node_ids if node != leader)
    writer = links.new(links.broker.address(leader))
    request = WriteTxnMarkersRequest
    marker = request.WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_result=True,
        topics=[request.WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
    )
    wanted = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[0])

    def is_ended() -> bool:
        answer = links.leader(topic).get(
            DescribeProducersRequest(topics=[wanted]), 0, DescribeProducersResponse
        )
        (state,) = answer.topics[0].partitions[0].active_producers
        return state.current_txn_start_offset == -1

    links.broker.pause_node(follower)
    try:
        writer.send(request(markers=[marker]), 1)
        eventually(is_ended, "the marker to be appended", every=0.02)
        found = log.fetch(committed=True)
    finally:
        links.broker.resume_node(follower)
    seen = found.high_watermark, found.last_stable_offset
    assert seen in ((3, 0), (4, 4))
    assert bool(found.records) is (seen == (4, 4))
    assert writer.receive_as(WriteTxnMarkersResponse).markers[0].topics[0].partitions[0].error_code == 0
    eventually(lambda: (log.high_watermark, log.stable_end) == (4, 4), "the marker to be replicated")
    assert log.read_committed() == [0, 1, 2]
    # Where it was fenced, it comes back in its own time.
    links.broker.wait_until_in_sync(topic, 1)
    return seen


def test_tv2_the_last_epoch_ends_with_a_marker_of_its_own_and_a_new_producer_id(txn3: Links) -> None:
    topic = txn3.create_topic()
    producer = producer_of(txn3)
    begin_at(producer, LAST_EPOCH)
    old = producer.producer_id
    producer.send(topic)
    answers: list[EndTxnResponse] = []

    def end() -> str:
        answers.append(producer.ask_end(True))
        return name_of(answers[-1].error_code)

    # A coordinator that has no producer ids left says that it is loading, and fetches some meanwhile.
    assert patiently(end) == "NONE"
    first = answers[-1]
    assert first.producer_epoch == 0
    assert first.producer_id != old
    producer.wait_for("CompleteCommit")
    assert txn3.log(topic).batches() == [f"d@0 e{LAST_EPOCH} s0", f"C@3 e{LAST_EPOCH + 1}"]
    again = producer.ask_end(True)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (0, first.producer_id, 0)
    assert producer.try_end(True) == "NONE"
    producer.send(topic)
    producer.end(commit=True)
    assert txn3.log(topic).batches()[2:] == ["d@4 e0 s0", "C@7 e1"]


def test_an_init_at_the_last_epoch_gets_a_new_producer_id(txn3: Links) -> None:
    producer = producer_of(txn3)
    begin_at(producer, LAST_EPOCH)
    old = producer.producer_id
    producer.init()
    assert producer.producer_id != old
    assert producer.epoch == 0
