"""A follower's fetcher against a leader that the test plays, request by request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from ottla import sim
from ottla.broker.log.log import Log
from ottla.broker.metadata.image import PartitionImage
from ottla.broker.replication.fetcher import ReplicaFetcher, agreed_end
from ottla.broker.replication.partition import Partition
from ottla.errors import ConnectionLostError
from ottla.sim.runtime import SimRuntime
from ottla.wire import Message, Uuid
from ottla.wire.messages import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from tests.broker.log.failing import FailingFileSystem
from tests.broker.log.support import NOW, append, joined, make_batch, open_log, patched

NODE, LEADER = 1, 2
ORDERS = Uuid(b"orders".ljust(16))
EPOCH = 5
SESSION = 77
LATEST, EARLIEST = -1, -2
OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER = 1, 3, 6
FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH = 70, 71
FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, UNKNOWN_TOPIC_ID = 74, 75, 100

CONFIGS = {
    "replica.fetch.backoff.ms": 1000,
    "replica.socket.timeout.ms": 30_000,
    "replica.fetch.max.bytes": 1 << 20,
    "replica.fetch.response.max.bytes": 10 << 20,
    "replica.fetch.wait.max.ms": 500,
    "replica.fetch.min.bytes": 1,
}

Entries = list[tuple[int, int]]
"""Epochs and their start offsets."""


class Configs:
    def value(self, name: str) -> Any:
        return CONFIGS[name]


@dataclass
class Sent:
    """A request that waits for the test's response."""

    request: Message
    at: float
    response: asyncio.Future[Message]

    @property
    def fetch(self) -> FetchRequest:
        assert isinstance(self.request, FetchRequest)
        return self.request

    @property
    def session(self) -> tuple[int, int]:
        return self.fetch.session_id, self.fetch.session_epoch

    @property
    def named(self) -> dict[int, tuple[int, int, int]]:
        """Of each partition that is named: offset, epoch of the last batch, log start."""
        return {
            part.partition: (part.fetch_offset, part.last_fetched_epoch, part.log_start_offset)
            for topic in self.fetch.topics
            for part in topic.partitions
        }

    @property
    def forgotten(self) -> list[int]:
        return [index for topic in self.fetch.forgotten_topics_data for index in topic.partitions]


class Link:
    def __init__(self, runtime: SimRuntime) -> None:
        self.hurried = 0
        self._clock = runtime.clock
        self._sent: asyncio.Queue[Sent] = asyncio.Queue()

    async def request(self, leader: int, request: Message, version: int, timeout: float) -> Message:
        assert (leader, timeout) == (LEADER, 30)
        sent = Sent(request, self._clock.monotonic(), asyncio.get_running_loop().create_future())
        self._sent.put_nowait(sent)
        return await sent.response

    def hurry(self, leader: int) -> None:
        self.hurried += 1

    async def sent(self) -> Sent:
        """The next request."""
        return await asyncio.wait_for(self._sent.get(), 60)

    @property
    def is_idle(self) -> bool:
        return self._sent.empty()


def fail(what: str, error: Exception) -> None:
    raise AssertionError(what) from error


class Following:
    """A node that follows one leader."""

    def __init__(self, runtime: SimRuntime) -> None:
        self.link = Link(runtime)
        self.clock = runtime.clock
        self.running = asyncio.Event()
        self.running.set()
        self.fetched: list[tuple[int, int, int]] = []
        self.fetcher = ReplicaFetcher(
            NODE,
            LEADER,
            self.link,
            runtime.clock,
            Configs(),
            broker_epoch=lambda: 31,
            now_ms=lambda: NOW,
            on_fetched=lambda partition, appended, committed: self.fetched.append(
                (partition.index, appended, committed)
            ),
            running=self.running,
            fail=fail,
        )

    def replica(self, index: int = 0, log: Log | None = None, epoch: int = EPOCH) -> Partition:
        partition = Partition(NODE, "orders", ORDERS, index, open_log() if log is None else log)
        becomes_follower(partition, epoch)
        return partition

    def follow(self, index: int = 0, log: Log | None = None, epoch: int = EPOCH) -> Partition:
        partition = self.replica(index, log, epoch)
        self.fetcher.follow(partition)
        return partition

    async def sent(self) -> Sent:
        return await self.link.sent()

    async def answer(self, sent: Sent, *results: FetchResponse.PartitionData, **top: int) -> None:
        sent.response.set_result(fetched(*results, **top))
        await settled()


