"""One topic by itself: what metadata does to its records, its partitions and its partitioner."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ottla.client.metadata import PartitionView, TopicView
from ottla.client.partitioners import LeaderLatency, as_partitioner
from ottla.client.produce.flushes import Flush
from ottla.client.produce.recbuf import RecBuf
from ottla.client.produce.topic import TopicParts, TopicProducer
from ottla.errors import TopicAuthorizationFailedError, UnknownTopicOrPartitionError
from ottla.runtime import Random
from ottla.wire import Uuid
from ottla.wire.records import Accumulator

ID, OTHER_ID = Uuid(b"1" * 16), Uuid(b"2" * 16)


class Outlet:
    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.removed: list[int] = []

    def add(self, recbuf: RecBuf) -> None: ...

    def remove(self, recbuf: RecBuf) -> None:
        self.removed.append(recbuf.partition)


class Rig:
    def __init__(self) -> None:
        self.accumulator = Accumulator(batch_size=1000, max_bytes=1 << 20)
        self.recbufs: dict[int, RecBuf] = {}
        self.outlets: dict[int, Outlet] = {}
        self.failed: list[tuple[int, BaseException]] = []
        self.topic = TopicProducer("orders", self.parts())

    def parts(self) -> TopicParts:
        return TopicParts(
            self.accumulator,
            LeaderLatency(0.0),
            lambda topic: as_partitioner("default").for_topic(topic, batch_size=1000, random=Random(1)),
            self.recbuf,
            lambda node_id: self.outlets.setdefault(node_id, Outlet(node_id)),
            lambda recbuf: None,
            lambda records, error: self.failed.append((records, error)),
        )

    def recbuf(self, topic: str, number: int) -> RecBuf:
        buffer = self.accumulator.buffer(topic, number)
        made = RecBuf(buffer, linger=0.0, max_in_flight=5, is_idempotent=True)
        return self.recbufs.setdefault(number, made)

    def leaders(self) -> list[int | None]:
        return [None if each.sink is None else each.sink.node_id for each in self.topic.recbufs]


def view(*leaders: int, error: int = 0, topic_id: Uuid = ID) -> TopicView:
    partitions = tuple(
        PartitionView(index, leader, 0, (1, 2), (1, 2), (), 0 if leader >= 0 else 5)
        for index, leader in enumerate(leaders)
    )
    return TopicView("orders", topic_id, False, error, partitions)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_held_records_go_to_their_partitions_as_soon_as_there_are_some(rig: Rig) -> None:
    receipt = rig.topic.held.append(None, b"v", None, 1)
    assert rig.topic.on_metadata(None) is None
    assert rig.topic.appender is None
    rig.topic.on_metadata(view(1, 2))
    assert receipt.partition == 1
    assert rig.leaders() == [1, 2]
    assert rig.topic.load.partitions == 2


def test_those_that_cannot_be_placed_are_counted(rig: Rig) -> None:
    for partition in (0, 5, 6):
        rig.topic.held.append(None, b"v", None, partition)
    rig.topic.on_metadata(view(1))
    ((records, error),) = rig.failed
    assert records == 2
    assert "no partition 5" in str(error)


def test_a_leader_that_moves_takes_the_partition_with_it_and_one_without_leader_waits(rig: Rig) -> None:
    rig.topic.on_metadata(view(1, 1, 2))
    before = rig.topic.load
    rig.topic.on_metadata(view(2, -1, 2))
    assert rig.leaders() == [2, None, 2]
    assert rig.outlets[1].removed == [0, 1]
    assert rig.outlets[2].removed == []
    assert (before.available, rig.topic.load.available) == ((0, 1, 2), (0, 2))


def test_partitioners_see_a_change_only_where_there_is_one(rig: Rig) -> None:
    rig.topic.on_metadata(view(1, 2))
    available = rig.topic.load.available
    rig.topic.on_metadata(view(2, 1))
    assert rig.topic.load.available is available
    rig.topic.on_metadata(view(2, 1, 1))
    assert rig.topic.load.available == (0, 1, 2)


def test_a_missing_topic_is_believed_after_a_few_answers_in_a_row(rig: Rig) -> None:
    def told(count: int) -> list[object]:
        return [rig.topic.on_metadata(view(error=3)) for _ in range(count)]

    assert told(4) == [None] * 4
    rig.topic.on_metadata(view(error=5))
    assert told(1) != [None], "leaders that are being chosen say nothing against it"
    rig.topic.on_metadata(view(1))
    assert told(4) == [None] * 4
    assert isinstance(told(1)[0], UnknownTopicOrPartitionError)


def test_a_refusal_is_believed_at_once(rig: Rig) -> None:
    assert isinstance(rig.topic.on_metadata(view(error=29)), TopicAuthorizationFailedError)


def test_an_answer_is_taken_once(rig: Rig) -> None:
    same = view(error=3)
    assert [rig.topic.on_metadata(same) for _ in range(20)] == [None] * 20


@contextmanager
def flushing() -> Iterator[Flush]:
    loop = asyncio.new_event_loop()
    made: list[Flush] = []

    async def make() -> None:
        made.append(Flush())

    loop.run_until_complete(make())
    yield made[0]
    loop.close()


def test_a_flush_follows_held_records_into_their_batches(rig: Rig) -> None:
    with flushing() as flush:
        rig.topic.held.append(None, b"v", None, 0)
        rig.topic.flush(flush)
        flush.complete()
        assert flush.left == 1
        rig.topic.on_metadata(view(1))
        assert not flush.done.done()
        (batch,) = rig.topic.recbufs[0].batches
        batch.complete(0, -1, None)
        assert flush.done.done()


def test_a_flush_does_not_wait_for_records_that_were_given_up(rig: Rig) -> None:
    with flushing() as flush:
        receipt = rig.topic.held.append(None, b"v")
        rig.topic.flush(flush)
        flush.complete()
        error = TimeoutError("too late")
        rig.topic.fail_held(error)
        assert flush.done.done()
        assert receipt.error is rig.topic.failure is error


def test_when_it_was_used_is_when_its_last_batch_was_opened(rig: Rig) -> None:
    rig.topic.asked_at = 5.0
    assert (rig.topic.used_at, rig.topic.is_busy) == (5.0, False)
    rig.topic.held.append(None, b"v", None, 0)
    assert rig.topic.is_busy
    rig.topic.on_metadata(view(1))
    recbuf = rig.topic.recbufs[0]
    recbuf.cut()
    assert rig.topic.used_at == recbuf.batches[0].opened_at > 5.0
