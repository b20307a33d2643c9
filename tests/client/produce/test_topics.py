"""One topic by itself: what metadata does to its records, its partitions and its partitioner."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ottla.client.metadata import PartitionView, TopicView
from ottla.client.partitioners import LeaderLatency, as_partitioner
from ottla.client.produce.completions import Flush
from ottla.client.produce.settings import ProduceSettings
from ottla.client.produce.topics import TopicProducer, TopicUpdate
from ottla.config import ClientConfig
from ottla.errors import TopicAuthorizationFailedError, UnknownTopicOrPartitionError
from ottla.runtime import Random
from ottla.wire import Uuid
from ottla.wire.records import Accumulator

ID, OTHER_ID = Uuid(b"1" * 16), Uuid(b"2" * 16)


class Rig:
    def __init__(self) -> None:
        config = ClientConfig(bootstrap_servers="127.0.0.1:9092")
        self.accumulator = Accumulator(batch_size=1000, max_bytes=1 << 20)
        self.topic = TopicProducer(
            "orders",
            as_partitioner("default").for_topic("orders", batch_size=1000, random=Random(1)),
            self.accumulator,
            ProduceSettings.of(config, Random(1)),
            LeaderLatency(0.0),
        )

        self.failed: tuple[int, BaseException | None] = (0, None)

    def update(self, view: TopicView) -> TopicUpdate:
        update = self.topic.on_metadata(view)
        assert update is not None
        if update.becomes_known:
            self.failed = self.topic.release()
        return update

    def leaders(self) -> list[int | None]:
        return [each.leader for each in self.topic.recbufs]


def view(*leaders: int, error: int = 0, topic_id: Uuid = ID) -> TopicView:
    partitions = tuple(
        PartitionView(index, leader, 0, (1, 2), (1, 2), (), 0 if leader >= 0 else 5)
        for index, leader in enumerate(leaders)
    )
    return TopicView("orders", topic_id, False, error, partitions)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_records_of_an_unknown_topic_go_to_their_partitions_as_soon_as_there_are_some(rig: Rig) -> None:
    receipt = rig.topic.unknown.append(None, b"v", None, 1)
    assert rig.topic.on_metadata(None) is None
    assert rig.topic.appender is None
    rig.update(view(1, 2))
    assert receipt.partition == 1
    assert rig.leaders() == [1, 2]
    assert rig.topic.load.partitions == 2


def test_those_that_name_a_partition_that_is_not_there_are_counted(rig: Rig) -> None:
    for partition in (0, 5, 6):
        rig.topic.unknown.append(None, b"v", None, partition)
    rig.update(view(1))
    failed, error = rig.failed
    assert failed == 2
    assert "no partition 5" in str(error)


def test_a_leader_that_moves_takes_the_partition_with_it_and_one_without_leader_waits(rig: Rig) -> None:
    rig.update(view(1, 1, 2))
    before = rig.topic.load
    update = rig.update(view(2, -1, 2))
    assert rig.leaders() == [2, None, 2]
    assert [(recbuf.partition, leader) for recbuf, leader in update.moved] == [(0, 1), (1, 1)]
    assert (before.available, rig.topic.load.available) == ((0, 1, 2), (0, 2))


def test_partitioners_see_a_change_only_where_there_is_one(rig: Rig) -> None:
    rig.update(view(1, 2))
    available = rig.topic.load.available
    rig.update(view(2, 1))
    assert rig.topic.load.available is available
    rig.update(view(2, 1, 1))
    assert rig.topic.load.available == (0, 1, 2)


def test_a_missing_topic_is_believed_after_a_few_responses_in_a_row(rig: Rig) -> None:
    def errors(count: int) -> list[object]:
        return [rig.update(view(error=3)).error for _ in range(count)]

    assert errors(4) == [None] * 4
    rig.update(view(error=5))
    assert errors(1) != [None], "leaders that are being chosen say nothing against it"
    rig.update(view(1))
    assert errors(4) == [None] * 4
    assert isinstance(errors(1)[0], UnknownTopicOrPartitionError)


def test_a_refusal_is_believed_at_once(rig: Rig) -> None:
    assert isinstance(rig.update(view(error=29)).error, TopicAuthorizationFailedError)


def test_a_response_is_taken_once(rig: Rig) -> None:
    same = view(error=3)
    assert rig.update(same).error is None
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


def test_a_flush_follows_the_records_of_an_unknown_topic_into_their_batches(rig: Rig) -> None:
    with flushing() as flush:
        rig.topic.unknown.append(None, b"v", None, 0)
        rig.topic.flush(flush)
        flush.complete()
        assert flush.left == 1
        rig.update(view(1))
        assert not flush.done.done()
        (batch,) = rig.topic.recbufs[0].batches
        batch.complete(0, -1, None)
        assert flush.done.done()


def test_a_flush_does_not_wait_for_records_that_were_given_up(rig: Rig) -> None:
    with flushing() as flush:
        receipt = rig.topic.unknown.append(None, b"v")
        rig.topic.flush(flush)
        flush.complete()
        error = TimeoutError("too late")
        rig.topic.fail_unknown(error)
        assert flush.done.done()
        assert receipt.error is rig.topic.failure is error


def test_when_it_was_used_is_when_its_last_batch_was_opened(rig: Rig) -> None:
    rig.topic.tracked_at = 5.0
    assert (rig.topic.used_at, rig.topic.is_busy) == (5.0, False)
    rig.topic.unknown.append(None, b"v", None, 0)
    assert rig.topic.is_busy
    rig.update(view(1))
    recbuf = rig.topic.recbufs[0]
    recbuf.take_all()
    assert rig.topic.used_at == recbuf.batches[0].opened_at > 5.0