def becomes_follower(partition: Partition, epoch: int, leader: int = LEADER) -> None:
    partition.become(PartitionImage((NODE, LEADER, 3), (leader,), leader, epoch, epoch))


def fetched(*results: FetchResponse.PartitionData, session_id: int = SESSION, error_code: int = 0) -> Message:
    topics = [FetchResponse.FetchableTopicResponse(topic_id=ORDERS, partitions=list(results))]
    return FetchResponse(session_id=session_id, error_code=error_code, responses=topics if results else [])


def result(
    index: int = 0,
    records: bytes | memoryview = b"",
    *,
    high_watermark: int = 0,
    log_start: int = 0,
    error: int = 0,
    diverging: tuple[int, int] | None = None,
) -> FetchResponse.PartitionData:
    parted = None
    if diverging is not None:
        parted = FetchResponse.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
    return FetchResponse.PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=high_watermark,
        log_start_offset=log_start,
        records=records,
        diverging_epoch=parted,
    )


def log_with(entries: Entries, end: int) -> Log:
    """A log of batches with one record each, written in these epochs."""
    log = open_log()
    for offset in range(end):
        epoch = max(epoch for epoch, start in entries if start <= offset)
        append(log, make_batch(), epoch=epoch)
    assert [*log.epochs.entries] == [entry for entry in entries if entry[1] < end]
    return log


def batches(log: Log, start: int, end: int) -> bytes:
    return joined(log.read(start, 1 << 20, end))


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


Body = Callable[[Following], Awaitable[None]]


def run(body: Body) -> None:
    async def main(runtime: SimRuntime) -> None:
        node = Following(runtime)
        try:
            await body(node)
        finally:
            await node.fetcher.close()

    sim.run(main, seed=1)


# Requests


def test_the_first_fetch_names_every_partition_and_begins_a_session() -> None:
    async def body(node: Following) -> None:
        log = log_with([(1, 0), (4, 2)], 3)
        log.delete_records(1)
        node.follow(0, log)
        node.follow(1)
        sent = await node.sent()
        assert sent.session == (0, 0)
        assert sent.named == {0: (3, 4, 1), 1: (0, -1, 0)}
        request = sent.fetch
        assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 10 << 20)
        assert request.replica_state is not None
        assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (NODE, 31)
        (topic,) = request.topics
        assert topic.topic_id == ORDERS
        assert {part.current_leader_epoch for part in topic.partitions} == {EPOCH}
        assert {part.partition_max_bytes for part in topic.partitions} == {1 << 20}

    run(body)


def test_what_follows_in_the_session_names_what_is_elsewhere_than_the_leader_thinks() -> None:
    async def body(node: Following) -> None:
        source = log_with([(EPOCH, 0)], 2)
        partition = node.follow(0)
        node.follow(1)
        await node.answer(await node.sent(), result(0, batches(source, 0, 2), high_watermark=1))
        assert (partition.log.log_end_offset, partition.high_watermark) == (2, 1)
        sent = await node.sent()
        assert (sent.session, sent.named) == ((SESSION, 1), {0: (2, EPOCH, 0)})
        await node.answer(sent, result(0, high_watermark=2))
        assert partition.high_watermark == 2
        sent = await node.sent()
        assert (sent.session, sent.named) == ((SESSION, 2), {})
        assert [(index, bool(appended)) for index, appended, _ in node.fetched] == [(0, True), (0, False)]

    run(body)


def test_a_partition_that_is_left_is_forgotten_and_a_new_one_hurries_the_fetch_that_is_parked() -> None:
    async def body(node: Following) -> None:
        node.follow(0)
        node.follow(1)
        sent = await node.sent()
        assert node.link.hurried == 0
        node.fetcher.leave(("orders", 0))
        node.follow(2)
        assert node.link.hurried == 1, "once is enough"
        await node.answer(sent)
        sent = await node.sent()
        assert (sent.named, sent.forgotten) == ({2: (0, -1, 0)}, [0])

    run(body)


