"""Fetch: a long poll ends with the append that it waits for, also one that comes right behind it.

Odd limits, ids and epochs are answered as Apache Kafka 4.3.1 answers them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.broker import Cluster
from ottla.errors import (
    OffsetOutOfRangeError,
    UnknownServerError,
    UnknownTopicIdError,
    UnsupportedVersionError,
)
from ottla.sim.network import Conditions
from ottla.wire import ZERO_UUID, Uuid
from ottla.wire.messages import FetchRequest, FetchResponse
from tests.broker.handlers.requests import TIME, connect, produce, send
from tests.broker.handlers.requests import batch as one_batch
from tests.broker.worlds import World, batch, in_simulation

WAIT_MS = 10_000

Topics = list[tuple[str | Uuid, list[FetchRequest.FetchPartition]]]


def test_an_append_right_behind_a_long_poll_is_not_missed() -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            reader = await world.client(cluster)
            writers = [await world.client(cluster) for _ in range(10)]
            for offset, writer in enumerate(writers):
                begin = world.runtime.clock.monotonic()
                fetched, produced = await asyncio.gather(
                    reader.fetch("orders", offset, max_wait=WAIT_MS), writer.produce("orders", batch(b"1"))
                )
                assert produced.error_code == 0
                assert fetched.records
                assert world.runtime.clock.monotonic() - begin < WAIT_MS / 2000

    # Everything that is sent in the same moment arrives, and is served, in the same moment.
    in_simulation(body, conditions=Conditions(min_latency=0.001, max_latency=0.001, jitter=0, cut_up=0))


def wanted(
    offset: int = 0,
    index: int = 0,
    *,
    partition_max_bytes: int = 1 << 20,
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
) -> FetchRequest.FetchPartition:
    return FetchRequest.FetchPartition(
        partition=index,
        fetch_offset=offset,
        partition_max_bytes=partition_max_bytes,
        current_leader_epoch=current_leader_epoch,
        last_fetched_epoch=last_fetched_epoch,
    )


def fetch(
    cluster: Cluster,
    *topics: tuple[str | Uuid, list[FetchRequest.FetchPartition]],
    version: int = 12,
    max_bytes: int = 1 << 20,
    isolation: int = 0,
) -> FetchResponse:
    request = FetchRequest(
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_epoch=-1,
        topics=[
            FetchRequest.FetchTopic(topic=topic, partitions=parts)
            if isinstance(topic, str)
            else FetchRequest.FetchTopic(topic_id=topic, partitions=parts)
            for topic, parts in topics
        ],
    )
    return send(cluster, request, version, FetchResponse)


def test_a_negative_limit_fails_the_partitions_that_it_is_applied_to(
    kafka: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(kafka, 2)
    for partition in (0, 1):
        produce(kafka, topic, one_batch([b"value"]), partition=partition)
    (response,) = fetch(kafka, (topic, [wanted(partition_max_bytes=-1), wanted(index=1)])).responses
    assert [part.error_code for part in response.partitions] == [UnknownServerError.code, 0]
    assert response.partitions[1].records
    # Where there is nothing to read the limit is not looked at.
    (response,) = fetch(kafka, (topic, [wanted(1, partition_max_bytes=-1)])).responses
    assert response.partitions[0].error_code == 0
    # The limit of the whole request is at zero once it has failed a partition; one batch may exceed it.
    (response,) = fetch(kafka, (topic, [wanted(), wanted(index=1)]), max_bytes=-1).responses
    assert [part.error_code for part in response.partitions] == [UnknownServerError.code, 0]
    assert response.partitions[1].records


def test_the_zero_topic_id_is_unknown_unless_another_partition_follows(
    kafka: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(kafka)
    with connect(kafka) as connection:
        topic_id = connection.topic_id(topic)
    response = fetch(kafka, (ZERO_UUID, [wanted()]), (topic_id, [wanted()]), version=13)
    assert response.error_code == 0
    assert [each.partitions[0].error_code for each in response.responses] == [0, UnknownTopicIdError.code]
    twice: Topics = [(ZERO_UUID, [wanted(), wanted(index=1)])]
    # A partition that does not exist is answered behind a topic that does not.
    followed: Topics = [(topic_id, [wanted(index=7)]), (ZERO_UUID, [wanted()])]
    for topics in (twice, followed):
        failed = fetch(kafka, *topics, version=13)
        assert (failed.error_code, failed.responses) == (UnknownServerError.code, [])


def test_a_diverging_epoch_comes_without_aborted_transactions(
    kafka: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(kafka)
    (response,) = fetch(kafka, (topic, [wanted(1000, last_fetched_epoch=0)]), isolation=1).responses
    assert response.partitions[0].diverging_epoch is not None
    assert response.partitions[0].aborted_transactions is None


def test_a_session_keeps_the_last_fetched_epoch_for_older_requests(
    kafka: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(kafka)
    named = FetchRequest.FetchTopic(topic=topic, partitions=[wanted(last_fetched_epoch=1)])
    first = send(kafka, FetchRequest(session_epoch=0, topics=[named]), 12, FetchResponse)
    again = FetchRequest(session_id=first.session_id, session_epoch=1)
    (response,) = send(kafka, again, 7, FetchResponse).responses
    assert response.partitions[0].error_code == OffsetOutOfRangeError.code
    # A place where the logs part has no field in such an response.
    named.partitions = [wanted(1000, last_fetched_epoch=0)]
    first = send(kafka, FetchRequest(session_epoch=0, topics=[named]), 12, FetchResponse)
    again = FetchRequest(session_id=first.session_id, session_epoch=1)
    failed = send(kafka, again, 7, FetchResponse)
    assert (failed.error_code, failed.session_id) == (UnsupportedVersionError.code, first.session_id)


def test_an_epoch_below_zero_says_nothing(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    (response,) = fetch(kafka, (topic, [wanted(current_leader_epoch=-5, last_fetched_epoch=-5)])).responses
    assert response.partitions[0].error_code == 0


def test_the_limit_is_filled_and_what_does_not_fit_counts_for_the_next_partition(
    kafka: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(kafka, 2)
    size = len(one_batch([b"value"]))
    for partition in (0, 0, 1):
        produce(kafka, topic, one_batch([b"value"]), partition=partition)
    parts = [wanted(), wanted(index=1)]
    (response,) = fetch(kafka, (topic, parts), max_bytes=size + 10, isolation=1).responses
    assert [len(part.records or b"") for part in response.partitions] == [size + 10, 0]
    # Less than the first batch is nothing, and then there is no word on transactions.
    (response,) = fetch(kafka, (topic, parts), max_bytes=size + size // 2, isolation=1).responses
    assert [len(part.records or b"") for part in response.partitions] == [size + size // 2, 0]
    (response,) = fetch(
        kafka, (topic, [wanted(partition_max_bytes=size), wanted(index=1)]), max_bytes=size + 10, isolation=1
    ).responses
    assert [len(part.records or b"") for part in response.partitions] == [size, 0]
    assert [part.aborted_transactions for part in response.partitions] == [[], None]
    # A limit of nothing at all is another matter.
    (response,) = fetch(kafka, (topic, parts), max_bytes=size, isolation=1).responses
    assert [part.aborted_transactions for part in response.partitions] == [[], []]


def test_a_response_ends_with_its_segment(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, segment_ms="1000")
    size = len(one_batch([b"value"]))
    for time in (TIME, TIME + 60_000, TIME + 60_001):
        produce(kafka, topic, one_batch([b"value"], time=time))
    for offset, batches in ((0, 1), (1, 2), (2, 1)):
        (response,) = fetch(kafka, (topic, [wanted(offset)])).responses
        assert len(response.partitions[0].records or b"") == batches * size
