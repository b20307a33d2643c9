"""Which partitions a query reads: its topics by name or by pattern, or partitions one by one.

One Metadata request a time, without the client's patience for topics that are missing: the OffsetReader knows
whether a missing topic is an error, and tries again. Internal topics are left out, and a pattern takes every
topic in whose name it is found anywhere: both as the JVM connector does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.client.topic_partition import TopicPartition
from ottla.errors import KafkaError, UnknownTopicOrPartitionError, from_code
from ottla.spark.options.topics import Topics
from ottla.wire.messages import MetadataRequest, MetadataResponse

if TYPE_CHECKING:
    from ottla.client.blocking.client import Client


@dataclass(frozen=True, slots=True)
class Discovered:
    """What there is of the topics that a query wants to read, and the names of topics that are not there."""

    partitions: frozenset[TopicPartition]
    missing: frozenset[str]

    def all_there(self) -> frozenset[TopicPartition]:
        """The partitions, if every topic exists."""
        for name in sorted(self.missing):
            raise UnknownTopicOrPartitionError(topic=name)
        return self.partitions


def discover(client: Client, topics: Topics, timeout: float | None = None) -> Discovered:
    """From one Metadata response, within so many seconds. An error of a topic other than its absence is raised."""
    if topics.pattern is not None:
        return _matching(_metadata(client, None, timeout), re.compile(topics.pattern))
    response = _metadata(client, topics.subscribe or sorted({topic for topic, _ in topics.assign}), timeout)
    found = _found(response)
    missing = frozenset(
        topic.name or "" for topic in response.topics if topic.error_code == UnknownTopicOrPartitionError.code
    )
    # Partitions that do not exist are not an error: they are read once they do.
    return Discovered(found & frozenset(topics.assign) if topics.assign else found, missing)


def _metadata(
    client: Client, names: tuple[str, ...] | list[str] | None, timeout: float | None
) -> MetadataResponse:
    one = MetadataRequest.MetadataRequestTopic
    request = MetadataRequest(
        topics=None if names is None else [one(name=name) for name in names],
        allow_auto_topic_creation=False,
    )
    response = client.request(request, timeout=timeout)
    assert isinstance(response, MetadataResponse)
    return response


def _matching(response: MetadataResponse, pattern: re.Pattern[str]) -> Discovered:
    found = _found(response, pattern)
    return Discovered(found, frozenset())


def _found(response: MetadataResponse, pattern: re.Pattern[str] | None = None) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic.name or "", partition.partition_index)
        for topic in response.topics
        if not topic.is_internal and (pattern is None or pattern.search(topic.name or ""))
        if _exists(topic)
        for partition in topic.partitions
    )


def _exists(topic: MetadataResponse.MetadataResponseTopic) -> bool:
    error: KafkaError | None = from_code(topic.error_code, topic=topic.name)
    if error is None:
        return True
    if isinstance(error, UnknownTopicOrPartitionError):
        return False
    raise error
