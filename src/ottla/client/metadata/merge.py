"""How responses and hints become the next view: pure functions, from the old view to the new one.

A response may be older than what is known, because it comes from a broker that lags behind. So for one topic id
leader epochs never go back: an older partition in a response is ignored. Another topic id under the same name is a
topic that was deleted and created again, and everything known about the old one is dropped; a response with an id
that the topic had before is ignored, since ids never come back. In another cluster everything begins anew.

Not here: what is requested (tracked.py), and when (refresh_policy.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from ottla.client.metadata.view import (
    NO_EPOCH,
    NO_LEADER,
    BrokerView,
    ClusterView,
    PartitionView,
    TopicView,
)
from ottla.errors import UnknownTopicOrPartitionError, error_for
from ottla.wire import ZERO_UUID, Uuid
from ottla.wire.messages import MetadataResponse

_RELIABLE_EPOCHS_SINCE: Final = 9
"""Before, a broker could respond with the epoch of an earlier leader (KAFKA-9212), so Kafka's clients ignore it."""

_MOST_PARTITIONS: Final = 1_000_000
"""Indexes beyond come from no sane broker, and filling up to them would take all memory."""

_MOST_FORMER: Final = 8
"""Ids of a topic's earlier lives to remember: brokers lag behind by one or two."""

GONE: Final = UnknownTopicOrPartitionError.code

_Topic = MetadataResponse.MetadataResponseTopic
_Partition = MetadataResponse.MetadataResponsePartition


def merged(
    old: ClusterView, response: MetadataResponse, version: int, requested: Sequence[str] | None
) -> ClusterView:
    """The view after a response. `requested` are the topics that it is about, None for all; others stay."""
    named = {topic.name: topic for topic in response.topics if topic.name is not None}
    topics = dict(old.topics)
    is_same = response.cluster_id == old.cluster_id
    for name, topic in named.items():
        topics[name] = _merged_topic(old.topics.get(name), name, topic, version, is_same)
    for name in old.topics if requested is None else requested:
        if name not in named:
            topics[name] = _gone(old.topics.get(name), name)
    return ClusterView(
        response.cluster_id,
        response.controller_id,
        MappingProxyType({broker.node_id: _broker(broker) for broker in response.brokers}),
        MappingProxyType(topics),
    )


def hinted(
    view: ClusterView,
    topic: str | Uuid,
    partition: int,
    leader: int,
    leader_epoch: int,
    brokers: Iterable[BrokerView],
) -> ClusterView | None:
    """The view after a broker has named a newer leader in passing (KIP-951); None if that is no news."""
    name = view.topic_name(topic) if isinstance(topic, Uuid) else topic
    known = None if name is None else view.topics.get(name)
    if known is None or not 0 <= partition < len(known.partitions):
        return None
    old = known.partitions[partition]
    addresses = {**view.brokers, **{broker.node_id: broker for broker in brokers}}
    if leader_epoch <= old.leader_epoch or leader not in addresses:
        return None
    parts = list(known.partitions)
    parts[partition] = replace(old, leader=leader, leader_epoch=leader_epoch, error_code=0)
    topics = {**view.topics, known.name: replace(known, partitions=tuple(parts))}
    return replace(view, brokers=MappingProxyType(addresses), topics=MappingProxyType(topics))


def restricted(view: ClusterView, keep: Callable[[str], bool]) -> ClusterView:
    """The view without the topics that are not tracked."""
    if all(map(keep, view.topics)):
        return view
    kept = {name: topic for name, topic in view.topics.items() if keep(name)}
    return replace(view, topics=MappingProxyType(kept))


def refresh_reasons(view: ClusterView, names: Iterable[str]) -> Iterator[str]:
    """Why these topics should be requested again soon: what is missing, or has an error that may pass."""
    for name in names:
        topic = view.topics.get(name)
        if topic is None:
            yield f"topic {name} has not been requested"
        elif topic.error_code:
            if _is_retriable(topic.error_code):
                yield f"topic {name}: {_name_of(topic.error_code)}"
        else:
            yield from (
                f"partition {part.index} of {name}, leader {part.leader}: {_name_of(part.error_code)}"
                for part in topic.partitions
                if not part.has_leader or part.error_code == GONE
            )


def _merged_topic(
    old: TopicView | None, name: str, response: _Topic, version: int, is_same_cluster: bool
) -> TopicView:
    former = old.former_ids if old is not None and is_same_cluster else ()
    if old is not None and response.topic_id in former:
        return old
    if (
        old is not None
        and ZERO_UUID not in (old.topic_id, response.topic_id)
        and old.topic_id != response.topic_id
    ):
        former = (*former, old.topic_id)[-_MOST_FORMER:] if is_same_cluster else ()
        old = None  # created again: epochs begin anew
    known = () if old is None else old.partitions
    topic_id = response.topic_id
    if old is not None and topic_id == ZERO_UUID:
        topic_id = old.topic_id
    # A response with an error has no partitions; those that are known still lead to the records.
    if not response.error_code or response.partitions:
        known = tuple(_merged_partitions(known, response.partitions, version))
    return TopicView(name, topic_id, response.is_internal, response.error_code, known, former)


def _merged_partitions(
    known: Sequence[PartitionView], named: Iterable[_Partition], version: int
) -> Iterator[PartitionView]:
    by_index = {part.partition_index: part for part in named if 0 <= part.partition_index < _MOST_PARTITIONS}
    for index in range(max(len(known), max(by_index, default=-1) + 1)):
        old = known[index] if index < len(known) else None
        response = by_index.get(index)
        if response is None:
            old = old or PartitionView(index, NO_LEADER, NO_EPOCH)
            yield replace(old, error_code=GONE)
        else:
            yield _merged_partition(old, response, version)


def _merged_partition(old: PartitionView | None, response: _Partition, version: int) -> PartitionView:
    epoch = response.leader_epoch if version >= _RELIABLE_EPOCHS_SINCE else NO_EPOCH
    if old is not None and epoch < old.leader_epoch:
        if epoch != NO_EPOCH:
            return old
        if response.leader_id == NO_LEADER:
            epoch = (
                old.leader_epoch
            )  # it says nothing about a leader, so what was known of epochs still holds
    return PartitionView(
        response.partition_index,
        response.leader_id,
        epoch,
        tuple(response.replica_nodes),
        tuple(response.isr_nodes),
        tuple(response.offline_replicas),
        response.error_code,
    )


def _gone(old: TopicView | None, name: str) -> TopicView:
    return replace(old or TopicView(name), error_code=GONE)


def _broker(broker: MetadataResponse.MetadataResponseBroker) -> BrokerView:
    return BrokerView(broker.node_id, broker.host, broker.port, broker.rack)


def _is_retriable(code: int) -> bool:
    kind = error_for(code)
    return kind is not None and kind.retriable


def _name_of(code: int) -> str:
    kind = error_for(code)
    return "no error" if kind is None else getattr(kind, "name", f"error code {code}")
