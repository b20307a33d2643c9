"""Commits, fetches and deletions of offsets, as a shard decides them."""

from __future__ import annotations

import pytest

from ottla.broker.coordinator.groups import offset_requests
from ottla.broker.coordinator.groups.classic import Sender
from ottla.broker.coordinator.groups.records import OffsetCommitValue, decode
from ottla.broker.coordinator.shard import Parked
from ottla.errors import BrokerError, GroupIdNotFoundError, IllegalGenerationError, NonEmptyGroupError
from ottla.wire import Uuid
from ottla.wire.messages import (
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
)
from tests.broker.coordinator.groups.classic_world import subscription
from tests.broker.coordinator.groups.shards import LoneShard

TOPIC_ID, OTHER_ID = Uuid(b"t" * 16), Uuid(b"o" * 16)
Partition = OffsetCommitRequest.OffsetCommitRequestPartition


def commit(
    lone: LoneShard,
    offset: int = 5,
    *,
    version: int = 9,
    metadata: str | None = None,
    generation: int = -1,
    retention_ms: int = -1,
    topic: str = "orders",
) -> list[int]:
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=generation,
        retention_time_ms=retention_ms,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=topic,
                topic_id=TOPIC_ID,
                partitions=[
                    Partition(partition_index=0, committed_offset=offset, committed_metadata=metadata)
                ],
            )
        ],
    )
    response = lone.write(lambda shard: offset_requests.commit(shard, request, version))
    assert isinstance(response, OffsetCommitResponse)
    return [partition.error_code for each in response.topics for partition in each.partitions]


def fetch(
    lone: LoneShard, *, stable: bool = False, topic_id: Uuid = TOPIC_ID, everything: bool = False
) -> list[tuple[int, str | None, int]]:
    topics = [
        OffsetFetchRequest.OffsetFetchRequestTopics(name="orders", topic_id=topic_id, partition_indexes=[0])
    ]
    request = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None if everything else topics)
    fetched = offset_requests.fetch(lone.shard, request, stable=stable)
    return [
        (partition.committed_offset, partition.metadata, partition.error_code)
        for topic in fetched.topics
        for partition in topic.partitions
    ]


def delete(lone: LoneShard, topic: str = "orders") -> list[int]:
    request = OffsetDeleteRequest(
        group_id="g",
        topics=[
            OffsetDeleteRequest.OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)],
            )
        ],
    )
    response = lone.write(lambda shard: offset_requests.delete(shard, request))
    assert isinstance(response, OffsetDeleteResponse)
    return [partition.error_code for each in response.topics for partition in each.partitions]


def join(lone: LoneShard, protocol_type: str = "consumer") -> None:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=subscription("orders"))
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type=protocol_type,
        protocols=[protocol],
    )
    parked = lone.write(lambda shard: shard.join(request, Sender("c", "/h", 3)))
    assert isinstance(parked, Parked)
    lone.timers.advance(0)


def test_a_commit_of_no_member_makes_a_simple_group() -> None:
    lone = LoneShard()
    assert fetch(lone) == [(-1, "", 0)]
    assert commit(lone, metadata="note") == [0]
    assert fetch(lone) == [(-1, "", 0)]
    assert fetch(lone, stable=True) == [(5, "note", 0)]
    lone.commit()
    assert fetch(lone) == fetch(lone, everything=True) == [(5, "note", 0)]
    assert lone.shard.groups["g"].protocol_type == ""


@pytest.mark.parametrize(("version", "error"), [(8, IllegalGenerationError), (9, GroupIdNotFoundError)])
def test_a_member_of_no_group_cannot_commit(version: int, error: type[BrokerError]) -> None:
    with pytest.raises(error):
        commit(LoneShard(), generation=5, version=version)


def test_metadata_that_is_too_long_refuses_its_partition() -> None:
    lone = LoneShard()
    assert commit(lone, metadata="x" * 4097) == [12]
    assert list(lone.shard.groups) == ["g"]
    assert commit(lone, metadata="x" * 4096) == [0]
    assert len(lone.log) == 1


def test_the_time_to_keep_an_offset_is_written_with_it() -> None:
    lone = LoneShard()
    commit(lone, retention_ms=1000)
    _, value = decode(lone.log[0].key, lone.log[0].value)
    assert isinstance(value, OffsetCommitValue)
    assert value.expire_timestamp == lone.timers.now_ms + 1000


def test_an_offset_of_a_topic_that_was_made_again_is_not_seen() -> None:
    lone = LoneShard()
    commit(lone)
    lone.commit()
    assert fetch(lone, topic_id=OTHER_ID) == [(-1, "", 0)]


def test_an_offset_that_a_transaction_may_replace_is_unstable() -> None:
    lone = LoneShard()
    commit(lone)
    lone.commit()
    record = lone.log[0]
    lone.shard.replay_transactional(7, record.key, record.value, 1)
    assert fetch(lone) == [(5, "", 0)]
    assert fetch(lone, stable=True) == fetch(lone, stable=True, everything=True) == [(-1, "", 88)]
    lone.shard.end_transaction(7, is_commit=True, offset=2)
    assert fetch(lone, stable=True) == [(5, "", 0)]


def test_offsets_are_deleted_unless_members_need_them() -> None:
    lone = LoneShard()
    with pytest.raises(GroupIdNotFoundError):
        delete(lone)
    commit(lone)
    assert delete(lone) == [0]
    assert fetch(lone, stable=True) == [(-1, "", 0)]
    written = len(lone.log)
    assert delete(lone) == [0]
    assert len(lone.log) == written
    join(lone)
    assert delete(lone) == [86]
    assert delete(lone, "others") == [0]


def test_members_that_are_no_consumers_keep_all_offsets() -> None:
    lone = LoneShard()
    join(lone, "connect")
    with pytest.raises(NonEmptyGroupError):
        delete(lone)