def test_a_partition_in_its_next_epoch_is_named_again_and_not_forgotten() -> None:
    async def body(node: Following) -> None:
        partition = node.follow(0)
        sent = await node.sent()
        becomes_follower(partition, EPOCH + 1)
        node.fetcher.follow(partition)
        await node.answer(sent)
        sent = await node.sent()
        assert (sent.named, sent.forgotten) == ({0: (0, -1, 0)}, [])
        assert sent.fetch.topics[0].partitions[0].current_leader_epoch == EPOCH + 1

    run(body)


def test_a_fetcher_without_partitions_says_so_and_waits_for_one() -> None:
    async def body(node: Following) -> None:
        node.follow(0)
        sent = await node.sent()
        node.fetcher.leave(("orders", 0))
        await node.answer(sent)
        sent = await node.sent()
        assert (sent.named, sent.forgotten) == ({}, [0])
        await node.answer(sent)
        await asyncio.sleep(10)
        assert node.link.is_idle
        node.follow(1)
        sent = await node.sent()
        assert (sent.named, sent.forgotten) == ({1: (0, -1, 0)}, [])

    run(body)


# Sessions and lost connections


@pytest.mark.parametrize("code", [FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH])
def test_a_session_that_the_leader_does_not_know_is_begun_anew(code: int) -> None:
    async def body(node: Following) -> None:
        node.follow(0)
        await node.answer(await node.sent())
        await node.answer(await node.sent(), session_id=0, error_code=code)
        sent = await node.sent()
        assert (sent.session, sent.named) == ((0, 0), {0: (0, -1, 0)})

    run(body)


@pytest.mark.parametrize(
    "error", [ConnectionLostError("planted"), TimeoutError("planted"), OSError("planted")]
)
def test_after_a_lost_connection_a_new_session_is_begun_later_and_later(error: Exception) -> None:
    async def body(node: Following) -> None:
        node.follow(0)
        await node.answer(await node.sent())
        pauses = []
        for _ in range(9):
            sent = await node.sent()
            sent.response.set_exception(error)
            again = await node.sent()
            assert (again.session, again.named) == ((0, 0), {0: (0, -1, 0)})
            pauses.append(again.at - sent.at)
            again.response.set_exception(error)
        assert pauses[0] == pytest.approx(0.01)
        assert pauses == sorted(pauses)
        assert max(pauses) == pytest.approx(1.0), "replica.fetch.backoff.ms"
        sent = await node.sent()
        await node.answer(sent)
        sent = await node.sent()
        sent.response.set_exception(error)
        assert (await node.sent()).at - sent.at == pytest.approx(0.01), "all is forgiven"

    run(body)


def test_where_the_leader_has_no_room_for_a_session_everything_is_named_each_time() -> None:
    async def body(node: Following) -> None:
        node.follow(0)
        for _ in range(3):
            sent = await node.sent()
            assert (sent.session, sent.named) == ((0, 0), {0: (0, -1, 0)})
            await node.answer(sent, session_id=0)

    run(body)


# Responses


def test_a_response_does_not_count_when_the_epoch_has_changed_meanwhile() -> None:
    async def body(node: Following) -> None:
        source = log_with([(EPOCH, 0)], 2)
        partition = node.follow(0)
        sent = await node.sent()
        becomes_follower(partition, EPOCH + 1)
        await node.answer(sent, result(0, batches(source, 0, 2), high_watermark=2))
        assert (partition.log.log_end_offset, partition.high_watermark) == (0, 0)

    run(body)


def test_a_response_does_not_count_when_the_partition_is_followed_anew() -> None:
    async def body(node: Following) -> None:
        source = log_with([(EPOCH, 0)], 2)
        partition = node.follow(0)
        sent = await node.sent()
        node.fetcher.leave(partition.key)
        node.fetcher.follow(partition)
        await node.answer(sent, result(0, batches(source, 0, 2), high_watermark=2))
        assert (partition.log.log_end_offset, partition.high_watermark) == (0, 0)
        assert (await node.sent()).named == {0: (0, -1, 0)}

    run(body)


