"""ListOffsets: the ends of a log, offsets by time, versions, and who answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker import Cluster, error
from ottla.wire.messages import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from tests.broker.handlers.requests import TIME, batch, produce, send

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)
NOTHING = (0, -1, -1, -1)
Partition = ListOffsetsRequest.ListOffsetsPartition


def offsets(
    cluster: Cluster,
    topic: str,
    *wanted: Partition,
    version: int = 11,
    replica: int = -1,
    isolation: int = 0,
    node: int = 1,
) -> list[tuple[int, int, int, int]]:
    """Error, timestamp, offset and leader epoch for each partition that was asked for."""
    topics = [ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=list(wanted))]
    request = ListOffsetsRequest(replica_id=replica, isolation_level=isolation, topics=topics)
    (response,) = send(cluster, request, version, ListOffsetsResponse, node=node).topics
    assert response.name == topic
    return [(part.error_code, part.timestamp, part.offset, part.leader_epoch) for part in response.partitions]


def at(timestamp: int, partition: int = 0, epoch: int = -1) -> Partition:
    return Partition(partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch)


@pytest.fixture
def topic(kafka: Cluster, new_topic: Callable[..., str]) -> str:
    """Three batches of two records, ten milliseconds apart."""
    name = new_topic(kafka)
    for number in range(3):
        produce(kafka, name, batch([b"a", b"b"], time=TIME + 10 * number))
    return name


def test_the_latest_offset_is_the_high_watermark_and_the_earliest_the_start(
    kafka: Cluster, topic: str
) -> None:
    assert offsets(kafka, topic, at(LATEST)) == [(0, -1, 6, 0)]
    assert offsets(kafka, topic, at(EARLIEST)) == [(0, -1, 0, 0)]
    assert offsets(kafka, topic, at(EARLIEST_LOCAL)) == [(0, -1, 0, 0)]


def test_a_time_gives_the_first_record_that_is_not_older(kafka: Cluster, topic: str) -> None:
    assert offsets(kafka, topic, at(0)) == [(0, TIME, 0, 0)]
    assert offsets(kafka, topic, at(TIME + 11)) == [(0, TIME + 11, 3, 0)]
    assert offsets(kafka, topic, at(TIME + 12)) == [(0, TIME + 20, 4, 0)]
    assert offsets(kafka, topic, at(TIME + 22)) == [NOTHING]


def test_the_largest_timestamp_is_found_with_its_offset(kafka: Cluster, topic: str) -> None:
    produce(kafka, topic, batch([b"older"], time=TIME))
    assert offsets(kafka, topic, at(MAX_TIMESTAMP)) == [(0, TIME + 21, 5, 0)]


def test_an_empty_log_has_ends_but_no_times(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    assert offsets(kafka, topic, at(LATEST)) == [(0, -1, 0, 0)]
    assert offsets(kafka, topic, at(EARLIEST)) == [(0, -1, 0, 0)]
    assert offsets(kafka, topic, at(MAX_TIMESTAMP)) == [NOTHING]
    assert offsets(kafka, topic, at(5)) == [NOTHING]


def test_nothing_is_tiered(kafka: Cluster, topic: str) -> None:
    assert offsets(kafka, topic, at(LATEST_TIERED)) == [NOTHING]
    assert offsets(kafka, topic, at(EARLIEST_PENDING_UPLOAD)) == [NOTHING]


@pytest.mark.parametrize(
    ("timestamp", "since"),
    [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING_UPLOAD, 11)],
)
def test_a_special_time_is_understood_since_its_version(
    kafka: Cluster, topic: str, timestamp: int, since: int
) -> None:
    assert offsets(kafka, topic, at(timestamp), version=since - 1) == [(35, -1, -1, -1)]
    assert offsets(kafka, topic, at(timestamp), version=since)[0][0] == 0


def test_a_negative_time_without_a_meaning_is_refused(kafka: Cluster, topic: str) -> None:
    assert offsets(kafka, topic, at(-7)) == [(35, -1, -1, -1)]


def test_results_have_epochs_since_version_4(kafka: Cluster, topic: str) -> None:
    assert offsets(kafka, topic, at(LATEST), version=1) == [(0, -1, 6, -1)]
    assert offsets(kafka, topic, at(LATEST), version=4) == [(0, -1, 6, 0)]


def test_the_earliest_offset_follows_deleted_records(kafka: Cluster, topic: str) -> None:
    part = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=3)
    wanted = DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[part])
    send(kafka, DeleteRecordsRequest(topics=[wanted], timeout_ms=1000), 2, DeleteRecordsResponse)
    assert offsets(kafka, topic, at(EARLIEST)) == [(0, -1, 3, 0)]
    assert offsets(kafka, topic, at(0)) == [(0, TIME + 11, 3, 0)]


def test_a_partition_named_twice_is_refused_once(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, 2)
    answers = offsets(kafka, topic, at(LATEST, 0), at(LATEST, 1), at(EARLIEST, 0))
    assert answers == [(42, -1, -1, -1), (0, -1, 0, 0)]


def test_what_does_not_exist_is_unknown(kafka: Cluster, topic: str) -> None:
    assert offsets(kafka, topic, at(LATEST, 7)) == [(3, -1, -1, -1)]
    assert offsets(kafka, "nowhere", at(LATEST)) == [(3, -1, -1, -1)]


def test_a_client_with_another_epoch_is_fenced_or_ahead(
    kafka3: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(kafka3)
    node = next(node for node in kafka3.nodes if node != kafka3.leader(topic))
    kafka3.move_leader(topic, 0, node)
    assert offsets(kafka3, topic, at(LATEST), node=node) == [(0, -1, 0, 1)]
    assert offsets(kafka3, topic, at(LATEST, epoch=1), node=node) == [(0, -1, 0, 1)]
    assert offsets(kafka3, topic, at(LATEST, epoch=0), node=node) == [(74, -1, -1, -1)]
    assert offsets(kafka3, topic, at(LATEST, epoch=2), node=node) == [(75, -1, -1, -1)]
    # Only -1 stands for no epoch.
    assert offsets(kafka3, topic, at(LATEST, epoch=-2), node=node) == [(74, -1, -1, -1)]


def test_an_isolation_level_that_does_not_exist_is_an_error_of_the_server(kafka: Cluster, topic: str) -> None:
    assert offsets(kafka, topic, at(LATEST), isolation=1) == [(0, -1, 6, 0)]
    assert offsets(kafka, topic, at(LATEST), isolation=7) == [(-1, -1, -1, -1)]


def test_only_the_leader_answers_except_to_a_debugger(kafka3: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka3)
    leader = kafka3.leader(topic)
    follower = next(node for node in kafka3.nodes if node != leader)
    assert offsets(kafka3, topic, at(LATEST), node=follower) == [(6, -1, -1, -1)]
    assert offsets(kafka3, topic, at(LATEST), node=follower, replica=-2)[0][:3] == (0, -1, 0)


def test_a_fault_is_answered_for_its_partition_alone(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, 2)
    fault = kafka.faults.add(
        "ListOffsets", topic=topic, partition=1, action=error("LEADER_NOT_AVAILABLE"), count=1
    )
    assert offsets(kafka, topic, at(LATEST, 0), at(LATEST, 1)) == [(0, -1, 0, 0), (5, -1, -1, -1)]
    assert fault.hits == 1
    assert offsets(kafka, topic, at(LATEST, 1)) == [(0, -1, 0, 0)]
