"""Requests with few words: what most steps ask, with the rest at a value that does no harm.

Every function gives a builder, because topic ids, sessions and producers are known only while a script is played.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ottla.wire import Message, Uuid
from ottla.wire.batches import PlainRecord, encode_batch
from ottla.wire.messages import (
    CreateTopicsRequest,
    DescribeConfigsRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from tests.interop.comparison.script import Build, Step, ask
from tests.interop.comparison.world import World

TIME = 1_600_000_000_000
"""The timestamp of the first record of a batch; the others follow, one each millisecond."""
UNKNOWN_ID = Uuid(b"no such topic id")


def just(request: Message) -> Build:
    """A request that is the same for every broker."""
    return lambda _world: request


def batch(*values: bytes | None, time: int = TIME, key: bytes | None = None, **header: int | bool) -> bytes:
    """A batch as a producer sends it, each value a record."""
    records: list[PlainRecord] = [
        (offset, time + offset, key, value, []) for offset, value in enumerate(values)
    ]
    return encode_batch(records, **header)  # type: ignore[arg-type]


def produce(
    topic: str,
    records: bytes | Callable[[World], bytes] | None,
    *,
    partition: int = 0,
    acks: int = -1,
    transactional_id: str | None = None,
    topic_id: Uuid | None = None,
) -> Build:
    def build(world: World) -> Message:
        content = records(world) if callable(records) else records
        data = ProduceRequest.PartitionProduceData(index=partition, records=content)
        named = ProduceRequest.TopicProduceData(
            name=topic,
            topic_id=world.topic_id(topic) if topic_id is None else topic_id,
            partition_data=[data],
        )
        return ProduceRequest(
            transactional_id=transactional_id, acks=acks, timeout_ms=5_000, topic_data=[named]
        )

    return build


def fetch(
    topic: str,
    offset: int = 0,
    *,
    partitions: Sequence[int] = (0,),
    partition_max_bytes: int = 1 << 20,
    max_bytes: int = 1 << 20,
    min_bytes: int = 1,
    max_wait_ms: int = 100,
    isolation_level: int = 0,
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    topic_id: Uuid | None = None,
) -> Build:
    """One topic, without a session."""

    def build(world: World) -> Message:
        wanted = [
            FetchRequest.FetchPartition(
                partition=partition,
                fetch_offset=offset,
                partition_max_bytes=partition_max_bytes,
                current_leader_epoch=leader_epoch,
                last_fetched_epoch=last_fetched_epoch,
            )
            for partition in partitions
        ]
        named = FetchRequest.FetchTopic(
            topic=topic, topic_id=world.topic_id(topic) if topic_id is None else topic_id, partitions=wanted
        )
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            session_epoch=-1,
            topics=[named],
        )

    return build


def list_offsets(
    topic: str,
    timestamp: int,
    *,
    partition: int = 0,
    isolation_level: int = 0,
    leader_epoch: int = -1,
    replica_id: int = -1,
) -> Build:
    wanted = ListOffsetsRequest.ListOffsetsPartition(
        partition_index=partition, timestamp=timestamp, current_leader_epoch=leader_epoch
    )
    named = ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[wanted])
    return just(ListOffsetsRequest(replica_id=replica_id, isolation_level=isolation_level, topics=[named]))


def metadata(*topics: str, create: bool = False) -> Build:
    wanted = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
    return just(MetadataRequest(topics=wanted, allow_auto_topic_creation=create))


def metadata_by_id(topic: str | Uuid, name: str | None = None) -> Build:
    def build(world: World) -> Message:
        topic_id = topic if isinstance(topic, Uuid) else world.topic_id(topic)
        wanted = [MetadataRequest.MetadataRequestTopic(name=name, topic_id=topic_id)]
        return MetadataRequest(topics=wanted, allow_auto_topic_creation=False)

    return build


def creatable(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    config: dict[str, str | None] | None = None,
    assignments: dict[int, list[int]] | None = None,
) -> CreateTopicsRequest.CreatableTopic:
    return CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
            for key, value in (config or {}).items()
        ],
        assignments=[
            CreateTopicsRequest.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assignments or {}).items()
        ],
    )


def create(
    *topics: CreateTopicsRequest.CreatableTopic, validate_only: bool = False, timeout_ms: int = 10_000
) -> Build:
    return just(CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only))


def configs_of(
    resource_type: int,
    name: str,
    keys: list[str] | None = None,
    *,
    synonyms: bool = True,
    documentation: bool = False,
) -> Build:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=keys
    )
    return just(
        DescribeConfigsRequest(
            resources=[resource], include_synonyms=synonyms, include_documentation=documentation
        )
    )


def is_led(answer: Any) -> bool:
    """Whether every topic of a Metadata answer is there with a leader for each partition."""
    return all(
        topic.error_code == 0
        and topic.partitions
        and all(partition.error_code == 0 and partition.leader_id >= 0 for partition in topic.partitions)
        for topic in answer.topics
    )


def given(
    *topics: str,
    partitions: int = 1,
    config: dict[str, str | None] | None = None,
) -> list[Step]:
    """Topics to work with: created, and known to the broker."""
    wanted = [creatable(topic, partitions, config=config) for topic in topics]
    label = "given " + ", ".join(topics)
    return [
        *ask(label, create(*wanted), 4),
        *ask(f"{label} with leaders", metadata(*topics), 12, until=is_led),
        # A leader is named some moments before it has opened its log.
        *ask(f"{label} with logs", _ends(topics, partitions), 7, until=_all_open),
    ]


def _ends(topics: Sequence[str], partitions: int) -> Build:
    latest = [
        ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=-1)
        for index in range(partitions)
    ]
    wanted = [ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=latest) for topic in topics]
    return just(ListOffsetsRequest(topics=wanted))


def _all_open(answer: Any) -> bool:
    return all(partition.error_code == 0 for topic in answer.topics for partition in topic.partitions)