@pytest.mark.parametrize("diverging", [None, (EPOCH, 0)])
def test_a_response_does_not_count_when_the_log_ends_elsewhere_by_now(
    diverging: tuple[int, int] | None,
) -> None:
    async def body(node: Following) -> None:
        source = log_with([(EPOCH, 0)], 3)
        partition = node.follow(0)
        sent = await node.sent()
        partition.append_as_follower(batches(source, 0, 1), EPOCH, NOW)
        await node.answer(sent, result(0, batches(source, 0, 3), high_watermark=3, diverging=diverging))
        assert (partition.log.log_end_offset, partition.high_watermark) == (1, 0)
        assert (await node.sent()).named == {0: (1, EPOCH, 0)}

    run(body)


def test_batches_of_a_later_epoch_are_left_for_later_and_so_is_all_behind_them() -> None:
    async def body(node: Following) -> None:
        source = log_with([(EPOCH, 0), (EPOCH + 1, 2)], 4)
        partition = node.follow(0)
        await node.answer(await node.sent(), result(0, batches(source, 0, 4), high_watermark=4))
        assert (partition.log.log_end_offset, partition.high_watermark) == (2, 2)
        assert (await node.sent()).named == {0: (2, EPOCH, 0)}

    run(body)


def test_the_start_of_the_leaders_log_is_taken_over() -> None:
    async def body(node: Following) -> None:
        partition = node.follow(0, log_with([(EPOCH, 0)], 4))
        await node.answer(await node.sent(), result(0, high_watermark=3, log_start=2))
        assert (partition.log.log_start_offset, partition.high_watermark) == (2, 3)
        assert (await node.sent()).named == {0: (4, EPOCH, 2)}

    run(body)


def test_nothing_that_comes_is_appended_while_the_node_is_paused() -> None:
    async def body(node: Following) -> None:
        source = log_with([(EPOCH, 0)], 2)
        partition = node.follow(0)
        sent = await node.sent()
        node.running.clear()
        await node.answer(sent, result(0, batches(source, 0, 2)))
        await asyncio.sleep(10)
        assert partition.log.log_end_offset == 0
        assert node.link.is_idle
        node.running.set()
        assert (await node.sent()).named == {0: (2, EPOCH, 0)}

    run(body)


# Where logs part


@pytest.mark.parametrize(
    ("own", "end", "diverging", "expected"),
    [
        ([(5, 0)], 13, (5, 10), 10),
        ([(4, 0), (5, 10)], 13, (4, 12), 10),
        ([(4, 0), (5, 10)], 13, (4, 8), 8),
        ([(5, 0)], 13, (5, 20), 13),
        # The leader's last epoch up to this one's is unknown here: the one before it ends where the next begins.
        ([(1, 0), (2, 15), (3, 18)], 22, (1, 20), 15),
        ([(1, 0), (3, 15)], 22, (2, 20), 15),
        # Nothing as old as that is known: the leader's word is all there is.
        ([(3, 0)], 22, (1, 20), 0),
        ([], 0, (1, 20), 0),
    ],
)
def test_where_two_logs_agree(own: Entries, end: int, diverging: tuple[int, int], expected: int) -> None:
    partition = Partition(NODE, "orders", ORDERS, 0, log_with(own, end))
    assert agreed_end(partition.log, *diverging) == expected


def test_a_log_that_has_no_epochs_is_cut_where_its_leader_says() -> None:
    log = log_with([(5, 0)], 13)
    log.epochs.clear()
    partition = Partition(NODE, "orders", ORDERS, 0, log)
    assert agreed_end(partition.log, 4, 10) == 10
    assert agreed_end(partition.log, 4, 20) == 13


def test_a_log_that_parts_from_its_leaders_is_cut_and_fetched_from_there() -> None:
    async def body(node: Following) -> None:
        log = log_with([(1, 0), (2, 15), (3, 18)], 22)
        partition = node.follow(0, log)
        partition.follow(21, 0)
        sent = await node.sent()
        assert sent.named == {0: (22, 3, 0)}
        await node.answer(sent, result(0, high_watermark=30, diverging=(1, 20)))
        assert (log.log_end_offset, [*log.epochs.entries]) == (15, [(1, 0)])
        assert partition.high_watermark == 15, "what the leader says of its own counts for no log that parts"
        assert node.fetched == [(0, 0, 0)]
        sent = await node.sent()
        assert sent.named == {0: (15, 1, 0)}

    run(body)


