"""Coordinators and leaders that move while a transaction is open, or ending; epochs that run out."""

from __future__ import annotations

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


@contextmanager
def one_node_down(links: Links, producer: TxnProducer, *topics: str) -> Iterator[None]:
    """A node is gone that neither leads these topics nor coordinates the producer."""
    broker = links.broker
    busy = [broker.leader(topic) for topic in topics]
    busy.append(broker.leader(STATE_TOPIC, links.state_partition(producer.id)))
    down = next(node for node in broker.node_ids if node not in busy)
    broker.stop_node(down)
    links.forget()
    producer.reconnect()
    try:
        yield
    finally:
        broker.start_node(down)
        links.forget()


def test_a_coordinator_that_takes_over_writes_all_markers_again_with_a_higher_epoch(txn3: Links) -> None:
    # All three replicas have to have the marker: with one node down, none is written to this topic.
    held = txn3.create_topic(config={"min.insync.replicas": "3"})
    free = txn3.create_topic()
    producer = producer_of(txn3)
    leader = txn3.broker.leader(held)
    if txn3.broker.leader(free) != leader:
        txn3.broker.move_leader(free, 0, leader)
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
    topic = txn3.create_topic(config={"min.insync.replicas": "1"})
    producer = producer_of(txn3)
    producer.send(topic)
    leader = txn3.broker.leader(topic)
    log = txn3.log(topic)
    eventually(lambda: log.high_watermark == 3, "the records to be replicated")
    follower = next(node for node in txn3.broker.node_ids if node != leader)
    writer = txn3.new(txn3.broker.address(leader))
    request = WriteTxnMarkersRequest
    marker = request.WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_result=True,
        topics=[request.WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
    )
    wanted = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[0])

    def is_ended() -> bool:
        answer = txn3.leader(topic).get(
            DescribeProducersRequest(topics=[wanted]), 0, DescribeProducersResponse
        )
        (state,) = answer.topics[0].partitions[0].active_producers
        return state.current_txn_start_offset == -1

    txn3.broker.pause_node(follower)
    try:
        writer.send(request(markers=[marker]), 1)
        eventually(is_ended, "the marker to be appended", every=0.02)
        found = log.fetch()
        # Nothing holds the follower in sync for long: it may have been dropped by now, and the marker counts.
        assert (found.high_watermark, found.last_stable_offset) in ((3, 0), (4, 4))
    finally:
        txn3.broker.resume_node(follower)
    assert writer.receive_as(WriteTxnMarkersResponse).markers[0].topics[0].partitions[0].error_code == 0
    eventually(lambda: (log.high_watermark, log.stable_end) == (4, 4), "the marker to be replicated")


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
