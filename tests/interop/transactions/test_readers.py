"""What readers see of transactions: the end of what is stable, what is aborted, and how long a fetch waits."""

from __future__ import annotations

from ottla.wire.messages import FetchResponse
from tests.interop.transactions.conftest import producer_of
from tests.interop.transactions.partition_log import fetch_request, fetched
from tests.interop.transactions.producer import Links
from tests.interop.waiting import eventually


def test_aborted_records_are_sent_and_named(txn: Links) -> None:
    topic = txn.create_topic()
    producer, log = producer_of(txn), txn.log(topic)
    producer.send(topic)
    producer.end(commit=False)
    assert log.batches() == ["d@0 e0 s0", "A@3 e1"]
    eventually(lambda: log.stable_end == 4, "the marker to be replicated")
    assert log.aborted() == [(producer.producer_id, 0)]
    assert log.aborted(offset=3) == [(producer.producer_id, 0)], "of transactions that end here or later"
    assert log.aborted(offset=4) == []
    assert log.read_committed() == []
    assert log.fetch().aborted_transactions is None, "who reads everything is told nothing"


def test_two_transactions_that_overlap_end_one_after_the_other(txn: Links) -> None:
    topic = txn.create_topic()
    p, q, log = producer_of(txn), producer_of(txn), txn.log(topic)
    p.send(topic, 1)
    assert log.stable_end == 0
    q.send(topic, 1)
    assert log.stable_end == 0
    p.end(commit=True)
    eventually(lambda: log.stable_end == 1, "the first to end")
    assert log.read_committed() == [0]
    q.end(commit=False)
    eventually(lambda: log.stable_end == 4, "the second to end")
    assert log.batches() == ["d@0 e0 s0", "d@1 e0 s0", "C@2 e1", "A@3 e1"]
    assert (log.read_committed(), log.aborted()) == ([0], [(q.producer_id, 1)])


def test_open_records_do_not_count_for_a_reader_of_commits_that_waits_for_bytes(txn: Links) -> None:
    topic = txn.create_topic()
    producer = producer_of(txn)
    producer.send(topic, 5, size=1000)
    leader = txn.broker.address(txn.broker.leader(topic))
    waiting, all_records = txn.new(leader), txn.new(leader)
    waiting.send(fetch_request(topic, committed=True, wait_ms=30_000, min_bytes=1000), 12)
    everything = all_records.get(fetch_request(topic, wait_ms=30_000, min_bytes=1000), 12, FetchResponse)
    assert len(fetched(everything).records or b"") > 5000
    assert not waiting.has_answer()
    producer.end(commit=True)
    found = fetched(waiting.receive_as(FetchResponse))
    assert found.last_stable_offset == 6
    assert len(found.records or b"") > 5000


def test_a_marker_without_records_moves_the_end_and_aborts_nothing(txn: Links) -> None:
    topic = txn.create_topic()
    producer, log = producer_of(txn), txn.log(topic)
    producer.add(topic)
    assert log.batches() == []
    producer.end(commit=False)
    assert log.batches() == ["A@0 e1"]
    eventually(lambda: log.stable_end == 1, "the marker to be replicated")
    assert (log.aborted(), log.read_committed()) == ([], [])