def test_an_epoch_without_records_goes_without_any_record() -> None:
    async def body(node: Following) -> None:
        log = log_with([(1, 0)], 3)
        log.epochs.assign(2, 3)
        node.follow(0, log)
        sent = await node.sent()
        assert sent.named == {0: (3, 2, 0)}
        await node.answer(sent, result(0, diverging=(1, 3)))
        assert (await node.sent()).named == {0: (3, 1, 0)}

    run(body)


# Out of range


async def answer_offsets(node: Following, timestamp: int, offset: int, error: int = 0) -> None:
    sent = await node.sent()
    request = sent.request
    assert isinstance(request, ListOffsetsRequest)
    assert request.replica_id == NODE
    (query,) = request.topics[0].partitions
    assert (query.timestamp, query.current_leader_epoch) == (timestamp, EPOCH)
    found = ListOffsetsResponse.ListOffsetsPartitionResponse(
        partition_index=query.partition_index, offset=offset, error_code=error
    )
    topic = ListOffsetsResponse.ListOffsetsTopicResponse(name="orders", partitions=[found])
    sent.response.set_result(ListOffsetsResponse(topics=[topic]))
    await settled()


def test_a_log_that_ends_behind_its_leaders_is_cut_to_the_leaders_end() -> None:
    async def body(node: Following) -> None:
        partition = node.follow(0, log_with([(4, 0)], 10))
        await node.answer(await node.sent(), result(0, error=OFFSET_OUT_OF_RANGE))
        await answer_offsets(node, LATEST, 7)
        assert partition.log.log_end_offset == 7
        assert (await node.sent()).named == {0: (7, 4, 0)}

    run(body)


def test_a_log_that_ends_before_its_leaders_begins_is_begun_anew_there() -> None:
    async def body(node: Following) -> None:
        partition = node.follow(0, log_with([(4, 0)], 40))
        partition.follow(40, 0)
        await node.answer(await node.sent(), result(0, error=OFFSET_OUT_OF_RANGE))
        await answer_offsets(node, LATEST, 120)
        await answer_offsets(node, EARLIEST, 100)
        log = partition.log
        assert (log.log_start_offset, log.log_end_offset, log.size) == (100, 100, 0)
        assert (partition.high_watermark, log.epochs.entries) == (100, ())
        assert (await node.sent()).named == {0: (100, -1, 100)}

    run(body)


def test_a_log_that_is_in_range_again_by_now_is_fetched_on() -> None:
    async def body(node: Following) -> None:
        partition = node.follow(0, log_with([(4, 0)], 10))
        await node.answer(await node.sent(), result(0, error=OFFSET_OUT_OF_RANGE))
        await answer_offsets(node, LATEST, 12)
        await answer_offsets(node, EARLIEST, 3)
        assert partition.log.log_end_offset == 10
        assert isinstance((await node.sent()).request, FetchRequest)

    run(body)


def test_the_offsets_of_a_leader_that_is_none_any_more_cut_nothing() -> None:
    async def body(node: Following) -> None:
        partition = node.follow(0, log_with([(4, 0)], 10))
        await node.answer(await node.sent(), result(0, error=OFFSET_OUT_OF_RANGE))
        becomes_follower(partition, EPOCH + 1, leader=3)
        await answer_offsets(node, LATEST, 7)
        assert partition.log.log_end_offset == 10

    run(body)


def test_a_leader_that_does_not_tell_its_offsets_is_asked_again_later() -> None:
    async def body(node: Following) -> None:
        partition = node.follow(0, log_with([(4, 0)], 10))
        sent = await node.sent()
        await node.answer(sent, result(0, error=OFFSET_OUT_OF_RANGE))
        await answer_offsets(node, LATEST, -1, error=NOT_LEADER_OR_FOLLOWER)
        assert partition.log.log_end_offset == 10
        assert (await node.sent()).at > sent.at

    run(body)


# Errors


