"""What the leader of a partition takes in transactions, and what it refuses: markers, epochs, sequences."""

from __future__ import annotations

import pytest

from ottla.wire.batches import batch_headers, encode_batch
from ottla.wire.messages import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    FetchResponse,
    ProduceRequest,
    ProduceResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.interop.transactions.conftest import producer_of, write_marker
from tests.interop.transactions.partition_log import fetch_request, fetched
from tests.interop.transactions.producer import Links, TxnProducer, name_of
from tests.interop.waiting import eventually

OFFSETS = "__consumer_offsets"


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_marker_without_data_has_the_epoch_of_the_last_one_or_a_later_one(txn: Links, level: int) -> None:
    topic = txn.create_topic()
    producer = producer_of(txn)
    answers = [
        write_marker(producer, topic, commit=True, epoch=epoch, level=level) for epoch in (0, 1, 0, 1, 3, 2)
    ]
    assert answers == ["NONE", "NONE", "INVALID_PRODUCER_EPOCH", "NONE", "NONE", "INVALID_PRODUCER_EPOCH"]
    assert txn.log(topic).batches() == ["C@0 e0", "C@1 e1", "C@2 e1", "C@3 e3"]


def test_a_marker_of_level_2_ends_open_data_with_a_later_epoch_only(txn: Links) -> None:
    topic = txn.create_topic()
    producer = producer_of(txn)
    producer.send(topic)
    assert write_marker(producer, topic, commit=False, epoch=0, level=2) == "INVALID_PRODUCER_EPOCH"
    assert write_marker(producer, topic, commit=False, epoch=1, level=2) == "NONE"
    assert write_marker(producer, topic, commit=False, epoch=1, level=2) == "NONE", "it was sent again"
    log = txn.log(topic)
    assert log.batches() == ["d@0 e0 s0", "A@3 e1", "A@4 e1"]
    eventually(lambda: log.stable_end == 5, "the markers to be replicated")
    assert log.aborted() == [(producer.producer_id, 0)]


def test_the_last_epoch_has_no_later_one(txn: Links) -> None:
    topic = txn.create_topic()
    producer = producer_of(txn)
    for _ in range(2):
        assert write_marker(producer, topic, commit=True, epoch=32767, level=2) == "NONE"


def test_a_marker_of_no_producer_is_refused(txn: Links) -> None:
    topic = txn.create_topic()
    producer = producer_of(txn)
    assert write_marker(producer, topic, commit=True, epoch=-1) == "UNKNOWN_SERVER_ERROR"
    assert txn.log(topic).batches() == []


def test_markers_of_several_producers_are_answered_for_each(txn: Links) -> None:
    topic = txn.create_topic()
    producers = [producer_of(txn) for _ in range(2)]
    request = WriteTxnMarkersRequest(
        markers=[
            WriteTxnMarkersRequest.WritableTxnMarker(
                producer_id=each.producer_id,
                producer_epoch=0,
                transaction_result=True,
                topics=[WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=topic, partition_indexes=[0, 9])],
            )
            for each in producers
        ]
    )
    answer = txn.leader(topic).get(request, 2, WriteTxnMarkersResponse)
    found = {
        marker.producer_id: {
            part.partition_index: name_of(part.error_code) for part in marker.topics[0].partitions
        }
        for marker in answer.markers
    }
    expected = {0: "NONE", 9: "UNKNOWN_TOPIC_OR_PARTITION"}
    assert found == {each.producer_id: expected for each in producers}


def test_the_sequences_of_a_transaction_of_level_2_begin_with_0(txn: Links) -> None:
    topic = txn.create_topic()
    producer = producer_of(txn)
    assert producer.try_send(topic, sequence=3) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert producer.try_send(topic, sequence=0) == "NONE"
    assert producer.try_send(topic, sequence=0) == "NONE", "it was sent again"
    assert producer.try_send(topic, sequence=7) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    producer.end(commit=True)
    log = txn.log(topic)
    eventually(lambda: log.stable_end == 4, "the marker to be replicated")
    assert producer.try_send(topic, epoch=0, sequence=0) == "INVALID_PRODUCER_EPOCH"
    eventually(
        lambda: producer.try_send(topic, sequence=3) == "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "the coordinator to have ended the transaction",
    )
    assert producer.try_send(topic, sequence=0) == "NONE"
    assert log.batches() == ["d@0 e0 s0", "C@3 e1", "d@4 e1 s0"]


