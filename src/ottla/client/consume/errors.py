"""What a consumer does about the error codes that brokers give for a partition, and the errors it makes itself."""

from __future__ import annotations

from enum import Enum

from ottla.client.metadata import ClusterView
from ottla.client.topic_partition import TopicPartition
from ottla.errors import (
    BrokerError,
    CorruptBatchError,
    CorruptMessageError,
    DataLossError,
    KafkaError,
    NoSuchPartitionError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    from_code,
)


class Remedy(Enum):
    RETRY = "after a back-off"
    REFRESH = "after a back-off, with new metadata"
    RESET = "the offset is gone, or was never there"
    RAISE = "only the program that reads can do something about it"


def remedy_for(error: KafkaError) -> Remedy:
    """By Kafka's own kinds of errors; retriable in Kafka means that the same request may succeed later."""
    if isinstance(error, OffsetOutOfRangeError):
        return Remedy.RESET
    if isinstance(error, CorruptMessageError):
        # Retriable when producing. A log that a broker cannot read stays what it is.
        return Remedy.RAISE
    if not isinstance(error, BrokerError):
        return Remedy.RETRY
    if error.invalid_metadata or isinstance(error, UnknownTopicIdError):
        return Remedy.REFRESH
    return Remedy.RETRY if error.retriable else Remedy.RAISE


def not_found(missing: TopicPartition | str, view: ClusterView, seconds: float) -> KafkaError:
    """A topic or partition that was subscribed to and has not come for so long, though brokers respond."""
    if isinstance(missing, TopicPartition):
        count = len(view.topics[missing.topic].partitions)
        return NoSuchPartitionError(topic=missing.topic, partition=missing.partition, partitions=count)
    if (topic := view.topics.get(missing)) is not None:
        error = from_code(topic.error_code, topic=missing)
        if error is not None and not isinstance(error, UnknownTopicOrPartitionError):
            return error
    detail = f"It did not exist for {seconds:g} s (default_api_timeout_ms): create it, or check the name."
    return UnknownTopicOrPartitionError(topic=missing, detail=detail)


def out_of_range(tp: TopicPartition, reason: str, first: int, last: int) -> OffsetOutOfRangeError:
    return OffsetOutOfRangeError(
        topic=tp.topic,
        partition=tp.partition,
        detail=f"{reason[:1].upper()}{reason[1:]}: there are {first} to {last}. Seek to one of these, or set "
        "auto_offset_reset to something else than 'none'.",
    )


def no_whole_batch(tp: TopicPartition, offset: int, size: int) -> CorruptBatchError:
    return CorruptBatchError(
        f"topic {tp.topic}, partition {tp.partition}: {size} bytes came for offset {offset}, and no whole batch is "
        "among them; raise max_partition_fetch_bytes and fetch_max_bytes, or seek behind it",
        topic=tp.topic,
        partition=tp.partition,
        offset=offset,
        next_offset=offset + 1,
    )


def truncated(tp: TopicPartition, old: int, new: int, *, resets: bool) -> DataLossError:
    then = f"reading goes on at {new}" if resets else "auto_offset_reset is 'none': seek to go on"
    return DataLossError(
        f"topic {tp.topic}, partition {tp.partition}: the log was truncated: records up to offset {old} were "
        f"read, but those from {new} on are others now; {then}",
        topic=tp.topic,
        partition=tp.partition,
        wanted_offset=old,
        new_offset=new,
    )


def epoch_never_reached(tp: TopicPartition, known: int, wanted: int) -> UnknownLeaderEpochError:
    return UnknownLeaderEpochError(
        topic=tp.topic,
        partition=tp.partition,
        detail=f"It has not for a while: the offset to go on at was committed, or read, in leader epoch {wanted}, "
        f"and the partition is in {known}. It may be of another cluster. Seek, or reset the group, to go on.",
    )


def another_topic(tp: TopicPartition, old: int, then: str, new: int = -1) -> DataLossError:
    return DataLossError(
        f"topic {tp.topic} was deleted and created again: offset {old} of partition {tp.partition} means nothing in "
        f"it; {then}",
        topic=tp.topic,
        partition=tp.partition,
        wanted_offset=old,
        new_offset=new,
    )
