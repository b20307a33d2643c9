"""OffsetAndMetadata: an offset of a group, and the messages that carry it: OffsetCommit and OffsetFetch.

Values in, values out: sending them, and what follows from an error, is commits.py's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.client.group.reactions import Reaction, after_offset_fetch
from ottla.client.topic_partition import TopicPartition
from ottla.errors import KafkaError, from_code
from ottla.wire import ZERO_UUID, Uuid
from ottla.wire.messages import OffsetCommitRequest, OffsetFetchRequest, OffsetFetchResponse

if TYPE_CHECKING:
    from ottla.client.consume.partition_records import ReaderPosition
    from ottla.client.group.membership import GroupMetadata
    from ottla.client.metadata import TopicView

_NO_EPOCH: Final = -1


class OffsetAndMetadata(NamedTuple):
    """The offset of the next record to process, and what the program wants to remember with it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = _NO_EPOCH
    """Of the last record before it (KIP-320): by that the next reader knows an old leader, and a truncated log."""
    topic_id: Uuid = ZERO_UUID
    """The topic that it is an offset of, which the client knows: another one of the same name is not to get it."""

    @classmethod
    def at(cls, reached: ReaderPosition) -> OffsetAndMetadata:
        return cls(reached.offset, "", reached.leader_epoch, reached.topic_id)


def commit_request(
    member: GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> OffsetCommitRequest:
    """What a member commits."""
    # Where an id is not known, all go by their names, with version 9. Older brokers know only that one: there an
    # offset can get to another topic for as long as metadata has not heard of it.
    topics: dict[str, OffsetCommitRequest.OffsetCommitRequestTopic] = {}
    for tp, (offset, metadata, epoch, topic_id) in offsets.items():
        if tp.topic not in topics:
            topics[tp.topic] = OffsetCommitRequest.OffsetCommitRequestTopic(
                name=tp.topic, topic_id=topic_id, partitions=[]
            )
        topics[tp.topic].partitions.append(
            OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=offset,
                committed_leader_epoch=epoch,
                committed_metadata=metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        topics=list(topics.values()),
    )


def fetch_request(
    member: GroupMetadata,
    partitions: Iterable[TopicPartition],
    known: Mapping[str, TopicView],
    *,
    as_member: bool,
) -> OffsetFetchRequest:
    """What asks for the offsets of partitions, by the ids that metadata knows; `as_member`, at the member's epoch."""
    topics: dict[str, OffsetFetchRequest.OffsetFetchRequestTopics] = {}
    for tp in partitions:
        if tp.topic not in topics:
            view = known.get(tp.topic)
            topics[tp.topic] = OffsetFetchRequest.OffsetFetchRequestTopics(
                name=tp.topic,
                topic_id=ZERO_UUID if view is None or view.error_code else view.topic_id,
                partition_indexes=[],
            )
        topics[tp.topic].partition_indexes.append(tp.partition)
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=member.group_id, topics=list(topics.values()))
    if as_member:
        group.member_id, group.member_epoch = member.member_id, member.generation
    # KIP-447: whatever is read, an offset that an open transaction is about to replace is none to begin at.
    return OffsetFetchRequest(groups=[group], require_stable=True)


def read_fetched(
    request: OffsetFetchRequest, response: OffsetFetchResponse, wanted: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, OffsetAndMetadata | None], KafkaError | None, Reaction]:
    """What is committed, None where nothing is; and of several errors the one that weighs most, with what to do."""
    requested = [topic for group in request.groups for topic in group.topics or ()]
    names = {topic.topic_id: topic.name for topic in requested}
    ids = {topic.name: topic.topic_id for topic in requested}
    found: dict[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(wanted)
    worst, error = Reaction.GO_ON, None
    for group in response.groups:
        codes: list[tuple[int, str | None, int | None]] = [(group.error_code, None, None)]
        for topic in group.topics:
            topic_name = topic.name or names[topic.topic_id]
            for each in topic.partitions:
                codes.append((each.error_code, topic_name, each.partition_index))
                if each.committed_offset >= 0:
                    found[TopicPartition(topic_name, each.partition_index)] = OffsetAndMetadata(
                        each.committed_offset,
                        each.metadata or "",
                        each.committed_leader_epoch,
                        ids[topic_name],
                    )
        for code, name, partition in codes:
            reaction = after_offset_fetch(code)
            if worst < reaction:
                worst, error = reaction, from_code(code, topic=name, partition=partition)
    return found, error, worst