def test_a_repetition_after_the_marker_holds_up_the_next_transaction_of_level_1(txn1: Links) -> None:
    """The leader asks for it anew, and takes nothing behind the lowest sequence that it has asked for."""
    topic = txn1.create_topic()
    producer = producer_of(txn1, 1)
    producer.send(topic)
    producer.end(commit=True)
    log = txn1.log(topic)
    eventually(lambda: log.stable_end == 4, "the marker to be replicated")
    assert producer.try_send(topic, sequence=0) == "TRANSACTION_ABORTABLE"
    producer.add(topic)
    assert producer.try_send(topic, sequence=3) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_plain_data_does_not_go_into_an_open_transaction(txn: Links) -> None:
    topic = txn.create_topic()
    producer = producer_of(txn)
    producer.send(topic)
    assert producer.try_send(topic, transactional=False) == "INVALID_TXN_STATE"


def test_the_data_of_a_request_has_one_producer(txn: Links) -> None:
    topic = txn.create_topic(2)
    producers = [producer_of(txn) for _ in range(2)]
    parts = [
        ProduceRequest.PartitionProduceData(
            index=index,
            records=encode_batch(
                [(0, 1, None, b"", [])],
                transactional=True,
                producer_id=each.producer_id,
                producer_epoch=0,
                base_sequence=0,
            ),
        )
        for index, each in enumerate(producers)
    ]
    request = ProduceRequest(
        transactional_id=producers[0].id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=parts)],
    )
    answer = txn.leader(topic).get(request, 12, ProduceResponse)
    found = [
        (name_of(part.error_code), part.error_message) for part in answer.responses[0].partition_responses
    ]
    why = "Transactional records contained more than one producer ID"
    assert found == [("INVALID_PRODUCER_ID_MAPPING", why)] * 2


def test_a_small_fetch_is_told_of_aborted_transactions_behind_its_bytes(txn: Links) -> None:
    topic = txn.create_topic()
    producer, log = producer_of(txn), txn.log(topic)
    assert write_marker(producer, topic, commit=True, epoch=0) == "NONE"
    producer.send(topic)
    producer.end(commit=False)
    eventually(lambda: log.stable_end == 5, "the marker to be replicated")
    request = fetch_request(topic, committed=True)
    request.topics[0].partitions[0].partition_max_bytes = 1
    found = fetched(txn.leader(topic).get(request, 12, FetchResponse))
    assert [header.base_offset for header in batch_headers(bytes(found.records or b""))] == [0]
    assert [each.first_offset for each in found.aborted_transactions or ()] == [1]


def test_every_replica_knows_the_producers_of_its_partition(txn3: Links) -> None:
    topic = txn3.create_topic()
    producer = producer_of(txn3)
    producer.send(topic)
    wanted = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[0])

    def knows(node: int) -> bool:
        link = txn3.to(txn3.broker.address(node))
        answer = link.get(DescribeProducersRequest(topics=[wanted]), 0, DescribeProducersResponse)
        (part,) = answer.topics[0].partitions
        assert part.error_code == 0
        return [
            (each.producer_id, each.producer_epoch, each.last_sequence, each.current_txn_start_offset)
            for each in part.active_producers
        ] == [(producer.producer_id, 0, 2, 0)]

    for node in txn3.broker.node_ids:
        eventually(lambda node=node: knows(node), f"node {node} to know the producer")  # type: ignore[misc]
    producer.end(commit=False)


def test_offsets_in_a_transaction_are_batches_with_sequence_0(txn: Links) -> None:
    topic = txn.create_topic()
    producer = producer_of(txn)
    group = f"group-of-{producer.id}"
    for offset in (1, 2):
        producer.commit_offset(group, topic, offset)
    assert lines_of(txn, producer) == ["e0 s0", "e0 s0"]
    producer.end(commit=True)


def lines_of(txn: Links, producer: TxnProducer) -> list[str]:
    """Epoch and sequence of each batch that the producer has written to the topic of offsets."""
    found: list[str] = []
    for partition in range(3):
        data = bytes(txn.log(OFFSETS, partition).fetch().records or b"")
        found += [
            f"e{header.producer_epoch} s{header.base_sequence}"
            for header in batch_headers(data)
            if header.producer_id == producer.producer_id and not header.is_control
        ]
    return found
