"""Metadata: the brokers that are alive, the topics asked for, and who leads their partitions.

`topics` null is all of them, since version 1 an empty list is none (before, it was all). Topics are named, or since
version 12 given by id (KIP-516); one id in the request, and names count no more. A topic that nobody knows is
created on the side where both broker and request allow it, and UNKNOWN_TOPIC_OR_PARTITION in any case: the client
asks again. In version 0 replicas that are down are left out and reported as an error; later ones list them as
offline (since 5). What one may do (KIP-430) is everything, here; asked of the cluster in versions 8 to 10 only.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.internal_topics import creatable, is_internal
from ottla.broker.handlers import handles
from ottla.broker.metadata.describe import (
    CLUSTER_OPERATIONS,
    TOPIC_OPERATIONS,
    alive_broker,
    controller_id,
    leader_of,
    offline_replicas,
)
from ottla.broker.metadata.image import MetadataImage, PartitionImage, TopicImage
from ottla.broker.metadata.names import why_invalid
from ottla.broker.metadata.records import NO_LEADER
from ottla.broker.server.addressing import NO_PARTITION
from ottla.errors import (
    BrokerError,
    InvalidRequestError,
    InvalidTopicError,
    LeaderNotAvailableError,
    ReplicaNotAvailableError,
    UnknownServerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from ottla.wire import ZERO_UUID, Uuid
from ottla.wire.messages import MetadataRequest, MetadataResponse

if TYPE_CHECKING:
    from ottla.broker.cluster.node import Node
    from ottla.broker.server.dispatch import Call

_log = logging.getLogger("ottla.broker.handlers.metadata")

_EMPTY_IS_NONE_SINCE: Final = 1
_BY_ID_SINCE: Final = 12
_CLUSTER_OPERATIONS_IN: Final = range(8, 11)

Topic = MetadataResponse.MetadataResponseTopic
Partition = MetadataResponse.MetadataResponsePartition


def _refuse(request: MetadataRequest, error: BrokerError) -> MetadataResponse:
    return MetadataResponse(
        topics=[
            Topic(name=topic.name or "", topic_id=topic.topic_id, error_code=error.code)
            for topic in request.topics or []
        ],
        error_code=error.code,
    )


@handles(MetadataRequest, versions=range(14), refuse=_refuse)
def metadata(node: Node, request: MetadataRequest, call: Call) -> MetadataResponse:
    image = node.image
    response = MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                node_id=broker.id, host=broker.host, port=broker.port, rack=broker.rack
            )
            for broker in image.alive_brokers()
        ],
        cluster_id=node.cluster_id,
        controller_id=controller_id(image),
        topics=_topics(node, request, call),
    )
    if request.include_cluster_authorized_operations and call.version in _CLUSTER_OPERATIONS_IN:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _topics(node: Node, request: MetadataRequest, call: Call) -> list[Topic]:
    image = node.image
    if not request.topics and (request.topics is None or call.version < _EMPTY_IS_NONE_SINCE):
        return _described(image.topics.values(), node, request, call)
    wanted = request.topics or []
    if call.version < _BY_ID_SINCE:
        _check_named(wanted, call.version)
    ids = dict.fromkeys(topic.topic_id for topic in wanted if topic.topic_id != ZERO_UUID)
    if ids:
        known = [image.topics_by_id[topic_id] for topic_id in ids if topic_id in image.topics_by_id]
        return _unknown_ids(image, ids) + _described(known, node, request, call)
    names = dict.fromkeys(_name(topic) for topic in wanted)
    known = [image.topics[name] for name in names if name in image.topics]
    missing = [name for name in names if name not in image.topics]
    if missing and request.allow_auto_topic_creation and node.config.value("auto.create.topics.enable"):
        _create(node, [name for name in missing if why_invalid(name) is None])
    return _described(known, node, request, call) + [_missing(name, request) for name in missing]


def _check_named(wanted: Iterable[MetadataRequest.MetadataRequestTopic], version: int) -> None:
    """Versions 10 and 11 have the field for ids, but were never allowed to use it."""
    for topic in wanted:
        if topic.name is None:
            raise InvalidRequestError(f"Topic name can not be null for version {version}")
        if topic.topic_id != ZERO_UUID:
            raise InvalidRequestError(f"Topic IDs are not supported in requests for version {version}")


def _name(topic: MetadataRequest.MetadataRequestTopic) -> str:
    if topic.name is None:
        raise UnknownServerError("a topic has neither a name nor an id")  # what Kafka stumbles over
    return topic.name


def _unknown_ids(image: MetadataImage, ids: Iterable[Uuid]) -> list[Topic]:
    return [
        Topic(error_code=UnknownTopicIdError.code, name=None, topic_id=topic_id)
        for topic_id in ids
        if topic_id not in image.topics_by_id
    ]


def _missing(name: str, request: MetadataRequest) -> Topic:
    error = UnknownTopicOrPartitionError if why_invalid(name) is None else InvalidTopicError
    topic = Topic(error_code=error.code, name=name, is_internal=is_internal(name))
    if request.include_topic_authorized_operations:
        topic.topic_authorized_operations = TOPIC_OPERATIONS
    return topic


def _described(topics: Iterable[TopicImage], node: Node, request: MetadataRequest, call: Call) -> list[Topic]:
    described = []
    for topic in topics:
        answer = Topic(name=topic.name, topic_id=topic.id, is_internal=is_internal(topic.name))
        if request.include_topic_authorized_operations:
            answer.topic_authorized_operations = TOPIC_OPERATIONS
        try:
            call.check(topic.name, NO_PARTITION)
            answer.partitions = [
                _partition(node.image, index, partition, call.version)
                for index, partition in sorted(topic.partitions.items())
            ]
        except BrokerError as error:
            answer.error_code = error.code
        described.append(answer)
    return described


def _partition(image: MetadataImage, index: int, partition: PartitionImage, version: int) -> Partition:
    replicas, isr = list(partition.replicas), list(partition.isr)
    if version == 0:
        replicas = [replica for replica in replicas if alive_broker(image, replica) is not None]
        isr = [replica for replica in isr if alive_broker(image, replica) is not None]
    answer = Partition(
        partition_index=index,
        leader_id=leader_of(image, partition),
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline_replicas(image, partition),
    )
    if answer.leader_id == NO_LEADER:
        answer.error_code = LeaderNotAvailableError.code
    elif len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
        answer.error_code = ReplicaNotAvailableError.code
    return answer


def _create(node: Node, names: list[str]) -> None:
    if names:
        node.spawn(_created(node, names))


async def _created(node: Node, names: list[str]) -> None:
    answer = await node.link.create_topics([creatable(name, node.config) for name in names])
    for topic in answer.topics:
        if topic.error_code:
            _log.info("node %s: topic %s was not created: %s", node.id, topic.name, topic.error_message)
