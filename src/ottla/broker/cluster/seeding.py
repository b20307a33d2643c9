"""What is in a partition, put there and read without any client: for tests that are about something else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ottla.broker.configs import TopicConfigs, log_config
from ottla.broker.log.validation import only_batch
from ottla.broker.replication.partition import FetchTimes, Partition
from ottla.wire.batches import Headers, encode_batch
from ottla.wire.records import Record, decode_fetch
from ottla.wire.resources import ConfigResourceType

if TYPE_CHECKING:
    from ottla.broker.cluster.node import Node
    from ottla.broker.metadata.image import MetadataImage, TopicImage
    from ottla.runtime import Clock

Seed = bytes | tuple[bytes | None, bytes | None] | tuple[bytes | None, bytes | None, Headers]
"""A value, (key, value), or (key, value, headers)."""
SeedFields = tuple[bytes | None, bytes | None, Headers]
"""Key, value and headers."""

_MOST_RECORDS = 1000
_READ_BYTES = 1 << 24
_ACKS_LEADER = 1


@contextmanager
def replicas(
    nodes: Mapping[int, Node],
    image: MetadataImage,
    topic: str,
    index: int,
    clock: Clock,
) -> Iterator[dict[int, Partition]]:
    """The replicas on the nodes that run; where a node has not heard of one yet, it is opened for the moment."""
    known = image.topics[topic]
    found: dict[int, Partition] = {}
    opened: list[tuple[Node, Partition]] = []
    for node_id in known.partitions[index].replicas:
        node = nodes.get(node_id)
        if node is None:
            continue
        replica = node.replicas.partitions.get((topic, index))
        if replica is not None and replica.topic_id != known.id:
            continue  # it still has a topic of the same name that was deleted
        if replica is None:
            replica = _open(node, image, known, index)
            replica.become(known.partitions[index], clock.monotonic())
            opened.append((node, replica))
        found[node_id] = replica
    try:
        yield found
    finally:
        for node, replica in opened:
            node.replicas.expect(replica)


def _open(node: Node, image: MetadataImage, topic: TopicImage, index: int) -> Partition:
    overrides = image.config_overrides(ConfigResourceType.TOPIC, topic.name)
    config = log_config(TopicConfigs(overrides, node.configs.broker))
    log = node.replicas.open_log(topic.name, index, topic.id, config, node.context.now_ms())
    # Whatever is in it was put there by an earlier seed, on every replica.
    return Partition(node.id, topic.name, topic.id, index, log, high_watermark=log.log_end_offset)


def append(
    replicas: Mapping[int, Partition], leader: Node, records: Sequence[SeedFields], clock: Clock
) -> int:
    """Appends records on every replica in sync, so that they can be seen at once; the first offset."""
    now_ms = leader.context.now_ms()
    if leader.id not in replicas:
        raise RuntimeError(f"node {leader.id} has not heard yet that the topic was deleted and made again")
    replica = replicas[leader.id]
    replica.check_leader()
    first = replica.log.log_end_offset
    for batch in map(only_batch, batches(records, now_ms)):
        leader.replicas.append(replica, batch, _ACKS_LEADER, now_ms)
    _replicate(replica, replicas, leader, clock)
    return first


def _replicate(source: Partition, replicas: Mapping[int, Partition], leader: Node, clock: Clock) -> None:
    now_ms = leader.context.now_ms()
    times = FetchTimes(clock.monotonic())
    end_offset = source.log.log_end_offset
    for node_id, replica in replicas.items():
        if (
            replica is source
            or node_id not in source.image.isr
            or replica.leader_epoch != source.leader_epoch
        ):
            continue
        while replica.log.log_end_offset < end_offset:
            for part in source.log.read(replica.log.log_end_offset, _READ_BYTES, at_least_one=True).parts:
                replica.append_as_follower(part, source.leader_epoch, now_ms)
        replica.follow(end_offset, source.log.log_start_offset)
        epoch = source.followers[node_id].broker_epoch
        log = replica.log
        leader.replicas.follower_fetched(
            source, node_id, log.log_end_offset, log.log_start_offset, times, epoch
        )


def batches(records: Sequence[SeedFields], now_ms: int) -> Iterator[bytearray]:
    """Records as a producer would send them."""
    for start in range(0, len(records), _MOST_RECORDS):
        plain = [
            (number, now_ms, *fields) for number, fields in enumerate(records[start : start + _MOST_RECORDS])
        ]
        yield bytearray(encode_batch(plain))


def dump(partition: Partition) -> list[Record]:
    """Every record below the high watermark that no aborted transaction wrote."""
    found: list[Record] = []
    offset, end = partition.log.log_start_offset, partition.last_stable_offset
    while offset < end:
        part = partition.read(offset, _READ_BYTES, committed=True, at_least_one=True)
        if not part.size:
            break
        aborted = partition.log.aborted(offset, part.next_offset)
        records = decode_fetch(
            b"".join(part.parts), partition.topic, partition.index, offset=offset, aborted=aborted
        )
        found += records
        offset = records.next_offset
    return found


def fields_of(record: Seed) -> SeedFields:
    match record:
        case bytes():
            return None, record, []
        case (bytes() | None as key, bytes() | None as value):
            return key, value, []
        case (bytes() | None as key, bytes() | None as value, list() | tuple() as headers):
            return key, value, headers
    raise TypeError(
        f"record {record!r:.100}: b'value', (b'key', b'value') or (b'key', b'value', [('header', b'value')]) is meant"
    )