def test_a_fenced_follower_waits_for_the_metadata_log() -> None:
    async def body(node: Following) -> None:
        partition = node.follow(0)
        await node.answer(await node.sent(), result(0, error=FENCED_LEADER_EPOCH))
        assert not node.fetcher.partitions
        await node.answer(await node.sent())  # which forgets it
        await asyncio.sleep(60)
        assert node.link.is_idle
        becomes_follower(partition, EPOCH + 1)
        node.fetcher.follow(partition)
        assert (await node.sent()).named == {0: (0, -1, 0)}

    run(body)


def test_a_fenced_epoch_that_is_not_the_one_it_follows_in_any_more_is_nothing_to_it() -> None:
    async def body(node: Following) -> None:
        partition = node.follow(0)
        sent = await node.sent()
        becomes_follower(partition, EPOCH + 1)
        node.fetcher.follow(partition)
        await node.answer(sent, result(0, error=FENCED_LEADER_EPOCH))
        assert partition.key in node.fetcher.partitions
        assert (await node.sent()).named == {0: (0, -1, 0)}

    run(body)


@pytest.mark.parametrize(
    "code", [UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID]
)
def test_a_partition_that_fails_is_left_out_for_longer_and_longer_and_others_are_not(code: int) -> None:
    async def body(node: Following) -> None:
        node.follow(0)
        node.follow(1)
        sent = await node.sent()
        for pause in (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0):
            assert 0 in sent.named
            failed_at = sent.at
            await node.answer(sent, result(0, error=code))
            sent = await node.sent()
            assert sent.forgotten == [0]
            while 0 not in sent.named:
                await asyncio.sleep(0.01)  # as long as the leader parks the fetch of the other
                await node.answer(sent)
                sent = await node.sent()
            assert sent.at - failed_at == pytest.approx(pause, abs=0.0101)

    run(body)


def test_a_partition_that_is_fetched_again_has_its_patience_back() -> None:
    async def body(node: Following) -> None:
        node.follow(0)
        for _ in range(4):
            await node.answer(await node.sent(), result(0, error=UNKNOWN_LEADER_EPOCH))
        await node.answer(await node.sent(), result(0, high_watermark=0))
        sent = await node.sent()
        await node.answer(sent, result(0, error=UNKNOWN_LEADER_EPOCH))
        assert (await node.sent()).at - sent.at == pytest.approx(0.01)

    run(body)


def test_a_corrupt_batch_is_not_appended_and_fetched_again() -> None:
    async def body(node: Following) -> None:
        source = log_with([(EPOCH, 0)], 1)
        corrupt = patched(batches(source, 0, 1), ">b", 70, 99, new_crc=False)
        partition = node.follow(0)
        sent = await node.sent()
        await node.answer(sent, result(0, bytes(corrupt), high_watermark=1))
        assert (partition.log.log_end_offset, partition.high_watermark) == (0, 0)
        again = await node.sent()
        assert again.at - sent.at == pytest.approx(0.01)
        await node.answer(again, result(0, batches(source, 0, 1), high_watermark=1))
        assert (partition.log.log_end_offset, partition.high_watermark) == (1, 1)

    run(body)


def test_a_log_that_cannot_be_written_is_given_up_and_others_are_not() -> None:
    async def body(node: Following) -> None:
        source = log_with([(EPOCH, 0)], 1)
        fs = FailingFileSystem()
        broken = node.follow(0, open_log(fs))
        works = node.follow(1)
        fs.fail_if(lambda call, path: True)
        records = batches(source, 0, 1)
        await node.answer(await node.sent(), result(0, records), result(1, records))
        assert list(node.fetcher.partitions) == [works.key]
        assert (broken.log.log_end_offset, works.log.log_end_offset) == (0, 1)
        sent = await node.sent()
        assert (sent.named, sent.forgotten) == ({1: (1, EPOCH, 0)}, [0])

    run(body)


def test_a_closed_fetcher_asks_for_nothing_more() -> None:
    async def body(node: Following) -> None:
        node.follow(0)
        sent = await node.sent()
        await node.fetcher.close()
        assert sent.response.cancelled()
        await asyncio.sleep(10)
        assert node.link.is_idle

    run(body)
