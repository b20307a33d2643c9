"""Markers on their way to the leaders of partitions: who gets which, when they are sent again, and when no more.

The leaders are played here: each request waits until a test answers it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from ottla import sim
from ottla.broker.coordinator.transactions.markers import MarkerSender, PendingEnd
from ottla.broker.coordinator.transactions.state import ProducerIdAndEpoch
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.metadata.records import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ottla.errors import ConnectionLostError
from ottla.wire import Message, Uuid
from ottla.wire.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse

ORDERS_0, ORDERS_1, PAYMENTS_0 = ("orders", 0), ("orders", 1), ("payments", 0)
TOPICS = {"orders": Uuid(b"o" * 16), "payments": Uuid(b"p" * 16)}
NOT_LEADER, NOT_ENOUGH, INVALID_EPOCH, COORDINATOR_FENCED, OLD_FORMAT = 6, 19, 47, 52, 43


class Exchange:
    """One request to a leader."""

    def __init__(self, leader: int, request: WriteTxnMarkersRequest, version: int, timeout: float) -> None:
        self.leader, self.request, self.version, self.timeout = leader, request, version, timeout
        self.response: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    @property
    def partitions(self) -> list[tuple[str, int]]:
        return [
            (topic.name, index)
            for marker in self.request.markers
            for topic in marker.topics
            for index in topic.partition_indexes
        ]

    def answer(self, **codes: int) -> None:
        """With success, but for what is named: `orders_0=6`."""
        self.response.set_result(
            WriteTxnMarkersResponse(
                markers=[
                    WriteTxnMarkersResponse.WritableTxnMarkerResult(
                        producer_id=marker.producer_id,
                        topics=[
                            WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(
                                name=topic.name,
                                partitions=[
                                    WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(
                                        partition_index=index,
                                        error_code=codes.get(f"{topic.name}_{index}", 0),
                                    )
                                    for index in topic.partition_indexes
                                ],
                            )
                            for topic in marker.topics
                        ],
                    )
                    for marker in self.request.markers
                ]
            )
        )


class Leaders:
    """The nodes, the image of them, and the sender."""

    def __init__(self, runtime: sim.SimRuntime) -> None:
        self.clock = runtime.clock
        self.image = MetadataImage()
        self.image.apply_all(
            [
                *(TopicRecord(name, topic_id) for name, topic_id in TOPICS.items()),
                PartitionRecord(TOPICS["orders"], 0, (1, 2), (1, 2), 1),
                PartitionRecord(TOPICS["orders"], 1, (1, 2), (1, 2), 2),
                PartitionRecord(TOPICS["payments"], 0, (1, 2), (1, 2), 1),
            ]
        )
        self.exchanges: list[Exchange] = []
        self.written: list[str] = []
        self._tasks: list[asyncio.Task[object]] = []
        self.sender = MarkerSender(self.image, self, self.clock, lambda: 30.0, self._spawn)

    def _spawn(self, work: Coroutine[Any, Any, object]) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(work))

    async def request(self, leader: int, request: Message, version: int, timeout: float) -> Message:
        assert isinstance(request, WriteTxnMarkersRequest)
        exchange = Exchange(leader, request, version, timeout)
        self.exchanges.append(exchange)
        return await exchange.response

    def lead(self, topic: str, index: int, leader: int) -> None:
        """Another node leads a partition; -1 is none."""
        self.image.apply_all([PartitionChangeRecord(TOPICS[topic], index, leader=leader)])
        self.sender.flush()

    def delete(self, topic: str) -> None:
        self.image.apply_all([RemoveTopicRecord(TOPICS[topic])])
        self.sender.flush()

    def end(self, name: str, *partitions: tuple[str, int], shard: int = 0, producer: int = 7) -> PendingEnd:
        end = PendingEnd(
            transactional_id=name,
            shard=shard,
            producer=ProducerIdAndEpoch(producer, 3),
            is_commit=True,
            coordinator_epoch=5,
            transaction_version=2,
            remaining=dict.fromkeys(partitions),
            on_written=lambda: self.written.append(name),
        )
        self.sender.send(end)
        return end

    async def settle(self) -> list[Exchange]:
        """What leaders have got since the last time."""
        for _ in range(10):
            await asyncio.sleep(0)
        got, self.exchanges = self.exchanges, []
        return sorted(got, key=lambda exchange: exchange.leader)

    async def close(self) -> None:
        self.sender.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def play(story: Callable[[Leaders], Awaitable[None]]) -> None:
    async def main(runtime: sim.SimRuntime) -> None:
        leaders = Leaders(runtime)
        try:
            await story(leaders)
        finally:
            await leaders.close()

    sim.run(main, seed=1)


def test_each_leader_gets_the_markers_of_its_partitions() -> None:
    async def story(leaders: Leaders) -> None:
        end = leaders.end("a", ORDERS_0, ORDERS_1, PAYMENTS_0)
        one, two = await leaders.settle()
        assert (one.leader, two.leader) == (1, 2)
        assert (one.partitions, two.partitions) == ([ORDERS_0, PAYMENTS_0], [ORDERS_1])
        (marker,) = one.request.markers
        assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (7, 3, True)
        assert (marker.coordinator_epoch, marker.transaction_version, one.version) == (5, 2, 2)
        one.answer()
        await leaders.settle()
        assert (list(end.remaining), leaders.written) == ([ORDERS_1], [])
        two.answer()
        assert await leaders.settle() == []
        assert leaders.written == ["a"]

    play(story)


def test_a_transaction_without_partitions_has_all_its_markers() -> None:
    async def story(leaders: Leaders) -> None:
        leaders.end("a")
        assert leaders.written == ["a"]
        assert await leaders.settle() == []

    play(story)


def test_markers_that_come_while_a_leader_is_busy_leave_together() -> None:
    async def story(leaders: Leaders) -> None:
        leaders.end("a", ORDERS_0)
        (first,) = await leaders.settle()
        leaders.end("b", ORDERS_0, producer=8)
        leaders.end("c", PAYMENTS_0, producer=9)
        assert await leaders.settle() == []
        first.answer()
        (second,) = await leaders.settle()
        assert [marker.producer_id for marker in second.request.markers] == [8, 9]
        second.answer()
        await leaders.settle()
        assert leaders.written == ["a", "b", "c"]

    play(story)


@pytest.mark.parametrize("code", [3, NOT_LEADER, 7, NOT_ENOUGH, 20, 56, -1])
def test_a_marker_that_a_leader_does_not_take_now_is_sent_again(code: int) -> None:
    async def story(leaders: Leaders) -> None:
        leaders.end("a", ORDERS_0, PAYMENTS_0)
        (first,) = await leaders.settle()
        first.answer(orders_0=code)
        assert await leaders.settle() == []
        await leaders.clock.sleep(1)
        (second,) = await leaders.settle()
        assert second.partitions == [ORDERS_0]
        second.answer()
        await leaders.settle()
        assert leaders.written == ["a"]

    play(story)


def test_a_marker_goes_to_the_leader_that_follows() -> None:
    async def story(leaders: Leaders) -> None:
        leaders.end("a", ORDERS_0)
        (first,) = await leaders.settle()
        leaders.lead("orders", 0, 2)
        first.answer(orders_0=NOT_LEADER)
        await leaders.clock.sleep(1)
        (second,) = await leaders.settle()
        assert (second.leader, second.partitions) == (2, [ORDERS_0])

    play(story)


def test_a_marker_without_a_leader_waits_for_one() -> None:
    async def story(leaders: Leaders) -> None:
        leaders.lead("orders", 0, -1)
        leaders.end("a", ORDERS_0, ORDERS_1)
        (first,) = await leaders.settle()
        assert first.partitions == [ORDERS_1]
        first.answer()
        await leaders.clock.sleep(60)
        assert await leaders.settle() == []
        leaders.lead("orders", 0, 2)
        (second,) = await leaders.settle()
        assert (second.leader, second.partitions) == (2, [ORDERS_0])

    play(story)


@pytest.mark.parametrize("error", [ConnectionLostError("gone"), ConnectionRefusedError(), TimeoutError()])
def test_a_leader_that_does_not_answer_gets_them_again(error: Exception) -> None:
    async def story(leaders: Leaders) -> None:
        leaders.end("a", ORDERS_0, ORDERS_1)
        one, two = await leaders.settle()
        one.response.set_exception(error)
        two.answer()
        await leaders.clock.sleep(1)
        (again,) = await leaders.settle()
        assert again.partitions == [ORDERS_0]
        again.answer()
        await leaders.settle()
        assert leaders.written == ["a"]

    play(story)


@pytest.mark.parametrize("in_flight", [True, False])
def test_a_partition_that_is_deleted_needs_no_marker(in_flight: bool) -> None:
    async def story(leaders: Leaders) -> None:
        leaders.lead("orders", 0, 1 if in_flight else -1)
        leaders.end("a", ORDERS_0)
        sent = await leaders.settle()
        leaders.delete("orders")
        if in_flight:
            sent[0].answer(orders_0=3)
            await leaders.clock.sleep(1)
        assert await leaders.settle() == []
        assert leaders.written == ["a"]

    play(story)


def test_a_partition_of_an_old_format_has_nothing_to_end() -> None:
    async def story(leaders: Leaders) -> None:
        leaders.end("a", ORDERS_0)
        (first,) = await leaders.settle()
        first.answer(orders_0=OLD_FORMAT)
        await leaders.settle()
        assert leaders.written == ["a"]

    play(story)


@pytest.mark.parametrize("code", [INVALID_EPOCH, COORDINATOR_FENCED])
def test_a_fenced_end_stays_prepared(code: int, caplog: pytest.LogCaptureFixture) -> None:
    async def story(leaders: Leaders) -> None:
        leaders.lead("payments", 0, -1)
        leaders.end("a", ORDERS_0, ORDERS_1, PAYMENTS_0)
        leaders.end("b", ORDERS_1, producer=8)
        one, two = await leaders.settle()
        one.answer(orders_0=code)
        await leaders.settle()
        leaders.lead("payments", 0, 1)
        two.answer()
        await leaders.clock.sleep(60)
        assert [each.request.markers[0].producer_id for each in await leaders.settle()] == [8]
        assert leaders.written == []

    play(story)
    assert f"stays prepared: orders-0 refuses its marker with error code {code}" in caplog.text


def test_the_markers_of_a_shard_that_is_dropped_are_sent_no_more() -> None:
    async def story(leaders: Leaders) -> None:
        leaders.end("a", ORDERS_0)
        leaders.end("b", ORDERS_1, shard=1, producer=8)
        one, two = await leaders.settle()
        leaders.end("c", ORDERS_0, producer=9)
        leaders.sender.drop(0)
        # The next coordinator of the shard may be this node again, in another epoch.
        leaders.end("a", ORDERS_0)
        one.answer()
        two.answer()
        (again,) = await leaders.settle()
        assert [marker.producer_id for marker in again.request.markers] == [7]
        assert leaders.written == ["b"]
        again.answer()
        await leaders.settle()
        assert leaders.written == ["b", "a"]

    play(story)


def test_a_paused_node_sends_nothing() -> None:
    async def story(leaders: Leaders) -> None:
        leaders.sender.pause()
        leaders.end("a", ORDERS_0)
        assert await leaders.settle() == []
        leaders.sender.resume()
        (sent,) = await leaders.settle()
        assert sent.partitions == [ORDERS_0]

    play(story)


def test_a_sender_that_is_closed_sends_no_more() -> None:
    async def story(leaders: Leaders) -> None:
        leaders.end("a", ORDERS_0)
        (first,) = await leaders.settle()
        first.answer(orders_0=NOT_LEADER)
        await leaders.settle()
        leaders.sender.close()
        await leaders.clock.sleep(60)
        assert await leaders.settle() == []
        assert leaders.written == []

    play(story)
